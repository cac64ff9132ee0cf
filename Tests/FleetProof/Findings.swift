import Foundation
import Simulation
import XMPPCore

/// What a run has shown.
struct Findings: Encodable {
    /// How long accounts were away, in seconds.
    struct Waits: Encodable {
        var count: Int
        var p50: Double
        var p99: Double
        var longest: Double

        init?(_ milliseconds: [Int64]) {
            guard let last = milliseconds.max() else { return nil }
            let sorted = milliseconds.sorted()
            func share(_ percent: Int) -> Double { Double(sorted[(sorted.count - 1) * percent / 100]) / 1000 }
            (count, p50, p99, longest) = (sorted.count, share(50), share(99), Double(last) / 1000)
        }

        var text: String {
            String(format: "p50 %.2f s, p99 %.2f s, longest %.2f s, of %d", p50, p99, longest, count)
        }
    }

    var machines: Int
    var isOfNamespaces: Bool
    var accounts: Int
    var seed: UInt64
    var seconds: Int
    var messages: Int
    var handlers: Int
    var faults: [String: Int]
    /// What must be zero, in the order of the text.
    var wrongs: [Wrong]
    /// How long the accounts of a lost machine had no stream.
    var resumed: [String: Waits]
    /// Each loss of a machine, in the order of time.
    var losses: [MachineLoss] = []
    /// How long messages were not answered that waited at a promotion, from there on, or were sent in the second after it.
    var promoted: Waits?
    /// How long the primary's place was empty.
    var promotions: Waits?
    /// Messages that were answered in a second without faults.
    var calmRate: Double?
    var isComplete: Bool
    /// What the server saw of some sessions that were new, and of the account of each kind of loss that waited longest.
    var stories: [String] = []

    struct MachineLoss: Encodable {
        var kind: Faults.Kind
        /// In seconds after the start.
        var at: Double
        /// How long its accounts had no stream.
        var resumed: Waits?
    }

    struct Wrong: Encodable {
        var what: String
        var count: Int
    }

    var isProven: Bool { isComplete && wrongs.allSatisfy { $0.count == 0 } }

    var text: String {
        var lines = [
            "\(messages) messages and \(handlers) handlers in \(seconds) s; "
                + Faults.Kind.allCases.map { "\($0.rawValue) \(faults[$0.rawValue, default: 0])" }.joined(
                    separator: ", ")
        ]
        lines += wrongs.map { "  \($0.what): \($0.count)" } + stories
        for kind in Faults.Kind.allCases {
            if let waits = resumed[kind.rawValue] {
                lines.append("  accounts without stream after \(kind.rawValue): \(waits.text)")
            }
        }
        if let promotions { lines.append("  without primary: \(promotions.text)") }
        if let promoted {
            lines.append("  answers to messages at a promotion and in the second after it: \(promoted.text)")
        }
        if let calmRate { lines.append("  answered between faults: \(Int(calmRate)) messages/s") }
        lines.append(isProven ? "nothing lost, nothing repeated" : "FAILED")
        return lines.joined(separator: "\n")
    }
}

extension Findings {
    /// The time in milliseconds above which the server's view of an account is printed.
    private static let isLong: Int64 = 8000
    /// The same for messages after a promotion.
    private static let isSlow: Int64 = 2000
    /// How long after a promotion messages count as sent in it, in milliseconds.
    private static let afterPromotion: Int64 = 1000

