import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import TestServers

extension RealServerTests {
    /// What strangers can send through real servers that the parser cannot read.
    @Suite struct UnreadableOnServersTests {
        /// How many in a row: of those that cost a server, or a debug build on a busy machine, much time there are fewer.
        private static func amount(_ body: String) -> Int { body.utf8.count > 5000 ? 10 : 100 }
        /// How soon the next message must be shown. A busy machine gets another try.
        private static let patience = Duration.seconds(3)

        private static let long = String(repeating: "n", count: 50_001)
        private static func depth(_ depth: Int) -> String {
            "<a xmlns='urn:d'>" + String(repeating: "<a>", count: depth - 1)
                + String(repeating: "</a>", count: depth)
        }

        /// What becomes of it on the way through a server.
        private enum Fate {
            /// It reaches the account, which cannot read it.
            case unread
            /// The server writes it so that it can be read.
            case readable
            /// The server ends the stranger's stream.
            case refused
            /// The server fails with it; it reaches nobody.
            case lost
        }

        /// What a stranger writes, by its name.
        private static let bodies: [(name: String, text: String, fate: Fate)] = [
            ("xml", "<xml:x/>", .unread), ("element name", "<\(long) xmlns='urn:l'/>", .unread),
            ("attribute name", "<a xmlns='urn:l' \(long)='1'/>", .unread), ("depth 70", depth(70), .unread),
            ("depth 1000", depth(1000), .unread),
            (
                "shadowed prefix",
                "<p:a xmlns:p='urn:u'><b xmlns:p='urn:v' xmlns='urn:w'><p:c p:d='1'/></b></p:a>", .readable
            ),
            ("undeclared prefix", "<a xmlns:p='urn:u'><b xmlns:p=''><p:c/></b></a>", .refused),
        ]

        /// An account, a stranger, and what the account made of the stranger's stanzas.
        private final class Meeting {
            let home: RealHome
            let line: LoopbackProxy
            let account: Account
            let events: EventReader
            let own: JID
            let stranger: StrangerClient
            private let ignored = Kept(0)
            private var sent = 0
            /// How often the session was resumed to compare its counts.
            private(set) var comparisons: Int64 = 0

            init(_ home: RealHome) async throws {
                self.home = home
                // Megabytes of it, byte by byte, in a debug build.
                home.log.log.showsReceivedXML = false
                line = try LoopbackProxy(to: home.port(.directTLS))
                account = try home.account(port: line.port) { $0.modules = .standard }
                try await account.listen()
                events = EventReader(account)
                try await account.connect()
                guard case .bound(let own) = await events.until("bound") else { throw NoSession() }
                self.own = own
                try await account.caughtUp()
                stranger = try StrangerClient(home.scene)
                let (events, ignored) = (account.events, ignored)
                Task { for await case .ignored in events { ignored.withLock { $0 += 1 } } }
            }

            struct NoSession: Error {}

            var chat: (String) -> String {
                { "<message to='\(self.own)' type='chat' id='\($0)'><body>hello</body></message>" }
            }

            /// Offers what cannot be read, and then a message that must be shown soon.
            func offer(
                _ place: String, good: ((String) -> String)? = nil,
                _ stanza: (_ number: Int, _ body: String) -> String
            ) async throws {
                for (name, body, usual) in UnreadableOnServersTests.bodies {
                    // Prosody fails where it stores something as deep.
                    let isStored = ["chat", "room", "event"].contains(place)
                    let isLost = isStored && name == "depth 1000" && home.server is ProsodyServer
                    let fate = isLost ? .lost : usual
                    var waits: [Duration] = []
                    repeat {
                        waits.append(try await offer("\(place), \(name)", body, fate, good ?? chat, stanza))
                    } while waits.count < 3 && waits.last! > UnreadableOnServersTests.patience
                    #expect(waits.min()! <= UnreadableOnServersTests.patience, "\(place), \(name): \(waits)")
                    try await compareCounts("\(place), \(name)")
                }
            }

            private var handled: Int64 {
                get throws { try home.store.number("SELECT received FROM session") }
            }

            /// Tells the server our count and goes on with the session over another connection: of a stanza that we did not
            /// count the server would send as many again, and for one that we counted twice it would end the session.
            private func compareCounts(_ what: String) async throws {
                try await account.caughtUp()
                let before = try handled
                try await account.suspend()
                let end = ContinuousClock.now + .seconds(30)
                if let ejabberd = home.server as? EjabberdServer {
                    #expect(try ejabberd.waitUntilDepartedAreGone(over: line, deadline: end))
                }
                try await account.connect()
                comparisons += 1
                try await account.caughtUp()
                #expect(try handled == before, "\(what): the server sent something again")
                #expect(try home.sessions == [comparisons, 1], "\(what): the session did not go on")
            }

