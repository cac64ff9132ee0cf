import FoundationEssentials
import TestServers
import XMPPTestKit

/// A Prosody of its own, with the accounts of those that are woken, and the peer that writes to them.
final class WakeServer {
    /// Woken with this library.
    static let ours = "alice@localhost"
    /// Woken with slixmpp.
    static let other = "carol@localhost"
    static let password = "correct horse battery staple"
    private static let patience = Duration.seconds(30)

    let authority: String
    let port: UInt16
    /// The peer's full address.
    let peerAddress: String
    /// What resumes the session that the peer left for slixmpp.
    let otherState: String
    private let prosody: ProsodyServer
    private let peer: ChildProcess

    init(in workspace: Workspace) throws {
        // Prosody is told paths and runs elsewhere.
        let folder = FileManager.default.currentDirectoryPath + "/" + workspace.path
        let certificates = try TestCertificates(in: folder)
        let certificate = try certificates.makeServerCertificate(for: ["localhost"])
        var options = ProsodyOptions()
        // An archive in files costs Prosody the more the longer it runs.
        options.removedModules = ["mam"]
        prosody = try ProsodyServer(
            folder: folder + "/prosody", domain: "localhost", certificateFile: certificate.certificateFile,
            keyFile: certificate.keyFile, options: options)
        for user in ["alice", "bob", "carol"] { try prosody.addAccount(user, password: Self.password) }
        try prosody.start()
        authority = certificates.authorityFile
        port = prosody.directTLSPort
        otherState = folder + "/slixmpp.json"
        peer = try ChildProcess(
            SlixmppPeer.locatePython(),
            [
                "Benchmarks/peers/wake_peer.py", "bob@localhost/peer", Self.password, "\(port)", authority,
                Self.other, Self.password, otherState,
            ], input: .pipe, output: .pipe)
        let ready = try peer.output?.readLine(deadline: .now + Self.patience) { $0.hasPrefix("ready ") }
        peerAddress = String((ready ?? "").dropFirst("ready ".count))
    }

    func close() {
        peer.killAndWait()
        prosody.close()
    }

    /// Waits until somebody has asked the peer something.
    ///
    /// - Returns: Whether the asker waits for the answer for long enough to be killed meanwhile.
    func waitUntilAsked() throws -> Bool {
        try peer.output?.readLine(deadline: .now + Self.patience) { $0.hasPrefix("asked ") }
            != "asked silence"
    }

    /// Has the peer answer the last question and write a message to an account. When this returns, the server has both.
    func answer(_ account: String) throws {
        try peer.write("go \(account)\n")
        _ = try peer.output?.readLine(deadline: .now + Self.patience) { $0 == "waiting" }
    }

    /// Has a client on slixmpp ask the peer something and leave its session behind.
    func leaveOtherSession() throws {
        try peer.write("leave\n")
        _ = try peer.output?.readLine(deadline: .now + Self.patience) { $0 == "left" }
    }
}
