import Foundation
import TestSupport
import TestThreads
import Testing
import XMPPTestKit

/// A worker that is woken and finds what attackers have sent.
@Suite(.ownThread, .timeLimit(.minutes(10)))
struct WorkerAttackTests {
    /// The command of a release build, which is held to a phone's memory as a whole (`make torture`).
    private static let released = ProcessInfo.processInfo.environment["WORKER_PROGRAM"]
    /// How much more than a worker that finds nothing another one of a debug build may take, in KiB: that of a release build has
    /// taken some 14 MiB of its 24 by then. The kernel holds both to 24 MiB of what it cannot take back, where it can.
    private static let growth = 10 << 10

    /// The most that a worker may take, in KiB.
    private func limit(_ worker: AttackedWorker) throws -> Int {
        let idle = try worker.wake()
        try #require(idle.isDone, "\(idle)")
        let peak = try #require(idle.peak)
        return Self.released == nil ? peak + Self.growth : AttackedWorker.mebibytes << 10
    }

    /// Wakes a worker, which must do all that there is within its limits. It waits for nothing but the server: its stream breaks
    /// no more often than it must.
    private func expectDone(
        _ worker: AttackedWorker, within limit: Int, _ name: String, breaks: Int = 0
    ) throws {
        let before = worker.resumptions()
        let wake = try worker.wake()
        #expect(wake.isDone, "\(name): \(wake)")
        #expect(wake.used < AttackedWorker.time, "\(name): \(wake)")
        #expect(try #require(wake.peak) <= limit, "\(name): \(wake)")
        #expect(worker.resumptions() <= before + 1 + breaks, "\(name)")
        #expect(try worker.handled() == worker.sentInSession(), "\(name)")
        if Self.released != nil { print("\(wake.figures) \(name.prefix(80))") }
    }

    private func expectKept(_ attacks: [WorkerAttack]) throws {
        let worker = try AttackedWorker(Self.released)
        defer { worker.close() }
        let limit = try limit(worker)
        for (number, attack) in attacks.enumerated() {
            try attack.strike(worker)
            worker.sendGood("good\(number)")
            try expectDone(worker, within: limit, attack.name, breaks: attack.breaks)
            #expect(try worker.taken() == (0...number).map { "good\($0)" }, "\(attack.name)")
        }
    }

    @Test(
        "X18 a worker that finds what cannot be read keeps within 24 MiB and 30 s, counts all of it and takes in the next message"
    )
    func unreadable() throws { try expectKept(WorkerAttack.unreadable) }

    @Test(
        "X19 a worker that finds stanzas full of combining marks keeps within 24 MiB and 30 s and takes in the next message"
    )
    func marks() throws { try expectKept(WorkerAttack.marks) }

    @Test("X20 a worker that finds a flood keeps within 24 MiB and 30 s and takes in the next message")
    func floods() throws { try expectKept(WorkerAttack.floods) }

    @Test(
        "X18 X19 X20 a worker whose new session finds all of it in archive, roster and block list keeps within 24 MiB and 30 s"
    )
    func answers() throws {
        let worker = try AttackedWorker(Self.released)
        defer { worker.close() }
        let limit = try limit(worker)
        try WorkerAttack.answers(archived: 300).strike(worker)
        worker.sendGood("live")
        try expectDone(worker, within: limit, "a new session")
        let good = ["live"] + (0..<30).map { "a\($0 * 10)" }
        #expect(try worker.taken().sorted() == good.sorted())
    }
}
