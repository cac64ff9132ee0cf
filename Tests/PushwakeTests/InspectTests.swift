import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPTestKit

/// A person's way to see and repair what was quarantined or parked.
@Suite(.ownThread, .timeLimit(.minutes(3)))
struct InspectTests {
    private let folder: TemporaryFolder
    private let store: HandlerStore
    private var path: String { folder.path + "/store.db" }

    /// Fails for good, and notes why it was given up.
    struct Failing: Handler {
        static let id = "inspect-test.failing"
        static let retry = RetryPolicy.never
        var token: Secret<String>
        func run(_ call: borrowing Call<TimerFired>) throws { throw Broken() }
    }

    struct Broken: Error, CustomStringConvertible { let description = "the printer is on fire" }

    init() throws {
        folder = try TemporaryFolder()
        store = try HandlerStore(
            path: folder.path + "/store.db", registry: HandlerRegistry([Failing.self]), synchronous: .normal)
    }

    private func inspect(_ words: String...) throws -> ProgramEnding {
        try ProgramEnding(of: "pushwake", ["inspect", "--store", path] + words)
    }

    private func handler(_ words: String...) throws -> ProgramEnding {
        try ProgramEnding(of: "pushwake", ["handler", "--store", path] + words)
    }

    private func unfinished() throws -> HandlerID<TimerFired> {
        let id = try store.step { try $0.bind(Failing(token: Secret("hush")).durable) }
        guard
            case .quarantined = try store.step({
                try $0.end(id, .result, with: TimerFired(dueAt: Timestamp(milliseconds: 7)))
            })
        else {
            throw Broken()
        }
        return id
    }

    private func json(_ text: String) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
    }

    private func count(_ name: String, in json: [String: Any]) -> Int? {
        (json[name] as? [String: Any])?["count"] as? Int
    }

    @Test(
        "H13 W8 H33 inspect shows what was quarantined or parked with the reason and without secrets, and it is requeued"
    )
    func requeue() throws {
        let id = try unfinished()
        let shown = try inspect()
        #expect(shown.status == 0)
        #expect(
            shown.output.contains("quarantined: 1") && shown.output.contains("inspect-test.failing@1"),
            "\(shown)")
        #expect(shown.output.contains("the printer is on fire") && !shown.output.contains("hush"), "\(shown)")

        let requeued = try handler("requeue", "\(id)")
        #expect(requeued.status == 0, "\(requeued)")
        let json = try json(try inspect("--json").output)
        #expect(count("quarantined", in: json) == 0 && count("timers", in: json) == 1, "\(json)")
        // With what it was called with: a program that runs what is due calls it again.
        let runner = try HandlerRunner(store)
        try runner.runDue()
        runner.close()
        #expect(try store.step { try $0.status(of: id)?.state } == .quarantined)

        let all = try handler("requeue", "--all", "--yes")
        #expect(all.output == "1 changed (requeue), 0 not\n", "\(all)")
        #expect(try store.step { try $0.status(of: id)?.state } == .pending)
        #expect(try handler("requeue", "--all", "--yes").output == "no handler is to be changed\n")
    }

    @Test(
        "H13 W8 H33 a handler is discarded by command, which leaves a tombstone; a wrong number says so and changes nothing"
    )
    func discard() throws {
        let id = try unfinished()
        let wrong = try handler("requeue", "\(id)", "\(id.rawValue + 1)")
        #expect(wrong.status == 1 && wrong.complaint.contains("has ended or never existed"), "\(wrong)")
        #expect(try store.step { try $0.status(of: id)?.state } == .quarantined, "half of it was done")
        let missing = try handler("discard", "77")
        #expect(
            missing.complaint == "pushwake: the handler 77 has ended or never existed. Nothing was changed\n")
        let usage = try handler("discard", "all")
        #expect(usage.status == 64 && usage.complaint.contains("is the number of a handler"), "\(usage)")
        let done = try handler("discard", "\(id)")
        #expect(done.output.contains("discarded, nothing ran for it"), "\(done)")
        #expect(try store.step { try $0.ending(of: id)?.reason } == .discarded)
        let again = try handler("requeue", "\(id)")
        #expect(again.status == 1 && again.complaint.contains("has ended or never existed"), "\(again)")
    }

    @Test(
        "H13 W8 H33 a handler is invalidated by command; an invalidation that only the program knows is left to it"
    )
    func invalidate() throws {
        let plain = try unfinished()
        #expect(try handler("invalidate", "\(plain)").status == 0)
        #expect(try store.step { try $0.ending(of: plain)?.outcome } == .invalidated)

        let id = try store.step {
            try $0.bind(Failing(token: Secret("x")).durable.orElse(Noting().durable))
        }
        let refused = try handler("invalidate", "\(id)")
        #expect(refused.status == 1 && refused.complaint.contains("cannot run here"), "\(refused)")
        #expect(!refused.complaint.contains("reason:"), "\(refused)")
        #expect(try store.step { try $0.status(of: id)?.state } == .pending)
    }

    struct Noting: Handler {
        static let id = "inspect-test.noting"
        func run(_ call: borrowing Call<Invalidation>) throws {}
    }
}
