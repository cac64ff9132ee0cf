// Measures OMEMO beside a C program that does the whole job, and decides nothing. A program of its own, because it links
// libomemo-c, which is under the GPL.
//
//     omemo-benchmarks [prefix]

import FoundationEssentials
import Glibc
import Handlers
@testable import Omemo
import XMPPAccount
import XMPPCore

@main
private enum OmemoBenchmarks {
    /// How many messages share a commit; the second is what a step of an account takes at most.
    static let groups = [64, 512]
    static let rounds = 51

    static func main() throws {
        let prefix = CommandLine.arguments.dropFirst().first ?? ""
        let folder = ".build/omemo-bench-\(getpid())"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        func pair() throws -> Pair { try Pair((folder + "/" + UUID().uuidString).made()) }
        func wanted(_ name: String) -> Bool { name.hasPrefix(prefix) || prefix.hasPrefix(name) }
        let body = String(repeating: "x", count: 100)
        let python = wanted("omemo/python") || prefix.isEmpty ? PythonPeer.rates(500) : nil
        for (name, run) in [("encrypt", encrypting), ("decrypt", decrypting)] {
            for group in groups
            where wanted("omemo/\(name)-\(group)") || wanted("omemo/python-\(name)-\(group)") {
                let rates = try run(pair(), body, group)
                let (ours, floor) = (rates.wall.ours, rates.wall.floor)
                line(
                    "omemo/\(name)-\(group)", "/s", ours, "C whole job", floor, ours / floor, "at least 0.7")
                // Without the wait for the disk, and whatever else the machine does.
                let (busy, busyFloor) = (rates.processor.ours, rates.processor.floor)
                line(
                    "omemo/\(name)-\(group)-processor", "/s", busy, "C whole job", busyFloor,
                    busy / busyFloor, "none")
                guard let python, group == groups[0] else { continue }
                let peer = name == "encrypt" ? python.encrypt : python.decrypt
                line(
                    "omemo/python-\(name)-\(group)", "/s", ours, "python-omemo", peer, ours / peer,
                    "at least 1")
            }
        }
        if wanted("omemo/set-up-100") { try setUp(pair()) }
        if wanted("omemo/hostile-text") {
            let made = try (folder + "/" + UUID().uuidString).made()
            try HostileStanzas(made).run { name, marks, plain in
                line(
                    "omemo/hostile-text/\(name)", " ms", marks, "as many a", plain, plain / marks,
                    "at least 0.333")
            }
        }
        if wanted("omemo/parts") { try Parts(pair(), body).run() }
    }

    private static func line(
        _ name: String, _ unit: String, _ ours: Double, _ other: String, _ reference: Double, _ ratio: Double,
        _ goal: String
    ) {
        func short(_ number: Double) -> String {
            number < 1000 ? "\((number * 10).rounded() / 10)" : "\(Int(number))"
        }
        print(
            "\(name)  ours \(short(ours))\(unit)  \(other) \(short(reference))\(unit)  ratio \((ratio * 100).rounded() / 100)  goal \(goal)"
        )
    }

    /// Milliseconds from a hundred bundles to the first message in the outbox, beside key agreement and encryption alone.
    private static func setUp(_ pair: Pair) throws {
        let many = try SetUp()
        let own = try pair.a.store.step { try pair.a.omemo.ownDevice.own(in: $0) }!
        var times: ([Double], [Double]) = ([], [])
        for _ in 0..<11 {
            times.0.append(seconds(try ContinuousClock().measure { try many.ours(pair.a) }))
            try many.forget(pair.a)
            times.1.append(seconds(try ContinuousClock().measure { try many.primitives(own) }))
        }
        let (ours, floor) = (times.0.sorted()[5] * 1000, times.1.sorted()[5] * 1000)
        line("omemo/set-up-100", " ms", ours, "its primitives", floor, ours / floor, "at most 1.5")
    }

    private static func encrypting(_ pair: Pair, _ body: String, _ group: Int) throws -> Rates {
        let floor = try Floor(pair.a)
        let to = pair.b.account.configuration.jid
        // What the C program encrypts, ours decrypts.
        try floor.encrypt(sample, body, to: to)
        try pair.b.take(floor.sent(sample))
        try checkHeard(pair.b.heard(), body)
        let prepare = {
            try pair.a.clear()
            try floor.clear()
        }
        return try compare(group, prepare: prepare) {
            try pair.a.store.step { step in
                for _ in 0..<group { _ = try pair.a.omemo.send(OmemoContent(body: body), to: to, in: step) }
            }
        } floor: {
            try floor.encrypt(group, body, to: to)
        }
    }

    private static func decrypting(_ pair: Pair, _ body: String, _ group: Int) throws -> Rates {
        let floor = try Floor(pair.b)
        let to = pair.b.account.configuration.jid
        func made(_ count: Int) throws -> Arriving {
            try pair.a.store.step { step in
                for _ in 0..<count { _ = try pair.a.omemo.send(OmemoContent(body: body), to: to, in: step) }
            }
            return try Arriving(pair.a.sent())
        }
        var arriving = try made(sample)
        // Both decrypt the same.
        try pair.b.take(arriving.stanzas)
        try floor.decrypt(arriving)
        try checkHeard(pair.b.heard(), body)
        try checkHeard(floor.heard(), body)
        let prepare = {
            try pair.b.clear()
            try floor.clear()
            arriving = try made(group)
        }
        return try compare(group, prepare: prepare) {
            try pair.b.take(arriving.stanzas)
        } floor: {
            try floor.decrypt(arriving)
        }
    }

    /// How many messages show that both sides do the same job.
    private static let sample = 3

    private static func checkHeard(_ lines: String, _ body: String) throws {
        let lines = lines.split(separator: "\n")
        guard lines.count == sample,
            lines.allSatisfy({ $0.hasSuffix(" \(OmemoTrust.blind.rawValue) \(body)") })
        else {
            throw Floor.Failure(reason: "one side does not read what the other one wrote: \(lines)")
        }
    }

    /// Messages a second of time on the clock, and of time of the processor.
    struct Rates {
        var wall = (ours: 0.0, floor: 0.0)
        var processor = (ours: 0.0, floor: 0.0)
    }

    /// The median rates of both sides, in turns.
    private static func compare(
        _ group: Int, prepare: () throws -> Void, _ ours: () throws -> Void, floor: () throws -> Void
    ) throws -> Rates {
        var (mine, its) = ([(Double, Double)](), [(Double, Double)]())
        for _ in 0..<rounds {
            try prepare()
            mine.append(try times(ours))
            its.append(try times(floor))
        }
        func rate(_ times: [(Double, Double)], _ time: ((Double, Double)) -> Double) -> Double {
            Double(group) / times.map(time).sorted()[rounds / 2]
        }
        return Rates(
            wall: (rate(mine, \.0), rate(its, \.0)), processor: (rate(mine, \.1), rate(its, \.1)))
    }

    /// Seconds on the clock and of this thread's processor time.
    private static func times(_ body: () throws -> Void) throws -> (Double, Double) {
        let before = processorTime()
        let wall = seconds(try ContinuousClock().measure(body))
        return (wall, processorTime() - before)
    }

    private static func processorTime() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    private static func seconds(_ duration: Duration) -> Double {
        Double(duration.components.seconds) + Double(duration.components.attoseconds) / 1e18
    }
}

extension String {
    /// The folder of that name, made.
    fileprivate func made() throws -> String {
        try FileManager.default.createDirectory(atPath: self, withIntermediateDirectories: true)
        return self
    }
}
