import Foundation
import Handlers
import TestSupport
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

extension RealServerTests {
    /// What strangers can send through real servers that the parser cannot read.
    @Suite struct UnreadableOnServersTests {
        /// How many in a row.
        private static let amount = 100
        /// How soon the next message must be shown.
        private static let patience = Duration.seconds(3)

        private static let long = String(repeating: "n", count: 50_001)
        private static func depth(_ depth: Int) -> String {
            "<a xmlns='urn:d'>" + String(repeating: "<a>", count: depth - 1)
                + String(repeating: "</a>", count: depth)
        }

        /// What a stranger writes, by its name.
        private static let bodies: [(name: String, text: String)] = [
            ("xml", "<xml:x/>"), ("element name", "<\(long) xmlns='urn:l'/>"),
            ("attribute name", "<a xmlns='urn:l' \(long)='1'/>"), ("depth 70", depth(70)),
            ("depth 1000", depth(1000)),
            (
                "shadowed prefix",
                "<p:a xmlns:p='urn:u'><b xmlns:p='urn:v' xmlns='urn:w'><p:c p:d='1'/></b></p:a>"
            ),
            ("undeclared prefix", "<a xmlns:p='urn:u'><b xmlns:p=''><p:c/></b></a>"),
        ]

        /// An account, a stranger, and what the account made of the stranger's stanzas.
        private final class Meeting {
            let home: RealHome
            let account: Account
            let stranger: StrangerClient
            let own: JID
            private let ignored = Kept(0)
            private var sent = 0
            /// What reached the account unread, by place and body.
            private(set) var report: [String] = []

            init(_ home: RealHome, _ account: Account, own: JID) throws {
                (self.home, self.account, self.own) = (home, account, own)
                stranger = try StrangerClient(home.scene)
                let (events, ignored) = (account.events, ignored)
                Task { for await case .ignored in events { ignored.withLock { $0 += 1 } } }
            }

            /// Offers stanzas in which `BODY` is what cannot be read, and then a message that must be shown soon.
            func offer(
                _ place: String, good: (String) -> String, to target: JID,
                _ stanza: (_ number: Int, _ body: String) -> String
            ) async throws {
                for (name, body) in UnreadableOnServersTests.bodies {
                    ignored.withLock { $0 = 0 }
                    let stanzas = (1...UnreadableOnServersTests.amount).map { stanza($0, body) }
                    // One first: a server that ends the stream for it gets no more.
                    let isTaken =
                        try stranger.offer(stanzas[0]) && stranger.offer(stanzas.dropFirst().joined())
                    sent += 1
                    let id = "good\(sent)"
                    _ = try stranger.offer(good(id))
                    try await eventually("\(place), \(name)", within: UnreadableOnServersTests.patience) {
                        try account.store.notes("message").contains { $0.hasPrefix("\(id):") }
                    }
                    report.append(
                        "\(place), \(name): \(isTaken ? "\(ignored.withLock { $0 }) unread" : "refused by the server")"
                    )
                }
            }
        }

        @Test(
            "X18 what strangers send that cannot be read costs only itself: the next message is shown at once",
            arguments: ServerKind.allCases)
        func strangers(kind: ServerKind) async throws {
            try await withHome(kind) { home in
                let account = try home.account { $0.modules = .standard }
                try await account.listen()
                let bound = EventReader(account)
                try await account.connect()
                guard case .bound(let own) = await bound.until("bound") else {
                    Issue.record("no session")
                    return
                }
                try await account.caughtUp()
                let meeting = try Meeting(home, account, own: own)
                let chat = { (id: String) in
                    "<message to='\(own)' type='chat' id='\(id)'><body>hello</body></message>"
                }
                try await meeting.offer("chat", good: chat, to: own) { number, body in
                    "<message to='\(own)' type='chat' id='c\(number)'><body>x</body>\(body)</message>"
                }
                try await meeting.offer("presence", good: chat, to: own) { number, body in
                    "<presence to='\(own)' id='p\(number)'>\(body)</presence>"
                }
                try await meeting.offer("request", good: chat, to: own) { number, body in
                    "<iq to='\(own)' type='get' id='q\(number)'><x xmlns='urn:x'>\(body)</x></iq>"
                }
                let room = try home.freshRoom()
                try #require(
                    try meeting.stranger.ask(
                        "<presence to='\(room)/stranger'><x xmlns='\(Namespaces.muc)'/></presence>",
                        until: "110"))
                try #require(
                    try meeting.stranger.ask(
                        "<iq type='set' to='\(room)' id='open'><query xmlns='\(Namespaces.mucOwner)'>"
                            + "<x xmlns='jabber:x:data' type='submit'/></query></iq>", until: "'open'"))
                print(meeting.report)
                try await account.caughtUp()
                #expect(try home.sessions == [0, 1], "no reconnection")
            }
        }
    }
}
