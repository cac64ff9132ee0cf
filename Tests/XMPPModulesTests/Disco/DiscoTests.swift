import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore
import XMPPTestKit

@testable import XMPPAccount
@testable import XMPPModules

/// What entities say of themselves.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct DiscoTests {
    @Test("X11 the digest of XEP-0115's own examples is theirs")
    func examples() {
        // XEP-0115 section 5.2.
        let simple = DiscoInfo(
            identities: [.init(category: "client", type: "pc", name: "Exodus 0.9.1")],
            features: [
                "http://jabber.org/protocol/caps", "http://jabber.org/protocol/disco#info",
                "http://jabber.org/protocol/disco#items", "http://jabber.org/protocol/muc",
            ])
        #expect(simple.verification == "QgayPKawpkPSDYmwT/WM94uAlu0=")
        // XEP-0115 section 5.3.
        let complex = DiscoInfo(
            identities: [
                .init(category: "client", type: "pc", name: "Psi 0.11", language: "en"),
                .init(category: "client", type: "pc", name: "Ψ 0.11", language: "el"),
            ], features: Array(simple.features),
            forms: [
                DataForm(
                    .result, type: "urn:xmpp:dataforms:softwareinfo",
                    [
                        .init("ip_version", "ipv4", "ipv6"), .init("os", "Mac"),
                        .init("os_version", "10.5.1"),
                        .init("software", "Psi"), .init("software_version", "0.11"),
                    ])
            ])
        #expect(complex.verification == "q07IKJEyjvHSyhy//CH0CxmKi8w=")
    }

    @Test("X11 what two answers could share a digest by has none")
    func ambiguous() {
        let twice = DiscoInfo.Identity(category: "client", type: "pc")
        #expect(DiscoInfo(identities: [twice, twice], features: []).verification == nil)
        #expect(DiscoInfo(identities: [twice], features: ["a<b"]).verification == nil)
        let form = DataForm(.result, type: "urn:x", [])
        #expect(DiscoInfo(identities: [twice], features: [], forms: [form, form]).verification == nil)
    }

    @Test("X11 no other answer can be given under the digest of an honest one")
    func collisions() throws {
        let honest = DiscoInfo(
            identities: [.init(category: "client", type: "pc", name: "Psi")],
            features: ["http://jabber.org/protocol/muc", "urn:x:one", "vcard-temp"])
        #expect(honest.verification != nil)
        let psi = honest.identities
        // The same text, cut elsewhere: features as the type and the fields of a form, or as an identity.
        let forms = [
            DiscoInfo(
                identities: psi, features: ["http://jabber.org/protocol/muc"],
                forms: [DataForm(.result, type: "urn:x:one", [.init("vcard-temp", values: [])])]),
            DiscoInfo(
                identities: psi, features: ["http://jabber.org/protocol/muc", "urn:x:one"],
                forms: [DataForm(.result, type: "vcard-temp", [])]),
            DiscoInfo(
                identities: psi, features: [],
                forms: [
                    DataForm(
                        .result, type: "http://jabber.org/protocol/muc",
                        [.init("urn:x:one", values: ["vcard-temp"])])
                ]),
            DiscoInfo(
                identities: psi, features: ["http://jabber.org/protocol/muc"],
                forms: [DataForm(.result, type: "urn:x:one", [.init("a", values: ["b<c"])])]),
            DiscoInfo(
                identities: psi + [
                    .init(category: "http:", type: "", name: "protocol/muc", language: "jabber.org")
                ],
                features: ["urn:x:one", "vcard-temp"]),
        ]
        for other in forms {
            #expect(other.verification == nil || other.verification != honest.verification)
        }
        #expect(forms[3].verification == nil, "a value with the separator in it")
    }

    @Test("X11 a flood of digests is asked about up to a bound, and strangers are not asked at all")
    func flood() async throws {
        try await withModulesRig { rig in
            let asked = Kept(0)
            rig.server.addBot(jid: AccountRig.peer) { stanza, _ in
                if stanza.firstElement?.namespace == Namespaces.discoInfo { asked.withLock { $0 += 1 } }
            }
            let account = try await connected(rig)
            for number in 0..<400 {
                rig.server.send(try presence("flood-\(number)", on: rig), from: AccountRig.peer)
            }
            try await account.caughtUp()
            #expect(try account.store.number("SELECT count(*) FROM capability_query") <= 256)
            #expect(try account.store.number("SELECT count(*) FROM entity") == 1)
            let other = try rig.account(store: account.store) {
                $0.modules = [DiscoModule(), RosterModule()]
                $0.retiredModules = ["chat", "carbons"]
            }
            await account.close()
            try await other.connect()
            try await other.caughtUp()
            let before = asked.withLock { $0 }
            rig.server.send(try presence("stranger", on: rig), from: AccountRig.peer)
            try await other.caughtUp()
            try await other.caughtUp()
            #expect(
                asked.withLock { $0 } == before, "a question would tell a stranger that the account is online"
            )
            #expect(
                try other.store.number("SELECT count(*) FROM entity WHERE verification = 'stranger'") == 0)
        }
    }

    private func connected(_ rig: AccountRig) async throws -> Account {
        let account = try await rig.connected {
            $0.modules = [DiscoModule(software: ("Verona", "1.0")), ChatModule(), CarbonsModule()]
        }
        try await account.caughtUp()
        return account
    }

    /// Presence of the peer to the session that is there now.
    private func presence(_ verification: some TextConvertible, on rig: AccountRig) throws -> Element {
        Presence(
            to: try #require(rig.server.log.entries.last { $0.event == .bound }?.jid),
            children: [
                Element(
                    "c", namespace: Namespaces.caps,
                    attributes: ["hash": "sha-1", "node": "urn:peer", "ver": verification])
            ]
        ).element
    }

    private let info = DiscoInfo(
        identities: [.init(category: "client", type: "bot")], features: ["urn:x:one", "urn:x:two"])

    @Test("X11 presence carries the digest of what is answered, and other nodes do not exist")
    func answers() async throws {
        try await withModulesRig { rig in
            let account = try await connected(rig)
            let own = try #require(rig.server.log.entries.first { $0.event == .bound }?.jid)
            let sent = try #require(
                rig.server.log.entries.first { $0.event == .received && $0.name == "presence" }?.xml)
            let caps = try #require(
                try Element(parsing: sent, defaultNamespace: Namespaces.client).child("c", Namespaces.caps))
            let full = "\(caps["node"] ?? "")#\(caps["ver"] ?? "")"
            for (id, node) in [("whole", nil), ("caps", full), ("other", "urn:other")] {
                rig.bot.send(
                    IQ(
                        type: .get, to: own, id: id,
                        payload: Element("query", namespace: Namespaces.discoInfo, attributes: ["node": node])
                    ).element)
            }
            rig.bot.send(
                IQ(
                    type: .get, to: own, id: "version",
                    payload: Element("query", namespace: Namespaces.version)
                ).element)
            for id in ["whole", "caps", "other", "version"] {
                try await rig.saw { $0.event == .received && $0.id == id }
            }
            let answer = try Element(parsing: rig.xml(ofID: "caps")[0], defaultNamespace: Namespaces.client)
            let info = try #require(answer.firstElement.flatMap { DiscoInfo($0) })
            #expect(info.verification == caps["ver"])
            #expect(info.features.contains(Namespaces.receipts), "what other modules understand is there")
            #expect(rig.xml(ofID: "whole")[0].contains(Namespaces.receipts))
            #expect(rig.xml(ofID: "other")[0].contains("item-not-found"))
            #expect(rig.xml(ofID: "version")[0].contains("<name>Verona</name><version>1.0</version>"))
            _ = account
        }
    }

    @Test("X11 a digest is asked about once, kept over sessions, and believed only when the answer fits it")
    func capabilities() async throws {
        try await withModulesRig { rig in
            let asked = Kept(0)
            let answer = Kept(info)
            rig.server.addBot(jid: AccountRig.peer) { stanza, bot in
                guard stanza.firstElement?.namespace == Namespaces.discoInfo else { return }
                asked.withLock { $0 += 1 }
                bot.answer(
                    stanza, payload: answer.withLock { $0 }.element(node: stanza.firstElement?["node"]))
            }
            let account = try await connected(rig)
            let events = EventReader(account)
            let verification = try #require(info.verification)
            rig.server.send(try presence(verification, on: rig), from: AccountRig.peer)
            rig.server.send(try presence(verification, on: rig), from: AccountRig.peer)
            try await eventually { asked.withLock { $0 } == 1 }
            try await account.caughtUp()
            let known = try await account.perform { try account.knownInfo(of: AccountRig.peer, in: $0) }
            #expect(known == self.info)
            rig.server.expireSessions()
            await events.until("bound")
            try await account.caughtUp()
            let forgotten = try await account.perform {
                try account.knownInfo(of: AccountRig.peer, in: $0)
            }
            #expect(forgotten == nil, "its presence belonged to the last session")
            rig.server.send(try presence(verification, on: rig), from: AccountRig.peer)
            try await account.caughtUp()
            let again = try await account.perform { try account.knownInfo(of: AccountRig.peer, in: $0) }
            #expect(again == self.info)
            #expect(asked.withLock { $0 } == 1, "what the digest stands for is kept")
            rig.server.send(try presence("lie", on: rig), from: AccountRig.peer)
            try await eventually { asked.withLock { $0 } == 2 }
            try await account.caughtUp()
            let lie = try await account.perform { try account.knownInfo(of: AccountRig.peer, in: $0) }
            #expect(lie == nil)
        }
    }

    @Test("X11 asking gives what the entity says, or its error")
    func asking() async throws {
        try await withModulesRig { rig in
            rig.server.addBot(jid: AccountRig.peer) { stanza, bot in
                switch stanza.firstElement?.namespace {
                case Namespaces.discoInfo: bot.answer(stanza, payload: self.info.element())
                default: bot.refuse(stanza, StanzaError(.forbidden))
                }
            }
            let account = try await connected(rig)
            #expect(try await account.request(.discoInfo(of: AccountRig.peer)) == info)
            let error =
                await errorOf { _ = try await account.request(.discoItems(of: AccountRig.peer)) }
                as? StanzaError
            #expect(error?.condition == .forbidden)
        }
    }
}
