import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
@testable import XMPPAccount
@testable import XMPPTransport
import XMPPCore
import XMPPTestKit

/// Logins by token and in one round trip, with a server that does what real ones never do.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct TokenTests {
    static let mechanisms = ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"]
    static let tokens = ["HT-SHA-256-NONE", "HT-SHA-256-ENDP", "HT-SHA-256-EXPR"]

    private func withTokenRig(
        _ change: (inout ServerBehavior) -> Void = { _ in }, _ body: (AccountRig) async throws -> Void
    ) async throws {
        try await withRig(reconnects: false) {
            $0.behavior.extensibleMechanisms = Self.mechanisms
            $0.behavior.tokenMechanisms = Self.tokens
            change(&$0.behavior)
        } _: {
            try await body($0)
        }
    }

    /// What clients sent to log in, in order: the mechanisms of `<authenticate/>`.
    private func logins(_ rig: AccountRig) -> [ForeignText] {
        rig.server.log.entries.filter { $0.event == .received && $0.name == "authenticate" }.compactMap {
            $0.xml.flatMap { try? Element(parsing: $0) }?["mechanism"]
        }
    }

    @Test("X7 the first login is by password and gets a token, the next one is by token and resumes at once")
    func tokenLogin() async throws {
        try await withTokenRig { rig in
            let account = try rig.account()
            let events = EventReader(account)
            try await account.connect()
            try await account.suspend()
            let end = rig.server.log.wait(for: .seconds(20)) { $0.event == .disconnected }
            #expect(end != nil)
            let mark = rig.server.log.entries.count
            try await account.connect()
            await events.until("resumed")
            #expect(events.seen == ["bound", "resumed"])
            #expect(logins(rig) == ["SCRAM-SHA-256-PLUS", "HT-SHA-256-EXPR"])
            let names = rig.server.log.entries(from: mark).filter { $0.event == .received }.map(\.name)
            #expect(names == ["authenticate"], "nothing else was needed")
        }
    }

    @Test("X7 a count is committed before it is sent, and never used again")
    func countBeforeUse() async throws {
        try await withTokenRig { rig in
            let account = try await rig.connected()
            // A second process looks at what is committed at the moment at which the server hears of the count.
            let reader = try rig.store()
            let seen = Kept<[(sent: Int64, stored: Int64)]>([])
            rig.server.setScript { element, _ in
                if let sent = element.child("fast", Namespaces.fast)?["count"].flatMap({ Int64($0) }) {
                    let stored = try? reader.number("SELECT count FROM fast_token")
                    seen.withLock { $0.append((sent, stored ?? -1)) }
                }
                return .pass
            }
            for _ in 0..<3 {
                try await account.suspend()
                try await account.connect()
            }
            let counts = seen.withLock { $0 }
            #expect(counts.map(\.sent) == [1, 2, 3])
            #expect(counts.allSatisfy { $0.stored == $0.sent })
        }
    }

    @Test("X7 processes that log in at the same moment never use the same count")
    func concurrentCounts() async throws {
        try await withTokenRig { rig in
            let account = try await rig.connected()
            let table = account.logins
            let counts = try await withThrowingTaskGroup(of: [Int64].self) { group in
                for _ in 0..<4 {
                    let store = try rig.store()
                    group.addTask {
                        try await onThread {
                            try (0..<25).compactMap { _ in
                                try store.step { step in try table.spendToken(in: step) }?.count
                            }
                        }
                    }
                }
                return try await group.reduce(into: []) { $0 += $1 }
            }
            #expect(counts.sorted() == Array(1...100))
        }
    }

    @Test(
        "X7 a new token is stored with the outcome; one that was lost with its process leaves the old one good"
    )
    func rotation() async throws {
        try await withTokenRig {
            $0.rotatesTokens = true
        } _: { rig in
            let account = try await rig.connected()
            #expect(try rig.store().number("SELECT count(*) FROM fast_token WHERE token = 'token-1'") == 1)
            try await account.suspend()
            try await account.connect()
            #expect(try rig.store().number("SELECT count(*) FROM fast_token WHERE token = 'token-2'") == 1)
            try await account.suspend()
            // A process that is killed between the answer and its commit: the server has given token-3 away.
            let opener = StreamOpener(
                configuration: account.configuration, login: try StoredLogin(account),
                memory: LoginMemory(), resource: "lost")
            let opened = try await opener.opened()
            #expect(opened.learned.token != nil)
            opened.connection.closeDirty()
            try await account.connect()
            #expect(logins(rig).suffix(3).allSatisfy { $0 == "HT-SHA-256-EXPR" })
            #expect(try rig.store().number("SELECT count(*) FROM fast_token WHERE token = 'token-4'") == 1)
        }
    }

    @Test("X7 a token is asked for with the best channel binding, and not used where that is missing")
    func bindings() throws {
        let all = ChannelBindings([.tlsExporter: [1], .tlsServerEndPoint: [2]])
        #expect(
            HashedTokenMechanism.best(Self.tokens.map { ForeignText($0) }, bindings: all)?.name
                == "HT-SHA-256-EXPR")
        let endPoint = ChannelBindings([.tlsServerEndPoint: [2]])
        #expect(
            HashedTokenMechanism.best(Self.tokens.map { ForeignText($0) }, bindings: endPoint)?.name
                == "HT-SHA-256-ENDP")
        #expect(
            HashedTokenMechanism.best(Self.tokens.map { ForeignText($0) }, bindings: .init())?.name
                == "HT-SHA-256-NONE")
        #expect(HashedTokenMechanism.best(["HT-SHA-256-UNIQ", "X"], bindings: all) == nil)
        let exporter = try #require(HashedTokenMechanism(name: "HT-SHA-256-EXPR"))
        #expect(HashedTokenClient(exporter, user: "a", token: SecretBytes("t"), bindings: endPoint) == nil)
        for name in ["HT-SHA-256-EXPR", "HT-SHA-256-NONE", "HT-SHA-256-ENDP", "HT-SHA-512-UNIQ"] {
            #expect(HashedTokenMechanism(name: name)?.name == name)
        }
        #expect(HashedTokenMechanism(name: "HT-SHA-256-") == nil)
        #expect(HashedTokenMechanism(name: "HT-MD5-NONE") == nil)
    }

    @Test("X7 a server that does not know the token is an impostor, however glad it is to let us in")
    func wrongResponder() async throws {
        try await withTokenRig {
            $0.answersTokensWrongly = true
        } _: { rig in
            let account = try await rig.connected()
            try await account.suspend()
            let error = await errorOf { try await account.connect() } as? SASLError
            #expect(error?.code == .serverNotAuthenticated)
        }
    }

    @Test("X7 tokens that the server has revoked are dropped for the password, and a new one is asked for")
    func revoked() async throws {
        try await withTokenRig { rig in
            let account = try await rig.connected()
            try await account.suspend()
            rig.server.revokeTokens()
            try await account.connect()
            #expect(logins(rig) == ["SCRAM-SHA-256-PLUS", "HT-SHA-256-EXPR", "SCRAM-SHA-256-PLUS"])
            try await account.suspend()
            try await account.connect()
            #expect(logins(rig).last == "HT-SHA-256-EXPR")
        }
    }

    @Test(
        "X7 a process that another one has passed over between login and last word lets the server act upon nothing"
    )
    func fencedResponse() async throws {
        try await withTokenRig {
            $0.tokenMechanisms = []
        } _: { rig in
            let account = try await rig.connected()
            try await account.suspend()
            let other = try rig.store()
            rig.server.setScript { element, _ in
                if element.name == "authenticate" {
                    try? other.change("UPDATE ownership SET epoch = epoch + 1")
                }
                return .pass
            }
            let mark = rig.server.log.entries.count
            let error = await errorOf { try await account.connect() } as? AccountError
            #expect(error?.code == .ownershipLost)
            let names = rig.server.log.entries(from: mark).filter { $0.event == .received }.map(\.name)
            #expect(names == ["authenticate"])
            #expect(!rig.server.log.entries(from: mark).contains { $0.event == .resumed })
        }
    }

    @Test("X7 who logs in is who was meant to: a success for somebody else is refused")
    func otherAddress() async throws {
        try await withTokenRig { rig in
            rig.server.setScript { element, _ in
                guard element.name == "response" else { return .pass }
                return .answer([Self.success(address: "mallory@localhost", data: nil)])
            }
            let account = try rig.account()
            let error = await errorOf { try await account.connect() }
            #expect((error as? SASLError)?.code == .serverNotAuthenticated, "no signature comes first")
        }
    }

    @Test("X7 a demand for a further step is refused with a sentence")
    func furtherStep() async throws {
        try await withTokenRig { rig in
            rig.server.setScript { element, _ in
                guard element.name == "response" else { return .pass }
                return .answer([Element("continue", namespace: Namespaces.sasl2)])
            }
            let account = try rig.account()
            let error = await errorOf { try await account.connect() } as? AccountError
            #expect(error?.code == .notAuthorized)
            #expect(error?.message.contains("further step") == true)
        }
    }

    @Test(
        "X7 a lost session is reported in the login, its count is used, and a new one is bound on the same stream"
    )
    func failedResumption() async throws {
        for bindsInline in [true, false] {
            try await withTokenRig { rig in
                let account = try rig.account { $0.bindsInline = bindsInline }
                let events = EventReader(account)
                try await account.connect()
                try await account.tell("m-1")
                try await account.caughtUp()
                try await account.suspend()
                rig.server.refuseNextResumption(withCount: true)
                try await account.connect()
                await events.until("sessionLost")
                await events.until("bound")
                try await account.tell("m-2")
                try await account.caughtUp()
                #expect(rig.server.log.entries.count { $0.event == .bound } == 2)
                #expect(rig.xml(ofID: "m-1").count == 1, "the server said that it had it")
                try await account.suspend()
                try await account.connect()
                await events.until("resumed")
            }
        }
    }

    @Test(
        "X6 a server that takes back what it offered before is refused: -PLUS, the better hash, the count",
        arguments: [
            ["SCRAM-SHA-256"], ["SCRAM-SHA-1-PLUS", "SCRAM-SHA-1"], ["PLAIN"],
        ])
    func downgrade(offered: [String]) async throws {
        for isExtensible in [true, false] {
            try await withRig(reconnects: false) {
                $0.behavior.mechanisms = Self.mechanisms
                if isExtensible { $0.behavior.extensibleMechanisms = Self.mechanisms }
            } _: { rig in
                let account = try rig.account { $0.allowsPlain = true }
                try await account.connect()
                try await account.suspend()
                rig.server.update {
                    $0.mechanisms = offered
                    if isExtensible { $0.extensibleMechanisms = offered.filter { $0 != "PLAIN" } }
                }
                let mark = rig.server.log.entries.count
                let error = await errorOf { try await account.connect() } as? SASLError
                #expect(error?.code == .downgradeSuspected)
                let sent = rig.server.log.entries(from: mark).filter { $0.event == .received }
                #expect(!sent.contains { $0.name == "response" || $0.xml?.contains("PLAIN") == true })
            }
        }
    }

    private static func success(address: String, data: String?) -> Element {
        var success = Element("success", namespace: Namespaces.sasl2)
        if let data { success.append(Element("additional-data", namespace: Namespaces.sasl2, text: data)) }
        success.append(Element("authorization-identifier", namespace: Namespaces.sasl2, text: address))
        return success
    }
}
