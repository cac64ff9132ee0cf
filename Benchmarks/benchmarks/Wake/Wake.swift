import FoundationEssentials
import TestServers
import XMPPTestKit

/// One wake of one program, from before its exec until it was seen to have ended.
struct Wake {
    /// What the program says at its end.
    private struct Report: Decodable {
        let timings: [String: Int64]
    }

    /// What a wake is broken into, in this order.
    enum Part: String, CaseIterable {
        case exec
        case open
        case connect
        case tls = "TLS"
        case resume = "authenticate + resume"
        case handle = "first handler committed"
        case drain
        case exit
    }

    /// In milliseconds.
    let total: Double
    /// In milliseconds; what a program does not tell apart is missing.
    let parts: [Part: Double]
    /// When the session was resumed, in nanoseconds of the monotonic clock.
    let resumedAt: Int64
    /// In MiB; 0 where the program does not say.
    let peak: Double

    /// Starts a program and waits for its end.
    ///
    /// - Parameter ends: The mark at which each part ends, for those that the program tells apart.
    init(
        _ program: String, _ arguments: [String], environment: [String: String] = [:],
        ends: [(part: Part, mark: String)]
    ) throws {
        let begin = ServerTime.monotonicNanoseconds
        let child = try ChildProcess(
            program, arguments, environment: .inheriting(environment), output: .pipe, endsWithParent: false)
        let text = try child.output?.readToEnd(deadline: .now + .seconds(60)) ?? ""
        let ending = try child.waitUntilExit(deadline: .now + .seconds(30))
        guard ending.succeeded, let line = text.split(separator: "\n").first(where: { $0.hasPrefix("{") }),
            let marks = try? JSONDecoder().decode(Report.self, from: Data(line.utf8)).timings,
            let resumed = marks["resumed"], marks["handled"] != nil
        else { throw BenchmarkError("\(program) \(ending) and said: \(text)") }
        total = ending.elapsed / .milliseconds(1)
        var parts: [Part: Double] = [:]
        var last = begin
        for (part, name) in ends {
            guard let mark = marks[name] else { throw BenchmarkError("\(program) never reached '\(name)'") }
            parts[part] = Double(mark - last) / 1_000_000
            last = mark
        }
        parts[.exit] = total - Double(last - begin) / 1_000_000
        self.parts = parts
        resumedAt = resumed
        peak = Self.peak(in: text)
    }

    private static func peak(in text: String) -> Double {
        let words = text.split(whereSeparator: { $0 == " " || $0 == "\n" })
        let kibibytes = words.first { $0.hasPrefix("peak-kib=") }.flatMap { Double($0.dropFirst(9)) }
        return (kibibytes ?? 0) / 1024
    }
}

/// What passed a line until a session was resumed.
struct WakeLine {
    /// How often the client had to wait for the server: to be accepted, and once for each flight.
    let roundTrips: Int
    /// How long the server took for its answers to TLS and to the login, in milliseconds.
    let server: [Wake.Part: Double]

    /// - Parameters:
    ///   - records: The connections of one wake.
    init(_ records: [LoopbackProxy.Record], until end: Int64) {
        var flights: [(sent: Int64, answered: Int64)] = []
        for record in records {
            var wasFromClient = false
            for passage in record.passages where passage.at < end {
                if passage.isFromClient {
                    if wasFromClient {
                        flights[flights.count - 1].sent = passage.at
                    } else {
                        flights.append((passage.at, passage.at))
                    }
                } else if !flights.isEmpty {
                    flights[flights.count - 1].answered = passage.at
                }
                wasFromClient = passage.isFromClient
            }
        }
        roundTrips = records.count + flights.count
        let times = flights.map { Double($0.answered - $0.sent) / 1_000_000 }
        // TLS has the first flight, the login the others.
        server = [.tls: times.first ?? 0, .resume: times.dropFirst().reduce(0, +)]
    }
}
