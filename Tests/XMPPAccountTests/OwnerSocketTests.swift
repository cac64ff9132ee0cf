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
        var byte = OwnerQuestion.isAlive.rawValue
        send(descriptor, &byte, 1, Int32(MSG_NOSIGNAL))
        return recv(descriptor, &byte, 1, 0) == 1 ? byte : nil
    }

    /// A folder that other users can pass, and the path of a socket in it.
    private func openFolder() throws -> (TemporaryFolder, String) {
        let folder = try TemporaryFolder()
        try #require(chmod(folder.path, 0o777) == 0)
        return (folder, folder.path + "/s")
    }

    private func listen(_ path: String, _ body: () async throws -> Void) async throws -> Int {
        let asked = Kept(0)
        let answers = try OwnerSocket(path: path, beside: path).answer(ThreadDriver()) { _ in
            asked.withLock { $0 += 1 }
            return .keeping
        }
        try await body()
        answers.stop()
        return asked.withLock { $0 }
    }

    private func answer(at path: String) throws -> OwnerAnswer? {
        try EventLoop.run { loop in
            await OwnerSocket.ask(
                .isAlive, path: path, beside: path, until: .after(.seconds(10)), on: loop)
        }
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
            let answers = try OwnerSocket(path: path, beside: path).answer(ThreadDriver()) { _ in .keeping }
            try await eventually("the test is done") { access(done, F_OK) == 0 }
            answers.stop()
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
