import Simulation
import TestSupport
import XMPPCore
import XMPPTestKit

/// What attackers can send to an account: all that X18, X19 and X20 are about.
struct WorkerAttack: Sendable {
    let name: String
    /// How often it breaks the stream.
    var breaks = 0
    /// Puts it into the account's session, or into what a new one asks for.
    let strike: @Sendable (AttackedWorker) throws -> Void

    private init(
        _ name: String, breaks: Int = 0, _ strike: @escaping @Sendable (AttackedWorker) throws -> Void
    ) {
        (self.name, self.breaks, self.strike) = (name, breaks, strike)
    }

    /// Stanzas as the server hands them over.
    private init(_ name: String, _ count: Int, _ stanza: @escaping @Sendable (Int) -> String) {
        self.init(name) { worker in
            for number in 0..<count { worker.send(try Self.element(stanza(number))) }
        }
    }

    private static func element(_ xml: String) throws -> Element {
        try Element(parsing: xml, defaultNamespace: Namespaces.client)
    }

    private static func text(_ bytes: Int) -> String { String(repeating: "x", count: bytes) }
    private static func marks(_ bytes: Int, in number: Int) -> String {
        number % 10 == 0 ? HostileText.marks(bytes) : "short"
    }

    // MARK: X18

    /// Where what cannot be read stands, in stanzas that are otherwise good; and how many there are of each.
    private static let places: [(count: Int, xml: @Sendable (Int) -> String)] = [
        (100, { "<message from='evil@evil.lit/x' type='chat' id='u\($0)'><body>x</body>MARK</message>" }),
        (100, { "<presence from='evil@evil.lit/x' id='u\($0)'>MARK</presence>" }),
        (100, { "<iq from='evil@evil.lit/x' type='get' id='u\($0)'><x xmlns='urn:x'>MARK</x></iq>" }),
        (
            20,
            {
                "<message from='room@rooms.lit/evil' type='groupchat' id='u\($0)'><body>x</body>MARK</message>"
            }
        ),
        (
            20,
            {
                "<message from='alice@localhost'><received xmlns='\(Namespaces.carbons)'><forwarded "
                    + "xmlns='\(Namespaces.forward)'><message xmlns='jabber:client' from='evil@evil.lit/x' id='u\($0)'>"
                    + "<body>x</body>MARK</message></forwarded></received></message>"
            }
        ),
        (
            20,
            { number in
                let items = (0..<10).map { "<item id='\($0)'>\($0 % 2 == 0 ? "MARK" : "")</item>" }.joined()
                return
                    "<message from='peer@localhost' id='u\(number)'><event xmlns='\(Namespaces.pubsubEvent)'>"
                    + "<items node='\(SimulationApp.News.node)'>\(items)</items></event></message>"
            }
        ),
        (
            20,
            {
                "<iq type='set' id='r\($0)'><query xmlns='\(Namespaces.roster)'><item jid='u\($0)@evil.lit'>MARK</item>"
                    + "<item jid='v\($0)@evil.lit'/></query></iq>"
            }
        ),
    ]

    static let unreadable =
        Damage.kinds.map { kind, _ in
            WorkerAttack("\(kind) in every place") { worker in
                let mark = String(decoding: Serializer().bytes(Damage.mark(kind)), as: UTF8.self)
                for place in places {
                    for number in 0..<place.count {
                        let xml = place.xml(number).split(separator: "MARK", omittingEmptySubsequences: false)
                        worker.send(try element(xml.joined(separator: mark)))
                    }
                }
            }
        } + [
            WorkerAttack("a stanza without an end", breaks: 2) { worker in
                worker.send(
                    Message(to: AttackedWorker.account, id: "e", children: [Damage.mark(Damage.endless)])
                        .element)
            }
        ]

    // MARK: X19

