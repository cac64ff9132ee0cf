import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

@testable import PubSub

/// Items that the parser cannot read, among others that it can.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct UnreadableItemTests {
    private static let node = EventAccount.node

    private func item(_ id: String) -> String {
        "<item id='\(id)'><nick xmlns='\(Namespaces.nick)'>\(id)</nick></item>"
    }

    @Test("X18 an item that cannot be read costs itself: handlers get the others of an event and of a fetch")
    func items() async throws {
        try await closing(EventRig()) { rig in
            let bad = "<item id='bad'><x xmlns='http://www.w3.org/XML/1998/namespace'/></item>"
            let items = "<items node='\(Self.node)'>\(item("1"))\(bad)\(item("2"))\(bad)</items>"
            rig.server.setWriting { element in
                switch element["id"] {
                case "event":
                    "<message id='event' from='juliet@localhost' type='headline'><event xmlns='\(Namespaces.pubsubEvent)'>"
                        + "\(items)</event></message>"
                case let id? where element.name == "iq" && element.firstElement?.name == "pubsub":
                    "<iq type='result' id='\(id)' from='juliet@localhost'><pubsub xmlns='\(Namespaces.pubsub)'>"
                        + "\(items)</pubsub></iq>"
                default: nil
                }
            }
            rig.server.addService(at: EventRig.juliet.bare, for: [Namespaces.pubsub]) { stanza, service in
                service.answer(stanza, payload: Element("pubsub", namespace: Namespaces.pubsub))
            }
            let account = try await rig.connected()
            try await account.perform {
                try account.pubsub.listen(to: Self.node, as: "test", EventApp.Seen(tag: "e").durable, in: $0)
            }
            try rig.sendNick("replaced", id: "event")
            let expected = "e juliet@localhost \(Self.node): items 1=1,2=2"
            try await eventually { try account.store.texts("SELECT text FROM event_note") == [expected] }
            let fetched = try await account.request(
                .pubsub(.items(of: Self.node, .all), at: EventRig.juliet.bare))
            #expect(fetched.map(\.id) == ["1", "2"])
            #expect(!rig.server.log.entries.contains { $0.event == .resumed })
        }
    }
}
