import AccountTestSupport
import Foundation
import Glibc
import Handlers
import TestSupport
import TestThreads
import Testing

@testable import XMPPAccount
import XMPPTransport

/// Processes of other users at the owner's socket. Only root can become another user.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(2))) struct OwnerSocketTests {
    private static let other: uid_t = 65534
    private static let needsRoot = ConditionTrait.enabled(
        if: geteuid() == 0, "only root can become another user")

    private struct NoOwner: Error {
        let code: Int32
    }

    /// Asks without looking at the process that answers.
    ///
    /// - Returns: The answer; nil when the other end closed the connection.
    private static func ask(_ path: String) throws -> UInt8? {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        try #require(descriptor >= 0)
        defer { close(descriptor) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let connected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard connected == 0 else { throw NoOwner(code: errno) }
        let question = OwnerQuestion.isAlive.bytes(1)
        send(descriptor, question, question.count, Int32(MSG_NOSIGNAL))
        var byte: UInt8 = 0
        return recv(descriptor, &byte, 1, 0) == 1 ? byte : nil
    }

    /// A folder that other users can pass, and the path of a socket in it.
    private func openFolder() throws -> (TemporaryFolder, String) {
        let folder = try TemporaryFolder()
        try #require(chmod(folder.path, 0o777) == 0)
        return (folder, folder.path + "/s")
    }

    /// A store that owns the account 1.
    private final class Owner: Sendable {
        let answers = OwnerAnswers(ThreadDriver().makeSharedSignal())
        private let loop: any RunningLoop

        init(_ path: String, answers isAnswering: Bool = true, asked: @escaping @Sendable () -> Void = {})
            throws
        {
            let listener = try OwnerSocket.listen(path: path, beside: path)
            loop = try ThreadDriver().startShared { [answers] in answers.makeLoop(listener) }
            answers.expect(1, of: self)
            if isAnswering { answer(asked) }
        }

        func answer(_ asked: @escaping @Sendable () -> Void = {}) {
            answers.answer(1, of: self) { _ in
                asked()
                return .keeping
            }
        }

        func stop() {
            answers.end()
            loop.join()
        }
    }

    private func listen(_ path: String, _ body: () async throws -> Void) async throws -> Int {
        let asked = Kept(0)
        let owner = try Owner(path) { asked.withLock { $0 += 1 } }
        try await body()
        owner.stop()
        return asked.withLock { $0 }
    }

    private func answer(
        at path: String, account: Int64 = 1, within time: Duration = .seconds(10)
    ) throws -> OwnerAnswer? {
        try EventLoop.run { loop in
            await OwnerSocket.ask(
                .isAlive, account: account, path: path, beside: path, until: .after(time), on: loop)
        }
    }

    @Test("W4 a store answers for the accounts that it owns, and for no other")
    func otherAccount() async throws {
        let (folder, path) = try openFolder()
        let owner = try Owner(path)
        #expect(try answer(at: path, account: 2) == nil)
        owner.answers.expect(2, of: owner)
        owner.answers.answer(2, of: owner) { _ in .releasing }
        #expect(try answer(at: path, account: 2) == .releasing)
        #expect(try answer(at: path) == .keeping)
        owner.answers.stop(2, of: owner)
        #expect(try answer(at: path, account: 2) == nil)
        #expect(try answer(at: path) == .keeping)
        owner.stop()
        withExtendedLifetime(folder) {}
    }

    @Test("W4 an owner that was taken over by another account of its process ends no answers but its own")
    func replaced() async throws {
        let (folder, path) = try openFolder()
        let owner = try Owner(path)
        let next = Kept(0)
        owner.answers.expect(1, of: next)
        owner.answers.answer(1, of: next) { _ in .releasing }
        owner.answer()
        owner.answers.stop(1, of: owner)
        #expect(try answer(at: path) == .releasing)
        owner.stop()
        withExtendedLifetime(folder) {}
    }

    @Test("W4 a caller during the takeover is answered after it")
    func duringTakeover() async throws {
        let (folder, path) = try openFolder()
        let owner = try Owner(path, answers: false)
        #expect(try answer(at: path, within: .milliseconds(50)) == nil)
        async let answer = onThread { try self.answer(at: path) }
        // It waits for longer than one may take to ask.
        try await Task.sleep(for: .milliseconds(60))
        owner.answer()
        #expect(try await answer == .keeping)
        owner.stop()
        withExtendedLifetime(folder) {}
    }

    @Test("X22 the owner answers a process of its own user, and is believed by it")
    func ownUser() async throws {
        let (folder, path) = try openFolder()
        let asked = try await listen(path) {
            let byte = try Self.ask(path)
            #expect(byte == OwnerAnswer.keeping.rawValue)
            #expect(try answer(at: path) == .keeping)
        }
        #expect(asked == 2)
        withExtendedLifetime(folder) {}
    }

    @Test("X22 the owner does not answer a process of another user, and is not asked by it", needsRoot)
    func foreignAsker() async throws {
        let (folder, path) = try openFolder()
        let asked = try await listen(path) {
            try #require(chmod(path, 0o666) == 0)
            await #expect(processExitsWith: .success) { [path = path as String] in
                try #require(setuid(Self.other) == 0)
                try #require(try Self.ask(path) == nil)
            }
        }
        #expect(asked == 0)
        withExtendedLifetime(folder) {}
    }

    @Test("X22 a process of another user at the owner's socket is not believed", needsRoot)
    func foreignOwner() async throws {
        let (folder, path) = try openFolder()
        let done = folder.path + "/done"
        async let impostor = #expect(processExitsWith: .success) {
            [path = path as String, done = done as String] in
            try #require(setuid(Self.other) == 0)
            let owner = try Owner(path)
            try await eventually("the test is done") { access(done, F_OK) == 0 }
            owner.stop()
        }
        try await eventually("the other user listens") {
            (try? Self.ask(path)) == OwnerAnswer.keeping.rawValue
        }
        // Its file looks like the owner's own: only the process behind it does not.
        #expect(chown(path, 0, 0) == 0 && chmod(path, 0o600) == 0)
        #expect(try Self.ask(path) == OwnerAnswer.keeping.rawValue)
        #expect(try answer(at: path) == nil)
        #expect(FileManager.default.createFile(atPath: done, contents: nil))
        _ = await impostor
    }
}
