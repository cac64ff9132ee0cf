import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// Logins good and bad over real sockets.
@Suite(.ownThread) struct ServerLoginTests {
    let fixture: ServerFixture
    var server: ScriptedServer { fixture.server }

    init() throws { fixture = try ServerFixture() }

    @Test(
        "W6 each SCRAM mechanism works, with its own keys",
        arguments: ["SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512"])
    func mechanisms(name: String) throws {
        server.update { $0.mechanisms = [name] }
        let client = try fixture.client()
        #expect(try client.logIn("alice", mechanism: name).name == "success")
        #expect(client.serverSignatureIsRight == true)
    }

    @Test("W6 a login can be bound to the TLS session")
    func channelBinding() throws {
        server.update { $0.mechanisms = ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"] }
        let client = try fixture.client()
        #expect(try client.logIn("alice", mechanism: "SCRAM-SHA-256-PLUS").name == "success")
        #expect(client.serverSignatureIsRight == true)
    }

    @Test(
        "W6 a wrong password and an unknown account are refused",
        arguments: [("alice", "wrong"), ("nobody", "secret")])
    func refused(account: String, password: String) throws {
        let answer = try fixture.client().logIn(account, password: password)
        #expect(answer.name == "failure")
        #expect(answer.firstElement?.name == "not-authorized")
    }

    @Test("W6 an impostor's signature is wrong")
    func impostor() throws {
        server.update { $0.signsWrongly = true }
        let client = try fixture.client()
        #expect(try client.logIn("alice").name == "success")
        #expect(client.serverSignatureIsRight == false)
    }

    @Test("W6 SCRAM hashes as often as the configuration says")
    func iterations() throws {
        let strong = try ServerFixture { configuration, _ in configuration.scramIterations = 5000 }
        let client = try strong.client()
        try client.logIn("alice")
        #expect(client.iterations == 5000)
    }

    @Test(
        "W6 a configuration that cannot work is refused with a sentence that says why",
        arguments: [
            ("", "alice", "secret", ErrorCode<ScriptedServerError>.invalidAddress),
            ("localhost", "Alice", "secret", .invalidAddress),
            ("localhost", "a@b", "secret", .invalidAddress),
            ("localhost", "alice", "", .password),
        ])
    func configuration(
        domain: String, account: String, password: String, code: ErrorCode<ScriptedServerError>
    ) {
        let configuration = ScriptedServer.Configuration(
            domain: domain, accounts: [account: password], certificateFile: "none.pem", keyFile: "none.pem")
        let error = #expect(throws: ScriptedServerError.self) { try ScriptedServer(configuration) }
        #expect(error?.code == code)
        #expect(error?.message.contains("Give") == true)
    }

    @Test("W6 a server without its certificate or with a log file that cannot be written does not start")
    func missingFiles() throws {
        let folder = fixture.folder.path
        var configuration = server.configuration
        configuration.certificateFile = folder + "/missing.pem"
        let error = #expect(throws: ScriptedServerError.self) { try ScriptedServer(configuration).start() }
        #expect(error?.code == .certificate)
        #expect(error?.description.contains("missing.pem") == true)
        configuration.logFile = folder + "/missing/log"
        #expect(throws: ScriptedServerError.self) { try ScriptedServer(configuration) }
    }
}
