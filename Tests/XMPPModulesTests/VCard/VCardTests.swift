import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import XMPPTestKit

/// Visiting cards of others, and pings.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct VCardTests {
    private static func card(_ children: [Element]) -> Element {
        Element("vCard", namespace: Namespaces.vcard, children: children)
    }

    private static func text(_ name: String, _ text: String) -> Element {
        Element(name, namespace: Namespaces.vcard, text: text)
    }

    private static func photo(_ type: String?, _ bytes: String) -> Element {
        Element(
            "PHOTO", namespace: Namespaces.vcard,
            children: (type.map { [text("TYPE", $0)] } ?? []) + [text("BINVAL", bytes)])
    }

    /// Answers for the peer's bare address and the own account.
    private func serve(_ rig: AccountRig, _ answer: Result<Element?, StanzaError>) {
        rig.server.setScript { element, _ in
            guard let iq = try? IQ(element: element), iq.payload?.namespace == Namespaces.vcard else {
                return .pass
            }
            switch answer {
            case .success(let payload): return .answer([iq.result(payload: payload)].compactMap(\.?.element))
            case .failure(let error): return .answer([iq.errorReply(error)].compactMap(\.?.element))
            }
        }
    }

    @Test(
        "X15 a card's name, nickname and picture are read, with line breaks inside and what nobody knows left out"
    )
    func fetched() async throws {
        try await withModulesRig { rig in
            let account = try await rig.connected([])
            serve(
                rig,
                .success(
                    Self.card([
                        Self.text("FN", "Juliet Capulet"), Self.text("NICKNAME", "Jules"),
                        Self.text("SHOE-SIZE", "36"), Self.photo("image/png", "\n aGVs\r\n bG8= \n"),
                    ])))
            let card = try #require(try await account.request(.vcard(of: AccountRig.peer)))
            #expect(card.name == "Juliet Capulet")
            #expect(card.nickname == "Jules")
            #expect(card.photo?.type == "image/png")
            #expect(card.photo?.bytes == Array("hello".utf8))
            #expect(!card.hasRefusedPhoto)
            let request = try #require(rig.requests("vCard", Namespaces.vcard).first)
            #expect(request.to?.description == "peer@localhost")
            #expect(request.type == .get)
            _ = try await account.request(.vcard(of: nil))
            _ = try await account.request(.vcard(of: AccountRig.peer, exactly: true))
            #expect(
                try rig.requests("vCard", Namespaces.vcard).dropFirst().map(\.to) == [nil, AccountRig.peer])
        }
    }

    @Test(
        "X15 a picture that is too large, damaged or elsewhere is refused and the rest of the card is read",
        arguments: [
            photo("image/png", String(repeating: "AAAA", count: 512 * 1024 / 3 + 1)),
            photo("image/png", "not base64!"), photo("image/png", ""), photo("image/png", "aGVsbG8"),
            Element(
                "PHOTO", namespace: Namespaces.vcard, children: [text("EXTVAL", "http://x.example/y.png")]),
        ])
    func refusedPhoto(photo: Element) async throws {
        try await withModulesRig { rig in
            let account = try await rig.connected([])
            let name = String(repeating: "n", count: 2000)
            serve(rig, .success(Self.card([photo, Self.text("FN", name), Self.text("NICKNAME", "Jules")])))
            let card = try #require(try await account.request(.vcard(of: AccountRig.peer)))
            #expect(card.photo == nil)
            #expect(card.hasRefusedPhoto)
            #expect(card.name == nil)
            #expect(card.nickname == "Jules")
        }
    }

    @Test(
        "X15 no card, an error and no answer are distinguished, by the awaited form and to the stored handler"
    )
    func outcomes() async throws {
        try await withModulesRig { rig in
            let account = try await rig.connected([])
            let answers: [Result<Element?, StanzaError>] = [
                .success(Self.card([])), .success(nil), .failure(StanzaError(.itemNotFound)),
                .failure(StanzaError(.serviceUnavailable)),
            ]
            for (index, answer) in answers.enumerated() {
                serve(rig, answer)
                #expect(try await account.request(.vcard(of: AccountRig.peer)) == nil)
                try await account.send(
                    .vcard(of: AccountRig.peer.bare), then: ContactsApp.CardNoted().durable)
                try await eventually { try account.store.notes("card").count == index + 1 }
            }
            serve(rig, .failure(StanzaError(.forbidden)))
            await #expect(throws: StanzaError(.forbidden)) {
                try await account.request(.vcard(of: AccountRig.peer))
            }
            try await account.send(.vcard(of: AccountRig.peer.bare), then: ContactsApp.CardNoted().durable)
            try await eventually { try account.store.notes("card").count == 5 }
            serve(rig, .success(Self.card([Self.text("FN", "Alice")])))
            try await account.send(.vcard(of: nil), then: ContactsApp.CardNoted().durable)
            try await eventually { try account.store.notes("card").count == 6 }
            #expect(
                try account.store.notes("card") == Array(repeating: "peer@localhost: none", count: 4) + [
                    "peer@localhost: error forbidden", "alice@localhost: card Alice",
                ])
        }
    }

    @Test("X15 a card whose session is lost invalidates the program's handler once")
    func lost() async throws {
        try await withModulesRig { rig in
            rig.server.setScript { element, _ in
                element.firstElement?.namespace == Namespaces.vcard ? .drop : .pass
            }
            let account = try await rig.connected([])
            try await account.send(
                .vcard(of: AccountRig.peer), then: ContactsApp.CardNoted().durable,
                orElse: TestApp.Abandoned(name: "card").durable)
            try await account.caughtUp()
            try await rig.loseSession(account)
            #expect(try account.store.notes("abandoned") == ["card: session-lost"])
            #expect(try account.store.notes("card") == [])
        }
    }

    @Test("X15 a ping tells how long the answer took; an error and a lost session are reported as such")
    func ping() async throws {
        try await withModulesRig { rig in
            let account = try await rig.connected([])
            let own: Duration = try await account.ping(nil)
            #expect(own > .zero)
            rig.server.addBot(jid: AccountRig.peer) { stanza, bot in
                stanza["id"] == "x" ? bot.refuse(stanza, StanzaError(.forbidden)) : bot.answer(stanza)
            }
            #expect(try await account.ping(AccountRig.peer) > .zero)
            let ping = try #require(rig.requests("ping", Namespaces.ping).last)
            #expect(ping.to == AccountRig.peer)
            #expect(ping.type == .get)
            let gone = try JID("peer@localhost/gone")
            await #expect(throws: StanzaError(.serviceUnavailable)) { try await account.ping(gone) }
            rig.server.addBot(jid: AccountRig.peer)
            let error =
                await errorOf { _ = try await account.ping(AccountRig.peer, timeout: .milliseconds(1)) }
                as? AccountError
            #expect(error?.code == .timedOut)
        }
    }
}