    /// Where combining marks stand that fill a stanza.
    private static let marked = [
        "<message type='MARKS'/>", "<message id='MARKS'/>", "<message><body>MARKS</body></message>",
        "<message type='groupchat'><subject>MARKS</subject></message>",
        "<message><thread>MARKS</thread></message>", "<message><body xml:lang='MARKS'>x</body></message>",
        "<message><x xmlns='MARKS'/></message>",
        "<message><origin-id xmlns='\(Namespaces.sid)' id='MARKS'/><body>x</body></message>",
        "<message><stanza-id xmlns='\(Namespaces.sid)' id='MARKS' by='alice@localhost'/><body>x</body></message>",
        "<message><received xmlns='\(Namespaces.receipts)' id='MARKS'/></message>",
        "<message><delay xmlns='\(Namespaces.delay)' stamp='MARKS'/><body>x</body></message>",
        "<message type='error'><error type='MARKS'/></message>",
        "<message><x xmlns='\(Namespaces.mucUser)'><invite from='evil@evil.lit'><reason>MARKS</reason></invite></x></message>",
        "<message><event xmlns='\(Namespaces.pubsubEvent)'><items node='MARKS'/></event></message>",
        "<presence type='MARKS'/>", "<presence id='MARKS'/>", "<presence><status>MARKS</status></presence>",
        "<presence type='subscribe'><status>MARKS</status></presence>",
        "<presence><c xmlns='\(Namespaces.caps)' hash='sha-1' node='urn:n' ver='MARKS'/></presence>",
        "<iq type='MARKS' id='x'><ping xmlns='\(Namespaces.ping)'/></iq>", "<iq type='result' id='MARKS'/>",
        "<iq type='get' id='MARKS'><ping xmlns='\(Namespaces.ping)'/></iq>",
        "<iq type='get' id='x'><query xmlns='MARKS'/></iq>",
        "<iq type='get' id='x'><query xmlns='\(Namespaces.discoInfo)' node='MARKS'/></iq>",
    ]

    static let marks = marked.map { template in
        // A request is answered with what it holds: that must fit into a stanza, too.
        let marks = HostileText.marks(template.hasPrefix("<iq") ? 450_000 : 900_000)
        return WorkerAttack("marks: \(template)", 3) { _ in
            let parts = template.split(separator: "MARKS", omittingEmptySubsequences: false)
            let begin = parts[0].split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
            let name = begin[0].split(separator: ">", maxSplits: 1, omittingEmptySubsequences: false)
            let rest = (name.count > 1 ? ">" + name[1] : "") + (begin.count > 1 ? " " + begin[1] : "")
            return "\(name[0]) from='evil@evil.lit/x'\(rest)\(marks)\(parts[1])"
        }
    }

    // MARK: X20

    /// What costs the parser most: names that it has never seen.
    private static func names(_ count: Int, _ number: Int) -> String {
        (0..<count).map { element in
            "<a" + (0..<60).map { " n\(number)-\(element * 60 + $0)=''" }.joined() + "/>"
        }.joined()
    }

    private static let keys = (0..<30_000).map { "<key rid='\($0)'/>" }.joined()

