import Handlers
import Platform
import Synchronization
import TestSupport
import TestThreads
import Testing

@testable import XMPPAccount
@testable import XMPPTransport

/// Has a key of a server computed on a thread that waits for it.
///
/// - Returns: Gets the result of the wait.
@discardableResult
func occupy(
    _ derivations: KeyDerivations, _ server: ServerPlace, iterations: Int = 1,
    until deadline: Deadline = .never, _ body: @escaping @Sendable () -> Void
) -> Kept<WaitResult?> {
    let result = Kept<WaitResult?>(nil)
    let derivation = SCRAMClient.Derivation(iterations: iterations) {
        body()
        return SCRAMKeys(hash: .sha1, password: SecretBytes("pencil"), salt: [1], iterations: 1)
    }
    // It ends with the wait, which the test looks at.
    _ = try? SystemThread("key waiter") {
        let waited = try? EventLoop.run { loop in
            try await derivations.run(derivation, for: server, until: deadline, on: loop).0
        }
        result.withLock { $0 = waited }
    }
    return result
}

/// Whose key is computed when, without an account.
@Suite(.ownThread, .timeLimit(.minutes(1))) struct KeyDerivationsTests {
    /// Computations that run until they are let go.
    private final class Blocked: Sendable {
        let running = Kept<[String]>([])
        private let mayEnd = Monitor(Set<String>())

        func run(_ name: String) {
            running.withLock { $0.append(name) }
            _ = mayEnd.wait(limit: .seconds(30)) { $0.contains(name) ? true : nil }
            running.withLock { $0.removeAll { $0 == name } }
        }

        func end(_ names: String...) { mayEnd.withLock { $0.formUnion(names) } }
        var names: Set<String> { Set(running.withLock { $0 }) }
    }

    private let slow = ServerPlace.domain("slow.test")
    private let other = ServerPlace.domain("other.test")

    @Test("A2 keys for one server are computed one after the other, and those of another one beside them")
    func oneForEachServer() async throws {
        let (derivations, blocked) = (KeyDerivations(), Blocked())
        // As many as there are threads would hold up all others.
        let count = ThisProcess.processors + 2
        for number in 0..<count { occupy(derivations, slow) { blocked.run("slow \(number)") } }
        try await eventually("one runs, and the others wait") {
            blocked.names.count == 1 && derivations.waiting(for: slow) == count - 1
        }
        if ThisProcess.processors > 1 {
            let ended = occupy(derivations, other) {}
            try await eventually("the key of another server") { ended.withLock { $0 } == .ready }
            #expect(blocked.names.count == 1)
        }
        for number in 0..<count { blocked.end("slow \(number)") }
        try await eventually("all are done") {
            derivations.waiting(for: slow) == 0 && blocked.names.isEmpty
        }
    }

    @Test("A2 however many servers want keys that take long, one that takes milliseconds does not wait")
    func longOnes() async throws {
        let (derivations, blocked) = (KeyDerivations(), Blocked())
        for number in 0..<2 * ThisProcess.processors {
            occupy(
                derivations, .domain("d\(number).test"), iterations: KeyDerivations.longFrom + 1
            ) { blocked.run("\(number)") }
        }
        try await eventually("all threads are busy") { blocked.names.count == ThisProcess.processors }
        let ended = occupy(derivations, other, iterations: KeyDerivations.longFrom) {}
        try await eventually("the short one") { ended.withLock { $0 } == .ready }
        #expect(blocked.names.count == ThisProcess.processors)
        for number in 0..<2 * ThisProcess.processors { blocked.end("\(number)") }
        try await eventually("all are done") { blocked.names.isEmpty }
    }

    @Test("A2 a key whose login has ended is not computed, and nothing of it is kept")
    func dropped() async throws {
        let (derivations, blocked) = (KeyDerivations(), Blocked())
        occupy(derivations, slow) { blocked.run("first") }
        try await eventually("it runs") { blocked.names == ["first"] }
        let isComputed = Kept(false)
        let waited = occupy(derivations, slow, until: .after(.milliseconds(50))) {
            isComputed.withLock { $0 = true }
        }
        try await eventually("it is over") { waited.withLock { $0 } == .timedOut }
        #expect(derivations.waiting(for: slow) == 0)
        let last = occupy(derivations, slow) {}
        blocked.end("first")
        try await eventually("the next one") { last.withLock { $0 } == .ready }
        #expect(!isComputed.withLock { $0 })
    }

    @Test("A2 long and short keys of one server take turns on their own threads, none is forgotten")
    func mixed() async throws {
        let derivations = KeyDerivations()
        let order = Kept<[Int]>([])
        let results = (0..<20).map { number in
            occupy(derivations, slow, iterations: number % 3 == 0 ? KeyDerivations.longFrom + 1 : 1) {
                order.withLock { $0.append(number) }
            }
        }
        try await eventually("all are there") { results.allSatisfy { $0.withLock { $0 } == .ready } }
        #expect(Set(order.withLock { $0 }) == Set(0..<20))
        try await eventually("none is left") { derivations.waiting(for: slow) == 0 }
    }
}
