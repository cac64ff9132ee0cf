import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import Testing
import XMPPAccount
import XMPPCore
import TestServers

extension RealServerTests {
    /// What an account needs most, on each real server and over both kinds of TLS.
    @Suite struct AccountOnServersTests {
        typealias Security = AccountConfiguration.Server.Security

        @Test(
            "S2 an account logs in and resumes its session after the line was cut",
            arguments: ServerKind.allCases, [Security.directTLS, .startTLS])
        func resumes(kind: ServerKind, security: Security) async throws {
            try await withHome(kind) { home in
                let proxy = try LoopbackProxy(to: home.port(security))
                let account = try home.account(security, port: proxy.port)
                let events = EventReader(account)
                try await account.connect()
                try await account.caughtUp()
                proxy.cut()
                await events.until("resumed")
                #expect(events.seen.first == "bound")
                #expect(events.seen.dropFirst().allSatisfy { $0.hasPrefix("suspended") || $0 == "resumed" })
                try await account.caughtUp()
                #expect(try home.sessions[1] == 1, "bound once")
            }
        }

        @Test(
            "X5 before TLS nothing but the request for it is sent, and no name",
            arguments: ServerKind.allCases)
        func nothingInClear(kind: ServerKind) async throws {
            try await withHome(kind) { home in
                let proxy = try LoopbackProxy(to: home.port(.startTLS))
                let account = try home.account(.startTLS, port: proxy.port)
                try await account.connect()
                let sent = try #require(proxy.records.first).clientBytes
                let clear =
                    "<?xml version='1.0'?><stream:stream xmlns='jabber:client' "
                    + "xmlns:stream='http://etherx.jabber.org/streams' version='1.0' to='localhost'>"
                    + "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"
                #expect(String(decoding: sent.prefix(clear.utf8.count), as: UTF8.self) == clear)
                // Everything else is TLS records: a type, the version, a length (RFC 8446 section 5.1).
                var rest = sent.dropFirst(clear.utf8.count)
                #expect(!rest.isEmpty)
                while let type = rest.first, rest.count >= 5 {
                    #expect((20...23).contains(type))
                    let head = Array(rest.prefix(5))
                    rest = rest.dropFirst(5 + Int(head[3]) << 8 + Int(head[4]))
                }
            }
        }

        @Test(
            "S8 messages go both ways between an account and an independent client, over a cut line",
            arguments: ServerKind.allCases, [Security.directTLS, .startTLS])
        func messages(kind: ServerKind, security: Security) async throws {
            try await withHome(kind) { home in
                let proxy = try LoopbackProxy(to: home.port(security))
                let account = try home.account(security, port: proxy.port)
                try await account.listen()
                try await account.connect()
                try await account.caughtUp()
                let peer = try home.scene.peer()
                defer { peer.close() }
                let other = try peer.jid
                try await account.send(Message(to: other, id: "before", body: "one"))
                try peer.sendMessages(to: home.jid.description, count: 20, prefix: "p")
                try await account.caughtUp()
                proxy.cut()
                try await account.send(Message(to: other, id: "after", body: "two"))
                try await eventually("the peer's messages") { try home.store.notes("message").count == 20 }
                let stored = try home.store.notes("message")
                let sent = (1...20).map { "p-\($0): \($0)" }
                // ejabberd routes what the old connection's process had not taken yet once more, behind what came since.
                if kind == .prosody { #expect(stored == sent) }
                #expect(stored.sorted() == sent.sorted())
                try await eventually("both messages") {
                    try peer.log().filter { $0.kind == .received }.count == 2
                }
                #expect(try peer.log().filter { $0.kind == .received }.map(\.id) == ["before", "after"])
            }
        }
    }
}