    static let floods = [
        WorkerAttack("senders", 6000) {
            "<message from='s\($0)@evil.lit/x' id='1'><body>x</body></message>"
        },
        WorkerAttack("ids of a sender", 3000) {
            "<message from='evil@evil.lit/\($0)' id='i\($0)'><body>x</body></message>"
        },
        WorkerAttack("presences", 6000) {
            "<presence from='s\($0)@evil.lit/x'><status>\(marks(4000, in: $0))</status></presence>"
        },
        WorkerAttack("capabilities", 1500) {
            "<presence from='s\($0)@evil.lit/x'><c xmlns='\(Namespaces.caps)' hash='sha-1' node='urn:n' ver='v\($0)'/></presence>"
        },
        WorkerAttack("subscription requests", 3000) {
            "<presence from='s\($0)@evil.lit' type='subscribe'><status>\(marks(6000, in: $0))</status>"
                + "<nick xmlns='\(Namespaces.nick)'>\(text($0 % 10 == 0 ? 6000 : 6))</nick></presence>"
        },
        WorkerAttack("contacts", 1000) {
            "<iq type='set' id='c\($0)'><query xmlns='\(Namespaces.roster)'><item jid='c\($0)@evil.lit' name='\(text(2000))'/>"
                + "</query></iq>"
        },
        WorkerAttack("blocked addresses", 200) { number in
            let items = (0..<100).map { "<item jid='b\(number * 100 + $0)@evil.lit'/>" }.joined()
            return
                "<iq type='set' id='b\(number)'><block xmlns='\(Namespaces.blocking)'>\(items)</block></iq>"
        },
        WorkerAttack("requests", 3000) {
            "<iq from='evil@evil.lit/\($0)' type='get' id='q\($0)'><ask xmlns='urn:test'/></iq>"
        },
        WorkerAttack("invitations", 104) {
            "<message from='room\($0)@rooms.lit'><x xmlns='\(Namespaces.mucUser)'><invite from='evil@evil.lit'><reason>"
                + "\(HostileText.marks(250_000))</reason></invite><password>\(text(3000))</password></x></message>"
        },
        WorkerAttack("items of a node", 100) { number in
            let items = (0..<100).map { "<item id='\(number)-\($0)'/>" }.joined()
            return "<message from='peer@localhost' id='n\(number)'><event xmlns='\(Namespaces.pubsubEvent)'>"
                + "<items node='\(SimulationApp.News.node)'>\(items)</items></event></message>"
        },
        WorkerAttack("names that are ever new", 5) {
            "<message from='evil@evil.lit/x' id='w\($0)'><x xmlns='urn:x'>\(names(1300, $0))</x></message>"
        },
        WorkerAttack("encrypted for thirty thousand devices", 5) {
            "<message from='evil@evil.lit/x' id='o\($0)'><encrypted xmlns='\(Namespaces.omemoLegacy)'><header sid='1'>\(keys)"
                + "</header><payload/></encrypted></message>"
        },
    ]

    // MARK: All of it where a new session asks

    private static func items(_ count: Int, _ bad: String) -> String {
        (0..<count).map { "<item jid='n\($0)@evil.lit'>\($0 % 100 == 0 ? bad : "")</item>" }.joined()
    }

    /// An archive, a roster and a block list that are full of it. Every tenth message is a good one.
    static func answers(archived: Int) -> WorkerAttack {
        WorkerAttack("answers to a new session") { worker in
            let archive = ArchiveService(count: archived) { number in
                var message = Message(
                    to: AttackedWorker.account, id: "a\(number)", body: number % 10 == 0 ? "good" : "bad",
                    children: number % 10 == 0
                        ? [] : [Damage.mark(Damage.kinds[number % Damage.kinds.count].kind)]
                ).element
                message["from"] = AttackedWorker.friend.foreignText
                if number % 25 == 1 { message["id"] = ForeignText(HostileText.marks(500_000)) }
                return message
            }
            archive.serve(at: AttackedWorker.account, on: worker.server)
            let bad = String(decoding: Serializer().bytes(Damage.mark("xml")), as: UTF8.self)
            let roster = try element("<query xmlns='\(Namespaces.roster)'>\(items(15_000, bad))</query>")
            let blocked = try element(
                "<blocklist xmlns='\(Namespaces.blocking)'>\(items(15_000, ""))</blocklist>")
            worker.server.setScript { element, _ in
                guard let iq = try? IQ(element: element) else { return .pass }
                if let query = iq.payload, query.child("x", Namespaces.dataForms) != nil,
                    query.namespace == Namespaces.mam
                {
                    // The archive's messages are older than what a new client asks for.
                    let set = query.elements.filter { $0.namespace == Namespaces.rsm }
                    let whole = Element(
                        "query", namespace: Namespaces.mam, attributes: ["queryid": query["queryid"]],
                        children: set)
                    return .replace([IQ(type: .set, to: iq.to, id: iq.id, payload: whole).element])
                }
                guard iq.type == .get else { return .pass }
                let answer: Element? =
                    switch iq.payload?.namespace {
                    case Namespaces.roster: roster
                    case Namespaces.blocking: blocked
                    default: nil
                    }
                return answer.flatMap { iq.result(payload: $0)?.element }.map { .answer([$0]) } ?? .pass
            }
            worker.server.expireSessions()
        }
    }
}
