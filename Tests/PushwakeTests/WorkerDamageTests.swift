import Glibc
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore
import XMPPTestKit

/// What a stream ended with is stored, so that the next process passes it over: also when that is after SIGKILL.
@Suite(.ownThread, .timeLimit(.minutes(10)))
struct WorkerDamageTests {
    /// How far a killed worker had come with a stanza without an end.
    enum Progress { case nothing, stored, counted }

    /// Where workers are killed, at each of their visits, and what must have been seen there.
    static let places: [(Failpoint, Set<Progress>)] = [
        // What comes together with the answer to the resumption is taken in without another look at the socket.
        (.afterRead, []), (.beforeCommit, [.nothing, .stored, .counted]),
        (.afterCommit, [.nothing, .stored, .counted]), (.afterResumeSent, [.nothing, .stored, .counted]),
        (.afterResumed, [.nothing, .stored, .counted]), (.beforeAcknowledge, [.counted]),
        (.afterAcknowledge, [.counted]), (.beforeRelease, [.counted]),
    ]

    @Test(
        "X18 W6 SIGKILL at any place between meeting a stanza without an end and going on behind it loses and repeats nothing",
        arguments: places)
    func kills(place: Failpoint, expected: Set<Progress>) throws {
        let worker = try AttackedWorker(in: nil)
        defer { worker.close() }
        // What the server has sent while main left would be counted with what follows.
        let first = try worker.wake()
        #expect(first.isDone, "\(first)")
        var good: [String] = []
        var seen: Set<Progress> = []
        // Until a worker ends before it has come by so often.
        for nth in 1... {
            let before = try worker.handled()
            worker.sendGood("before\(nth)")
            worker.send(
                Message(to: AttackedWorker.account, id: "e", children: [Damage.mark(Damage.endless)]).element)
            worker.sendGood("behind\(nth)")
            good += ["before\(nth)", "behind\(nth)"]
            let killed = try worker.wake(["HANDLERS_FAILPOINT": "\(place.rawValue):kill:\(nth)"])
            let isKilled = killed.ending.signal == SIGKILL
            if isKilled {
                seen.insert(try progress(worker, at: before + 1))
                let next = try worker.wake()
                #expect(next.isDone, "killed at \(place), \(nth): \(next)")
            } else {
                #expect(killed.isDone, "\(killed)")
            }
            #expect(try worker.taken() == good, "killed at \(place), \(nth)")
            #expect(try worker.handled() == worker.sentInSession(), "killed at \(place), \(nth)")
            #expect(try worker.handled() == before + 3, "killed at \(place), \(nth)")
            if !isKilled { break }
        }
        #expect(!seen.isEmpty && seen.isSuperset(of: expected), "\(place): \(seen)")
        #expect(try worker.takenOfAll() == good.count)
    }

    /// - Parameter position: How many stanzas come before it.
    private func progress(_ worker: AttackedWorker, at position: Int64) throws -> Progress {
        guard try worker.damage() == position else { return .nothing }
        return try worker.handled() == position ? .stored : .counted
    }
}
