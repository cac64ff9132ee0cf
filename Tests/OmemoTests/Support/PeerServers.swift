import Synchronization
import TestThreads
import Testing
import XMPPTestKit

/// Which real server a test talks to.
enum ServerKind: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case prosody, ejabberd

    var testDescription: String { rawValue }
}

/// One Prosody and one ejabberd for all tests in ``OmemoOnServersTests``, started when the first test wants them.
///
/// Each test makes accounts of its own, so that tests do not meet.
final class PeerServers: Sendable {
    @TaskLocal static var current: PeerServers?

    let folder: TemporaryFolder
    let certificates: TestCertificates
    private let running = Mutex<[ServerKind: any TestServer]>([:])
    private let scenes = Mutex(0)

    init() throws {
        folder = try TemporaryFolder()
        certificates = try TestCertificates(in: folder.path)
    }

    func server(_ kind: ServerKind) throws -> any TestServer {
        try running.withLock { running in
            if let server = running[kind] { return server }
            let server = try make(kind)
            try server.start()
            running[kind] = server
            return server
        }
    }

    private func make(_ kind: ServerKind) throws -> any TestServer {
        let certificate = try certificates.makeServerCertificate(for: ["localhost"], name: kind.rawValue)
        let (file, key) = (certificate.certificateFile, certificate.keyFile)
        let folder = "\(folder.path)/\(kind.rawValue)"
        return switch kind {
        case .prosody:
            try ProsodyServer(folder: folder, domain: "localhost", certificateFile: file, keyFile: key)
        case .ejabberd:
            try EjabberdServer(folder: folder, domain: "localhost", certificateFile: file, keyFile: key)
        }
    }

    /// A number that no other test has.
    func freshNumber() -> Int {
        scenes.withLock { scenes in
            scenes += 1
            return scenes
        }
    }

    func close() {
        for server in running.withLock({ $0.values }) { server.close() }
    }
}

/// Gives all tests of a suite the same servers and ends these after the last test.
struct PeerServersTrait: SuiteTrait, TestScoping {
    var isRecursive: Bool { false }

    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        let servers = try PeerServers()
        defer { servers.close() }
        try await PeerServers.$current.withValue(servers) { try await function() }
    }
}

extension Trait where Self == PeerServersTrait {
    static var peerServers: Self { PeerServersTrait() }
}

/// Everything that is tested with independent clients on Prosody and ejabberd; the suites are extensions.
@Suite(.ownThread, .peerServers, .serialized, .timeLimit(.minutes(8))) enum OmemoOnServersTests {}