            private func offer(
                _ what: String, _ body: String, _ fate: Fate, _ good: (String) -> String,
                _ stanza: (Int, String) -> String
            ) async throws -> Duration {
                ignored.withLock { $0 = 0 }
                let amount = UnreadableOnServersTests.amount(body)
                let stanzas = (1...amount).map { stanza($0, body) }
                // One first: a server that ends the stream for it gets no more.
                let isTaken = try stranger.offer(stanzas[0]) && stranger.offer(stanzas.dropFirst().joined())
                #expect(isTaken == (fate != .refused), "\(what)")
                sent += 1
                let id = "good\(sent)"
                #expect(try stranger.offer(good(id)))
                let begin = ContinuousClock.now
                try await eventually(what) {
                    try account.store.notes("message").contains { $0.hasPrefix("\(id):") }
                }
                let wait = ContinuousClock.now - begin
                // Each was reported before the message was shown; the report may be read later.
                if fate == .unread { try await eventually(what) { ignored.withLock { $0 } >= amount } }
                #expect(ignored.withLock { $0 } == (fate == .unread ? amount : 0), "\(what)")
                return wait
            }
        }

        @Test(
            "X18 what strangers send that cannot be read costs only itself: the next message is shown within 3 s",
            arguments: ServerKind.allCases)
        func strangers(kind: ServerKind) async throws {
            try await withModulesHome(kind) { home in
                let meeting = try await Meeting(home)
                let own = meeting.own
                try await meeting.offer("chat") { number, body in
                    "<message to='\(own.bare)' type='chat' id='c\(number)'><body>x</body>\(body)</message>"
                }
                try await meeting.offer("presence") { number, body in
                    "<presence to='\(own)' id='p\(number)'>\(body)</presence>"
                }
                try await meeting.offer("request") { number, body in
                    "<iq to='\(own)' type='get' id='q\(number)'><x xmlns='urn:x'>\(body)</x></iq>"
                }
                try await inRoom(meeting)
                try await inEvents(meeting)
                try await meeting.account.caughtUp()
                #expect(try home.sessions == [meeting.comparisons, 1], "no other reconnection")
                #expect(meeting.line.records.count == Int(meeting.comparisons) + 1)
                await meeting.account.close()
                try await inArchive(home)
            }
        }

        /// A room in which both are.
        private func inRoom(_ meeting: Meeting) async throws {
            let (room, stranger) = (try meeting.home.freshRoom(), meeting.stranger)
            func join() throws {
                try #require(
                    try stranger.ask(
                        "<presence to='\(room)/stranger'><x xmlns='\(Namespaces.muc)'/></presence>",
                        until: "code='110'"))
            }
            try join()
            try #require(
                try stranger.ask(
                    "<iq type='set' to='\(room)' id='open'><query xmlns='\(Namespaces.mucOwner)'>"
                        + "<x xmlns='jabber:x:data' type='submit'/></query></iq>", until: "id='open'"))
            let end = try await meeting.account.rooms.join(room, as: "Alice")
            #expect(end.outcome == .joined)
            stranger.rejoin = join
            defer { stranger.rejoin = nil }
            let good = { (id: String) in
                "<message to='\(room)' type='groupchat' id='\(id)'><body>hello</body></message>"
            }
            try await meeting.offer("room", good: good) { number, body in
                "<message to='\(room)' type='groupchat' id='r\(number)'><body>x</body>\(body)</message>"
            }
        }

        /// A node of the stranger to which the account is subscribed; each item comes in an event of its own.
        private func inEvents(_ meeting: Meeting) async throws {
            let (service, stranger) = (meeting.stranger.jid.bare, meeting.stranger)
            let node = "urn:x18"
            func request(_ id: String, _ payload: String) -> String {
                "<iq type='set' to='\(service)' id='\(id)'><pubsub xmlns='\(Namespaces.pubsub)'>\(payload)</pubsub></iq>"
            }
            let form =
                "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>\(Namespaces.pubsub)#publish-options</value>"
                + "</field><field var='pubsub#access_model'><value>open</value></field></x>"
            let first = "<publish node='\(node)'><item id='0'><x xmlns='urn:x'/></item></publish>"
            try #require(
                try stranger.ask(
                    request("create", first + "<publish-options>\(form)</publish-options>"),
                    until: "id='create'"))
            let subscribe = Element(
                "subscribe", namespace: Namespaces.pubsub,
                attributes: ["node": node, "jid": meeting.own.bare.description])
            try await meeting.account.ask(
                IQ(
                    type: .set, to: service, id: "subscribe",
                    payload: Element("pubsub", namespace: Namespaces.pubsub, children: [subscribe])))
            try await eventually("the subscription") {
                try meeting.account.store.notes("ended").contains { $0.hasPrefix("subscribe: result") }
            }
            try await meeting.offer("event") { number, body in
                request(
                    "i\(number)",
                    "<publish node='\(node)'><item id='i\(number)'><x xmlns='urn:x'>\(body)</x></item></publish>"
                )
            }
        }

        /// Another client of the account, with an empty store, reads the archive that holds all of it.
        private func inArchive(_ home: RealHome) async throws {
            let other = try RealHome(modulesOn: home.server is ProsodyServer ? .prosody : .ejabberd, as: home)
            try await closing(other) { other in
                let account = try other.account { $0.modules = .standard }
                try await account.listen()
                try await account.connect()
                try await eventually("the end of the archive") {
                    try await account.perform { step in
                        try account.archive.progress(in: step).first?.state == .complete
                    }
                }
                let shown = try account.store.notes("message").filter { $0.hasSuffix(": hello") }
                #expect(Set(shown).isSuperset(of: (1...Self.bodies.count).map { "good\($0): hello" }))
                #expect(try other.sessions == [0, 1], "no reconnection")
            }
        }
    }
}
