import AccountTestSupport
import HandlersTestKit
import TestSupport
import TestThreads
import Testing
import XMPPCore
import XMPPTestKit

@testable import XMPPAccount

/// What a client makes of a refused login, condition by condition.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct LoginRefusalTests {
    /// A row for each condition of RFC 6120 section 6.5.
    struct Row: Sendable, CustomTestStringConvertible {
        let condition: String
        /// Whether the credentials are at fault, so that trying again cannot help.
        let isFinal: Bool
        /// What the error advises.
        let advice: String
        var testDescription: String { condition }
    }

    static let passing = "the password may be right. It is tried again"
    static let rows = [
        Row(condition: "aborted", isFinal: false, advice: passing),
        Row(condition: "account-disabled", isFinal: true, advice: "has disabled alice@localhost"),
        Row(condition: "credentials-expired", isFinal: true, advice: "has expired"),
        Row(condition: "encryption-required", isFinal: false, advice: passing),
        Row(condition: "incorrect-encoding", isFinal: false, advice: passing),
        Row(condition: "invalid-authzid", isFinal: false, advice: passing),
        Row(condition: "invalid-mechanism", isFinal: false, advice: passing),
        Row(condition: "malformed-request", isFinal: false, advice: passing),
        Row(condition: "mechanism-too-weak", isFinal: false, advice: passing),
        Row(condition: "not-authorized", isFinal: true, advice: "check the address and the password"),
        Row(condition: "temporary-auth-failure", isFinal: false, advice: "at the moment"),
        Row(condition: "made-up", isFinal: false, advice: passing),
    ]

    private static func failure(_ condition: String, _ namespace: String = Namespaces.sasl) -> Element {
        Element(
            "failure", namespace: namespace,
            children: [
                Element(condition, namespace: Namespaces.sasl),
                Element("text", namespace: namespace, text: "said by the server"),
            ])
    }

    @Test("X6 every condition of RFC 6120 has a row, in its own words")
    func complete() {
        #expect(
            Set(LoginRefusal.Condition.allCases.map(\.rawValue))
                == Set(Self.rows.map(\.condition)).subtracting(["made-up"]))
    }

    @Test(
        "X6 a refused login reports the server's condition, and only wrong credentials are blamed and final",
        arguments: rows, [false, true])
    func reported(row: Row, isExtensible: Bool) async throws {
        try await withRig(reconnects: false) {
            if isExtensible { $0.behavior.extensibleMechanisms = ["SCRAM-SHA-256"] }
        } _: { rig in
            rig.server.setScript { element, _ in
                guard element.name == "auth" || element.name == "authenticate" else { return .pass }
                return .answer([Self.failure(row.condition, element.namespace.string)])
            }
            let account = try rig.account()
            let caught = await errorOf { try await account.connect() }
            let error = try #require(caught as? AccountError)
            #expect(error.code == (row.isFinal ? .notAuthorized : .connectionFailed))
            #expect(error.message.contains("(\(row.condition): said by the server)"), "\(error)")
            #expect(error.message.contains(row.advice), "\(error)")
            #expect(error.message.contains("check") == (row.condition == "not-authorized"), "\(error)")
            var (reconnection, generator) = (Reconnection(), SeededGenerator(seed: 1))
            for _ in 0..<10 {
                switch reconnection.failed(error, using: &generator) {
                case .stop(let reason): #expect(row.isFinal && reason.code == .notAuthorized)
                case .retry: #expect(!row.isFinal)
                }
            }
        }
    }

    @Test(
        "X6 a login that was sent before the offer and is refused is not repeated at once on a new connection"
    )
    func ahead() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected()
            try await account.suspend()
            rig.server.setScript { element, _ in
                element.name == "auth" ? .answer([Self.failure("temporary-auth-failure")]) : .pass
            }
            func connections() -> Int { rig.server.log.entries.count { $0.event == .connected } }
            let before = connections()
            let error = await errorOf { try await account.connect() } as? AccountError
            #expect(error?.message.contains("temporary-auth-failure") == true)
            #expect(connections() == before + 1)
        }
    }

    @Test("X6 an account whose login was refused for a moment gets in by itself")
    func forAMoment() async throws {
        try await withRig { rig in
            let left = Kept(3)
            rig.server.setScript { element, _ in
                let isRefused = left.withLock { left in
                    guard element.name == "auth", left > 0 else { return false }
                    left -= 1
                    return true
                }
                return isRefused ? .answer([Self.failure("malformed-request")]) : .pass
            }
            try await rig.account().connect(retrying: true)
            #expect(left.withLock { $0 } == 0)
        }
    }

    @Test("X6 what is at fault is named by its kind: a certificate, channel binding, no account")
    func kinds() throws {
        var configuration = AccountConfiguration(jid: AccountRig.alice, password: "")
        func error(_ condition: String, _ mechanism: String) -> AccountError {
            LoginRefusal(Self.failure(condition)).error(of: mechanism, configuration)
        }
        #expect(error("not-authorized", "SCRAM-SHA-1-PLUS").message.contains("channel binding"))
        #expect(!error("not-authorized", "SCRAM-SHA-1").message.contains("channel binding"))
        #expect(error("mechanism-too-weak", "PLAIN").message.contains("did not accept PLAIN"))
        configuration.authentication = .certificate(file: "a", keyFile: "b")
        #expect(error("not-authorized", "EXTERNAL").message.contains("check the address and the certificate"))
        let identity = error("invalid-authzid", "EXTERNAL")
        #expect(identity.code == .notAuthorized && identity.message.contains("certificate"))
        configuration.authentication = .anonymous
        #expect(!error("not-authorized", "ANONYMOUS").message.contains("password"))
    }

    @Test("X6 a condition and a text without end are cut")
    func long() {
        let long = String(repeating: "a\u{301}", count: 100_000)
        let failure = Element(
            "failure", namespace: Namespaces.sasl,
            children: [
                Element(long, namespace: Namespaces.sasl),
                Element("text", namespace: Namespaces.sasl, text: long),
            ])
        let refusal = LoginRefusal(failure)
        #expect(refusal.condition == nil && refusal.description.utf8.count <= 402)
        #expect(LoginRefusal(Element("failure", namespace: Namespaces.sasl)).description == "failure")
    }
}
