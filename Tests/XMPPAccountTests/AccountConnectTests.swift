import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPTransport
import XMPPCore
import XMPPTestKit

/// Opening a stream, and what may stand in the way.
@Suite(.ownThread, .timeLimit(.minutes(2)), .engines(.sqlite, .postgres)) struct AccountConnectTests {
    @Test("S7 a store without the account's tables is refused with a sentence that says how to open it")
    func missingTables() async throws {
        try await withRig { rig in
            let store = try HandlerStore(path: rig.databasePath, registry: HandlerRegistry())
            #expect {
                try Account(rig.configuration(), store: store)
            } throws: { error in
                (error as? AccountError)?.code == .invalidConfiguration
                    && "\(error)".contains("open it with schemas: Account.schemas")
            }
        }
    }

    @Test(
        "S1 an account binds a session over direct TLS and over STARTTLS",
        arguments: [AccountConfiguration.Server.Security.directTLS, .startTLS])
    func binds(security: AccountConfiguration.Server.Security) async throws {
        try await withRig { rig in
            let port = security == .directTLS ? rig.server.directTLSPort : rig.server.startTLSPort
            let account = try rig.account {
                $0.server = .init(host: rig.server.host, port: port, security: security)
                $0.resumptionWindow = .milliseconds(77_900)
            }
            let events = EventReader(account)
            try await account.connect()
            #expect(await events.until("bound") != nil)
            try await account.caughtUp()
            let enable = rig.server.log.entries.first { $0.event == .received && $0.name == "enable" }
            #expect(enable?.xml?.contains("max='77'") == true)
            #expect(enable?.xml?.contains("resume='true'") == true)
            #expect(rig.server.boundAddresses.first?.resource?.hasPrefix("dh.") == true)
        }
    }

    @Test("S1 both SCRAM mechanisms log in", arguments: ["SCRAM-SHA-256", "SCRAM-SHA-1"])
    func mechanisms(name: String) async throws {
        try await withRig {
            $0.behavior.mechanisms = [name]
        } _: { rig in
            _ = try await rig.connected()
            let auth = rig.server.log.entries.first { $0.name == "auth" }
            #expect(auth?.xml?.contains("mechanism='\(name)'") == true)
        }
    }

    @Test("S2 the same account resumes its session, and another one on the same file does too")
    func resumes() async throws {
        try await withRig { rig in
            let first = try rig.account()
            let events = EventReader(first)
            try await first.connect()
            try await first.suspend()
            try await first.connect()
            await events.until("resumed")
            #expect(events.seen == ["bound", "resumed"])
            await first.close()
            let second = try rig.account()
            let others = EventReader(second)
            try await second.connect()
            await others.until("resumed")
            #expect(others.seen == ["resumed"])
            #expect(rig.server.log.entries.count { $0.event == .bound } == 1)
            #expect(rig.sent() == ["presence "], "presence is not sent again after a resumption")
        }
    }

    @Test("S2 a wrong password is an error that says what to do, and is tried once only")
    func wrongPassword() async throws {
        try await withRig { rig in
            let account = try rig.account { $0.password = "guess" }
            let error = await errorOf { try await account.connect() } as? AccountError
            #expect(error?.code == .notAuthorized)
            #expect(error?.message.contains("alice@localhost") == true)
            #expect(error?.message.contains("check the address and the password") == true)
            // A round trip through the loop: had it started another attempt, the phase would not be idle.
            try await account.suspend()
            #expect(rig.server.log.entries.count { $0.event == .connected } == 1)
        }
    }

    @Test("S2 a password that becomes wrong stops the reconnecting instead of trying for ever")
    func passwordChanges() async throws {
        let clock = VirtualClock()
        try await withRig(clock: clock) { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            rig.server.setScript { element, _ in
                guard element.name == "auth" else { return .pass }
                let reason = Element("not-authorized", namespace: Namespaces.sasl)
                return .answer([Element("failure", namespace: Namespaces.sasl, children: [reason])])
            }
            rig.server.dropConnections()
            await events.until("suspended")
            async let stopped = events.until("stopped")
            try await rig.turnUntil { rig.server.log.entries.count { $0.event == .connected } >= 2 }
            #expect(await stopped != nil)
            #expect(events.seen.last == "stopped not-authorized")
            clock.advance(by: .seconds(600))
            try await account.perform { _ in }
            #expect(rig.server.log.entries.count { $0.event == .connected } == 2)
        }
    }

    @Test("S2 a server that cannot prove that it knows the password is refused")
    func impostor() async throws {
        try await withRig {
            $0.behavior.signsWrongly = true
        } _: { rig in
            let account = try rig.account()
            let error = await errorOf { try await account.connect() }
            #expect((error as? SASLError)?.code == .serverNotAuthenticated)
            #expect(!rig.server.log.entries.contains { $0.event == .bound })
        }
    }

    @Test("S2 the password is never sent to a server that offers PLAIN only")
    func onlyPlain() async throws {
        try await withRig {
            $0.behavior.mechanisms = ["PLAIN"]
        } _: { rig in
            let account = try rig.account()
            let error = await errorOf { try await account.connect() }
            #expect((error as? SASLError)?.code == .noCommonMechanism)
            #expect(!rig.server.log.entries.contains { $0.event == .received })
        }
    }

    @Test("S2 without STARTTLS on offer nothing is sent in clear")
    func noStartTLS() async throws {
        try await withRig {
            $0.behavior.offersStartTLS = false
        } _: { rig in
            let account = try rig.account {
                $0.server = .init(
                    host: rig.server.host, port: rig.server.startTLSPort, security: .startTLS)
            }
            let error = await errorOf { try await account.connect() } as? AccountError
            #expect(error?.code == .tlsUnavailable)
            #expect(error?.message.contains("localhost") == true)
            let received = rig.server.log.entries.filter { $0.event == .received }
            #expect(received.allSatisfy { $0.name == "starttls" })
        }
    }

    @Test("S2 the account's address does not travel before TLS")
    func noAddressInClear() async throws {
        let heard = try LoopbackServer { connection in
            connection.write(Array("<?xml version='1.0'?>".utf8))
            var bytes: [UInt8] = []
            while try connection.wait(until: .after(.seconds(20))) == .ready {
                if try connection.read(into: &bytes) == .closed { break }
                if bytes.last == UInt8(ascii: ">"), bytes.count > 60 { break }
            }
            connection.closeDirty()
            return String(decoding: bytes, as: UTF8.self)
        }
        try await withRig { rig in
            let account = try rig.account {
                $0.server = .init(host: "127.0.0.1", port: heard.port, security: .startTLS)
            }
            #expect(await errorOf { try await account.connect() } != nil)
        }
        let text = try await onThread { try heard.finish() }
        #expect(text.contains("to='localhost'"))
        #expect(!text.contains("alice"))
    }

    @Test(
        "S2 a bad certificate surfaces from connect() with its own code, and no login is tried",
        arguments: [
            (TestCertificates.Flaw.expired, ErrorCode<TransportError>.certificateExpired),
            (.wrongName, .certificateNameMismatch), (.untrustedAuthority, .certificateUntrusted),
        ])
    func badCertificate(flaw: TestCertificates.Flaw, code: ErrorCode<TransportError>) async throws {
        try await withRig(flaw: flaw) { rig in
            for (port, security) in [
                (rig.server.directTLSPort, AccountConfiguration.Server.Security.directTLS),
                (rig.server.startTLSPort, .startTLS),
            ] {
                let account = try rig.account {
                    $0.server = .init(host: rig.server.host, port: port, security: security)
                }
                let error = await errorOf { try await account.connect() } as? TransportError
                #expect(error?.code == code)
            }
            #expect(!rig.server.log.entries.contains { $0.name == "auth" })
        }
    }

    @Test("S2 a port on which nothing listens is an error, and what waits stays")
    func unreachable() async throws {
        try await withRig { rig in
            rig.server.stop()
            let account = try rig.account()
            try await account.tell("m1")
            let error = await errorOf { try await account.connect() } as? TransportError
            #expect(error?.code == .refused)
            #expect(try account.store.outboxCount == 1)
            try rig.server.start()
            try await account.connect()
            try await eventually { try account.store.notes("acknowledged") == ["m1: m1"] }
        }
    }

    @Test("S2 a server that says nothing ends connect() at its deadline")
    func silentServer() async throws {
        let listener = try Listener()
        try await withRig { rig in
            let account = try rig.account {
                $0.server = .init(host: "127.0.0.1", port: listener.port, security: .startTLS)
                $0.connectTimeout = .milliseconds(100)
            }
            let error = await errorOf { try await account.connect() } as? AccountError
            #expect(error?.code == .timedOut)
            let direct = try rig.account {
                $0.server = .init(host: "127.0.0.1", port: listener.port, security: .directTLS)
                $0.connectTimeout = .milliseconds(100)
            }
            let other = await errorOf { try await direct.connect() } as? TransportError
            #expect(other?.code == .timedOut)
        }
    }

    @Test("S2 a first connect that fails after a relaunch leaves the stored session as it was")
    func failedConnectKeepsState() async throws {
        try await withRig { rig in
            let first = try await rig.connected()
            try await first.tell("m1")
            try await eventually { try first.store.outboxCount == 0 }
            await first.close()
            rig.server.refuseConnections()
            let second = try rig.account()
            for _ in 0..<3 { #expect(await errorOf { try await second.connect() } != nil) }
            rig.server.refuseConnections(false)
            let events = EventReader(second)
            try await second.connect()
            await events.until("resumed")
            #expect(events.seen == ["resumed"])
        }
    }

    @Test("S1 stanzas that come before <enabled/> are taken in and not counted")
    func earlyStanzas() async throws {
        try await withRig { rig in
            let account = try rig.account()
            try await account.listen()
            let early = Message(to: Self.alice, from: AccountRig.peer, id: "early", body: "hello").element
            rig.server.setScript { element, _ in
                guard element.name == "enable" else { return .pass }
                return .answer([early, Element("enabled", namespace: Namespaces.sm)])
            }
            try await account.connect()
            try await eventually { try account.store.notes("message") == ["early: hello"] }
            #expect(try account.store.number("SELECT received FROM session") == 0)
        }
    }

    private static let alice = AccountRig.alice

    @Test("S2 a configuration that cannot work is refused before anything happens")
    func configuration() async throws {
        try await withRig { rig in
            let store = try rig.store()
            var broken: [AccountConfiguration] = []
            broken.append(rig.configuration { $0.connectedRequestTimeout = .zero })
            broken.append(rig.configuration { $0.connectTimeout = .milliseconds(-1) })
            broken.append(rig.configuration { $0.maximumOutbox = 0 })
            broken.append(rig.configuration { $0.jid = try! JID("localhost") })  // A constant.
            for configuration in broken {
                let error = await errorOf { _ = try Account(configuration, store: store) } as? AccountError
                #expect(error?.code == .invalidConfiguration)
            }
        }
    }
}