    init(
        _ fleet: Fleet, _ faults: Faults, from begin: Int64, seconds: Int, calmRate: Double?,
        isComplete: Bool
    ) throws {
        let sent = fleet.peer.sent
        let losses = faults.losses
        let toFinish = sent.indices.count { $0 % 5 == 0 }
        func number(_ sql: String) throws -> Int { Int(try fleet.query(sql)) ?? -1 }
        let streams = Streams(fleet, from: begin)
        (machines, isOfNamespaces, accounts) = (
            fleet.members.count, fleet.servers.network != nil, fleet.size.accounts
        )
        (seed, self.seconds, messages, handlers) = (fleet.size.seed, seconds, sent.count, toFinish)
        self.faults = Dictionary(losses.map { ($0.kind.rawValue, 1) }, uniquingKeysWith: +)
        wrongs = try [
            Wrong(what: "messages not answered", count: sent.count { $0.answers == 0 }),
            Wrong(what: "messages answered twice", count: sent.count { $0.answers > 1 }),
            Wrong(
                what: "second answers lost or repeated",
                count: sent.count { $0.secondAnswers != ($0.isAnsweredTwice ? 1 : 0) }),
            Wrong(
                what: "messages not handled",
                count: sent.count - number("SELECT count(DISTINCT name) FROM handled")),
            Wrong(
                what: "messages handled twice",
                count: number("SELECT count(*) - count(DISTINCT name) FROM handled")),
            Wrong(
                what: "handlers not ended",
                count: toFinish - number("SELECT count(DISTINCT name) FROM finished")),
            Wrong(
                what: "handlers ended twice",
                count: number("SELECT count(*) - count(DISTINCT name) FROM finished")),
            Wrong(what: "commits of a fenced machine", count: number("SELECT count(*) FROM stale")),
            Wrong(what: "sessions bound again", count: streams.boundAgain.count),
            Wrong(what: "faults that did not happen", count: faults.waiting.count),
        ]
        stories = streams.boundAgain.prefix(5).map {
            "  \(streams.story(of: $0.account, around: $0.at, from: begin))"
        }
        resumed = [:]
        let away = losses.map { loss in
            (
                loss: loss,
                waits: loss.accounts.compactMap { account in
                    streams.next(of: account, after: loss.at).map {
                        (time: $0 - loss.at, account: account, loss: loss.at)
                    }
                }
            )
        }
        self.losses = away.filter { $0.loss.kind != .primary }.map { loss, waits in
            MachineLoss(
                kind: loss.kind, at: Double(loss.at - begin) / 1000, resumed: Waits(waits.map(\.time)))
        }
        for kind in Faults.Kind.allCases {
            let waits = away.filter { $0.loss.kind == kind }.flatMap(\.waits)
            resumed[kind.rawValue] = Waits(waits.map(\.time))
            if let longest = waits.max(by: { $0.time < $1.time }), longest.time > Self.isLong {
                stories.append(
                    "  \(kind.rawValue) \(streams.story(of: longest.account, around: longest.loss, from: begin))"
                )
            }
        }
        let promotionTimes = losses.compactMap { loss in loss.endedAt.map { (begin: loss.at, end: $0) } }
        promotions = Waits(promotionTimes.map { $0.end - $0.begin })
        let late = promotionTimes.flatMap { promotion in
            sent.compactMap { message -> (time: Int64, account: Int, loss: Int64)? in
                // What was sent before the promotion waits from there on.
                let start = max(message.at, promotion.end)
                guard start <= promotion.end + Self.afterPromotion, let answer = message.answeredAt,
                    answer >= promotion.end
                else { return nil }
                return (answer - start, message.account, promotion.begin)
            }
        }
        promoted = Waits(late.map(\.time))
        if let longest = late.max(by: { $0.time < $1.time }), longest.time > Self.isSlow {
            stories.append(
                "  promotion \(streams.story(of: longest.account, around: longest.loss, from: begin))")
        }
        self.calmRate = calmRate
        self.isComplete = isComplete
    }
}

/// What the XMPP server saw of the streams of the accounts.
private struct Streams {
    private var events: [Int: [(at: Int64, text: String)]] = [:]
    /// When streams of each account started.
    private var starts: [Int: [Int64]] = [:]
    /// Sessions that were bound after the first of each account.
    private(set) var boundAgain: [(account: Int, at: Int64)] = []

    /// - Parameter begin: Before it, sessions end that were not stored yet.
    init(_ fleet: Fleet, from begin: Int64) {
        var bound: Set<Int> = []
        for entry in fleet.servers.server.log.entries {
            guard let name = entry.jid?.local?.description, name.hasPrefix("u"),
                let account = Int(name.dropFirst())
            else { continue }
            let time = entry.time.milliseconds
            events[account, default: []].append((time, "\(entry.event.rawValue) on \(entry.connection)"))
            guard entry.event == .bound || entry.event == .resumed else { continue }
            starts[account, default: []].append(time)
            if entry.event == .bound, !bound.insert(account).inserted, time >= begin {
                boundAgain.append((account, time))
            }
        }
    }

    /// Returns what the server saw of an account shortly before and after a time, in milliseconds after the start.
    func story(of account: Int, around time: Int64, from begin: Int64) -> String {
        let events = events[account, default: []]
        let middle = events.firstIndex { $0.at >= time } ?? events.count
        let near = events[max(0, middle - 10)..<min(events.count, middle + 20)]
        return "u\(account) at \(time - begin): "
            + near.map { "\($0.at - begin) \($0.text)" }.joined(separator: ", ")
    }

    func next(of account: Int, after time: Int64) -> Int64? { starts[account]?.first { $0 >= time } }
}
