import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore
import XMPPTestKit

@testable import XMPPAccount
@testable import XMPPModules

/// Combining marks wherever a peer can write, through the whole inbound step of an account with all modules.
///
/// No clock decides. Through a stream the next message must be shown before the deadline that every test has. In a step the
/// processor time of marks is compared with that of as many letters: compared as a `String`, marks cost a hundred times as much.
@Suite(.ownThread, .timeLimit(.minutes(5))) struct HostileTextTests {
    /// What fits into a stanza of 1 MiB with its markup.
    private static let large = 900_000
    private static let peer = AccountRig.peer.description
    private static let client = Namespaces.client

    private static func message(
        type: String? = "chat", id: String? = "x", from: String = peer, _ children: [Element] = []
    ) -> Element {
        Element(
            "message", namespace: client,
            attributes: ["type": type, "id": id, "from": from, "to": "alice@localhost"],
            children: children)
    }

    private static func presence(
        type: String? = nil, id: String? = nil, from: String = peer, _ children: [Element] = []
    ) -> Element {
        Element(
            "presence", namespace: client, attributes: ["type": type, "id": id, "from": from],
            children: children)
    }

    private static func iq(
        _ type: String, id: String = "x", from: String? = peer, _ children: [Element] = []
    ) -> Element {
        Element(
            "iq", namespace: client, attributes: ["type": type, "id": id, "from": from], children: children)
    }

    private static func roster(_ attributes: KeyValuePairs<String, (any TextConvertible)?>, _ group: String)
        -> Element
    {
        let item = Element(
            "item", namespace: Namespaces.roster, attributes: attributes,
            children: [Element("group", namespace: Namespaces.roster, text: group)])
        return iq("set", from: nil, [Element("query", namespace: Namespaces.roster, children: [item])])
    }

    private static func muc(_ child: Element) -> [Element] {
        [Element("x", namespace: Namespaces.mucUser, children: [child])]
    }

    private static func mucItem(_ attributes: KeyValuePairs<String, (any TextConvertible)?>, _ text: String)
        -> [Element]
    {
        muc(
            Element(
                "item", namespace: Namespaces.mucUser, attributes: attributes,
                children: [Element("reason", namespace: Namespaces.mucUser, text: text)]))
    }

    private static func named(_ name: String) -> [Element] {
        (0..<18).map { Element("\(name)\($0)", namespace: "urn:x") }
    }

    private static func caps(_ hash: String, _ node: String, _ ver: String) -> [Element] {
        [Element("c", namespace: Namespaces.caps, attributes: ["hash": hash, "node": node, "ver": ver])]
    }

    /// What is fed: a place, how many bytes it may hold, and the stanza that holds them.
    private static let places: [(name: String, bytes: [Int], stanza: @Sendable (String) -> Element)] = [
        ("type of a message", [large], { message(type: $0) }),
        ("id of a message", [large], { message(id: $0) }),
        ("body", [large], { message([Element("body", namespace: client, text: $0)]) }),
        (
            "subject", [large],
            { message(type: "groupchat", [Element("subject", namespace: client, text: $0)]) }
        ),
        ("thread", [large], { message([Element("thread", namespace: client, text: $0)]) }),
        (
            "language", [large],
            { message([Element("body", namespace: client, attributes: ["xml:lang": $0], text: "x")]) }
        ),
        ("namespace of a child", [large], { message([Element("x", namespace: $0)]) }),
        (
            "namespace of an attribute", [large],
            { text in
                var child = Element("x", namespace: "urn:x")
                child["a", namespace: text] = "1"
                return message([child])
            }
        ),
        // libxml2 takes names of up to 50 000 bytes, so there are many of them.
        ("name of a child", [49_000], { message(named("a" + $0)) }),
        (
            "name of an attribute", [49_000],
            { text in
                var child = Element("x", namespace: "urn:x")
                for number in 0..<18 { child["a\(text)\(number)"] = "1" }
                return message([child])
            }
        ),
        (
            "origin id", [large],
            { message([Element("origin-id", namespace: Namespaces.sid, attributes: ["id": $0])]) }
        ),
        (
            "stanza id", [large],
            {
                message([
                    Element(
                        "stanza-id", namespace: Namespaces.sid,
                        attributes: ["id": $0, "by": "alice@localhost"])
                ])
            }
        ),
        (
            "giver of a stanza id", [large],
            {
                message([Element("stanza-id", namespace: Namespaces.sid, attributes: ["id": "1", "by": $0])])
            }
        ),
        (
            "receipt", [large],
            { message([Element("received", namespace: Namespaces.receipts, attributes: ["id": $0])]) }
        ),
        (
            "delay", [large / 2],
            {
                message([
                    Element("delay", namespace: Namespaces.delay, attributes: ["stamp": $0, "from": $0])
                ])
            }
        ),
        ("chat state", [49_000], { message([Element("a" + $0, namespace: Namespaces.chatStates)]) }),
        (
            "condition", [49_000],
            {
                message(
                    type: "error",
                    [
                        Element(
                            "error", namespace: client,
                            children: [Element("a" + $0, namespace: Namespaces.stanzas)])
                    ])
            }
        ),
        (
            "text of an error", [large],
            { text in
                message(type: "error", [StanzaError(.itemNotFound, text: text).element])
            }
        ),
        (
            "type of an error", [large],
            {
                message(type: "error", [Element("error", namespace: client, attributes: ["type": $0])])
            }
        ),
        (
            "result of an archive", [large],
            {
                message(
                    from: "alice@localhost",
                    [
                        Element("result", namespace: Namespaces.mam, attributes: ["queryid": $0, "id": "1"])
                    ])
            }
        ),
        ("resource", [1023, 1024], { message(from: "peer@localhost/\($0)") }),
        ("type of a presence", [large], { presence(type: $0) }),
        ("id of a presence", [large], { presence(id: $0) }),
        ("status", [large], { presence([Element("status", namespace: client, text: $0)]) }),
        ("show", [large], { presence([Element("show", namespace: client, text: $0)]) }),
        ("priority", [large], { presence([Element("priority", namespace: client, text: $0)]) }),
        ("capabilities", [100, 101, large], { presence(caps("sha-1", "urn:n", $0)) }),
        ("hash of capabilities", [large], { presence(caps($0, "urn:n", "x")) }),
        (
            "status of a subscription", [large],
            { presence(type: "subscribe", [Element("status", namespace: client, text: $0)]) }
        ),
        (
            "nickname", [1022, 1023, 1024],
            { presence(from: "room@localhost/\($0)", mucItem(["role": "visitor"], "")) }
        ),
        (
            "new nickname", [large],
            { text in
                presence(
                    type: "unavailable", from: "room@localhost/old",
                    mucItem(["nick": text, "affiliation": "none", "role": "none"], ""))
            }
        ),
        (
            "affiliation and role", [large / 2],
            { text in
                presence(from: "room@localhost/a", mucItem(["affiliation": text, "role": text], ""))
            }
        ),
        (
            "reason of a room", [large],
            { presence(type: "unavailable", from: "room@localhost/a", mucItem([:], $0)) }
        ),
        (
            "invitation", [large],
            { text in
                message(
                    type: "normal", from: "room@localhost",
                    muc(
                        Element(
                            "invite", namespace: Namespaces.mucUser, attributes: ["from": "peer@localhost"],
                            children: [Element("reason", namespace: Namespaces.mucUser, text: text)])))
            }
        ),
        (
            "direct invitation", [large / 3],
            { text in
                message(
                    type: "normal",
                    [
                        Element(
                            "x", namespace: Namespaces.conference,
                            attributes: [
                                "jid": "room@localhost", "reason": text, "password": text, "thread": text,
                            ])
                    ])
            }
        ),
        (
            "id of a request", [large / 2],
            { iq("get", id: $0, [Element("ping", namespace: Namespaces.ping)]) }
        ),
        ("id of an answer", [large], { iq("result", id: $0) }),
        ("type of a request", [large], { iq($0, [Element("ping", namespace: Namespaces.ping)]) }),
        ("payload", [large], { iq("get", [Element("query", namespace: $0)]) }),
        (
            "node", [large / 2],
            { iq("get", [Element("query", namespace: Namespaces.discoInfo, attributes: ["node": $0])]) }
        ),
        ("name of a contact", [large], { roster(["jid": "c@localhost", "name": $0], "") }),
        ("group", [large], { roster(["jid": "c@localhost"], $0) }),
        ("subscription", [large], { roster(["jid": "c@localhost", "subscription": $0], "") }),
        ("address of a contact", [large], { roster(["jid": $0], "") }),
    ]

    @Test(
        "X19 marks in any place of a stanza cost no more than its bytes: the next message is shown",
        arguments: places.indices)
    func everyPlace(index: Int) async throws {
        let (name, sizes, stanza) = Self.places[index]
        try await withModulesRig({ $0.logsXML = false }) { rig in
            let account = try await rig.connected { $0.modules = .standard }
            try await account.listen()
            try await account.caughtUp()
            for bytes in sizes {
                rig.server.send(stanza(HostileText.marks(bytes)), to: .jid(AccountRig.alice))
                let good = Self.message(
                    id: "good-\(bytes)", [Element("body", namespace: Self.client, text: name)])
                rig.server.send(good, to: .jid(AccountRig.alice))
                try await eventually {
                    try account.store.number("SELECT count(*) FROM note WHERE name = 'good-\(bytes)'") == 1
                }
            }
            #expect(rig.server.log.entries.count { $0.event == .resumed } == 0, "\(name) broke the stream")
        }
    }

    // MARK: Processor time

    /// Marks may cost so much more than as many bytes of letters, which also take two bytes each. Normalizing the shortest of
    /// these texts once costs a hundred times as much.
    private static func isCheap(_ marks: Double, _ letters: Double) -> Bool { marks <= 10 * letters + 100 }

    /// Two texts of so many bytes that differ in the last letter only.
    private static func pair(_ bytes: Int, _ make: (Int) -> String, _ last: Unicode.Scalar) -> [String] {
        let text = make(bytes)
        return [text, String(String.UnicodeScalarView(text.unicodeScalars.dropLast() + [last]))]
    }

    private static let kinds: [@Sendable (Int) -> [String]] = [
        { pair($0, HostileText.marks, "\u{300}") },
        { pair($0, { String(repeating: "\u{436}", count: $0 / 2) }, "\u{437}") },
    ]

    @Test("X19 comparing, hashing and ordering marks costs no more than the same bytes of letters")
    func operations() {
        let costs = Self.kinds.map { kind in
            let texts = kind(100_000).map { ForeignText($0) }
            let copies = kind(100_000).map { ForeignText($0) }
            func cost(_ body: (ForeignText, ForeignText) -> Void) -> Double {
                ThreadTime.milliseconds { body(texts[0], texts[1]) }
            }
            return [
                cost { #expect($0 != $1) }, cost { #expect($0 != $1.string && $1 != $0.string) },
                cost { #expect(Set([$0, $1]).count == 2) }, cost { #expect(($0 < $1) != ($1 < $0)) },
                cost { #expect($0 == copies[0] && $1 == copies[1]) },
                cost { #expect(![$0].contains($1) && ![$0.string].contains($1)) },
                cost { #expect(!$0.hasPrefix($1) && !$0.hasSuffix($1)) },
                cost { first, second in
                    if case second.string = first { Issue.record("they differ") }
                },
            ]
        }
        for (index, (marks, letters)) in zip(costs[0], costs[1]).enumerated() {
            #expect(Self.isCheap(marks, letters), "\(index): \(marks) ms, not \(letters) ms")
        }
    }

    @Test(
        "X19 an inbound step takes marks in any place as fast as the same bytes of letters",
        arguments: places.indices)
    func steps(index: Int) throws {
        let (name, sizes, stanza) = Self.places[index]
        let folder = try TemporaryFolder()
        let account = try BoundedAccount(folder.path + "/store.db", .standard)
        // The code that takes stanzas in does not count.
        try account.receive([Self.message().serialized()])
        for bytes in sizes {
            let costs = try Self.kinds.map { kind in
                let stanzas = kind(min(bytes, 200_000)).map { stanza($0).serialized() }
                return try ThreadTime.milliseconds { try account.receive(stanzas) }
            }
            #expect(
                Self.isCheap(costs[0], costs[1]),
                "\(name) of \(bytes) bytes: \(costs[0]) ms, not \(costs[1]) ms")
        }
    }

    /// Answers to what an account asks: features, identities and forms.
    private static let answers: [(name: String, payload: @Sendable (String) -> [Element])] = [
        ("feature", { [Element("feature", namespace: Namespaces.discoInfo, attributes: ["var": $0])] }),
        (
            "identity",
            { text in
                [
                    Element(
                        "identity", namespace: Namespaces.discoInfo,
                        attributes: ["category": "a", "type": "b", "name": text, "xml:lang": "en"])
                ]
            }
        ),
        ("form type", { [DataForm(.result, type: $0).element] }),
        ("form field", { [DataForm(.result, type: "urn:x", [.init($0, "1")]).element] }),
        ("value of a form", { [DataForm(.result, type: "urn:x", [.init("f", $0)]).element] }),
    ]

    @Test(
        "X19 marks in what an entity says of itself cost no more than their bytes", arguments: answers.indices
    )
    func whatEntitiesSay(index: Int) async throws {
        let (name, payload) = Self.answers[index]
        try await withModulesRig({ $0.logsXML = false }) { rig in
            let service = try JID("service.localhost")
            rig.server.addService(at: service, for: [Namespaces.discoInfo]) { stanza, service in
                let children = payload(HostileText.marks(Self.large))
                service.answer(
                    stanza, payload: Element("query", namespace: Namespaces.discoInfo, children: children))
            }
            let account = try await rig.connected { $0.modules = .standard }
            let info = try await account.request(.discoInfo(of: service))
            #expect(!info.features.contains(Namespaces.mam), "\(name)")
            #expect(Set([info]).contains(info) && info.verification?.isEmpty != true, "\(name)")
        }
    }
}
