import Foundation
import Handlers
import PushwakeCommands
import TestThreads
import Testing
import XMPPAccount

private struct Refused: Handler {
    static let id = "mail.refused"
    static let retry = RetryPolicy.never
    func run(_ call: borrowing Call<TimerFired>) throws { throw CocoaError(.fileNoSuchFile) }
}

private struct Sent: Handler {
    static let id = "mail.sent"
    func run(_ call: borrowing Call<TimerFired>) throws {}
}

/// What `inspect` shows first, and what it once showed wrong.
@Suite(.serialized, .ownThread, .timeLimit(.minutes(2))) struct InspectHeadTests {
    private let path: String
    private let store: HandlerStore
    private let fired = TimerFired(dueAt: Timestamp(milliseconds: 7))

    init() throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "inspect-\(UUID())").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        path = folder + "/store.db"
        store = try HandlerStore(
            path: path, registry: HandlerRegistry([Refused.self, Sent.self]), synchronous: .normal)
    }

    private func contents(limit: Int = 20) throws -> StoreContents {
        try StoreContents(StoreReader(path: path, schemas: Account.schemas), limit: limit)
    }

    private func refused() throws -> AnyHandlerID {
        try store.step { step in
            let id = try step.bind(Refused().durable)
            try step.end(id, .result, with: fired)
            return AnyHandlerID(id)
        }
    }

    @Test("H33 inspect says first what is wrong, with the command that shows it, and what goes on")
    func head() throws {
        for _ in 1...3 { _ = try refused() }
        try store.step { step in
            try step.bind(Sent().durable)
            try step.schedule(Sent().durable, after: .seconds(3600))
        }
        let lines = try contents().text(TerminalStyle()).description.split(separator: "\n").map(String.init)
        #expect(lines[1].hasSuffix("store.db"))
        #expect(lines[2].contains("open in 1 process ("), "\(lines[2])")
        #expect(
            lines[3] == "! 3 quarantined: mail.refused 3   pushwake handler list --state quarantined",
            "\(lines[3])")
        #expect(lines[4].hasPrefix("  2 wait, 0 run; the next is due in "), "\(lines[4])")
        #expect(lines[5].hasPrefix("  last hour: "), "\(lines[5])")
    }

    @Test("W8 inspect shows among the last endings one that ended just now, however old its row is")
    func endings() throws {
        let old = try refused()
        try store.step { step in
            for _ in 0..<1200 { try step.end(step.bind(Sent().durable), .result, with: fired) }
        }
        try store.step { try $0.repair(old, .discard, by: RepairAuthor("ada")) }
        #expect(try contents(limit: 5).lastEndings.map(\.row).contains(old.rawValue))
    }

    @Test("W8 inspect shows the calendar of a timer that follows one, and no period")
    func calendar() throws {
        try store.step { _ = try $0.schedule(Sent().durable, on: .daily(at: 9, in: "UTC")) }
        let contents = try contents()
        #expect(contents.timers.shown.map(\.calendar) == ["'0 9 * * *' in UTC"])
        #expect(contents.timers.shown.map(\.period) == [nil])
        let text = contents.text(TerminalStyle()).description
        #expect(text.contains("by '0 9 * * *' in UTC") && !text.contains("every 0 ms"), "\(text)")
    }
}
