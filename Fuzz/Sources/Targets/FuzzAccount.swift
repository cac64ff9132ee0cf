import Dispatch
@testable import Handlers
@testable import IQTracker
@testable import Omemo
import PubSub
@testable import XMPPAccount
import XMPPCore
@testable import XMPPModules

/// An account without a stream, whose inbound step is fed by hand.
///
/// Unchecked: used by one thread at a time.
final class FuzzAccount: @unchecked Sendable {
    static let own = "juliet@capulet.example"
    static let full = own + "/balcony"
    /// Where wall clocks stand, so that the same input does the same at any time.
    private static let now: Int64 = 1_780_000_000_000

    let store: HandlerStore
    let account: Account

    init(path: String) throws {
        store = try HandlerStore(
            path: path, registry: HandlerRegistry(FuzzHandlers.all),
            schemas: Account.schemas + PubSubEvents.schemas + OmemoService.schemas,
            time: TimeSource(wall: { Timestamp(milliseconds: Self.now) }))
        var configuration = AccountConfiguration(jid: try JID(Self.own), password: "none")
        configuration.modules = .standard + [PubSubEvents(), OmemoModule()]
        configuration.sendsInitialPresence = true
        account = try Account(configuration, store: store)
    }

    func close() {
        let done = DispatchSemaphore(value: 0)
        Task { [account] in
            await account.close()
            done.signal()
        }
        done.wait()
    }

    // MARK: What there is before anything is fuzzed

    /// A session with a room, contacts, keys, handlers for everything, and requests that wait for their answers.
    func fill() throws {
        try store.step { step in
            try account.sessions.start(
                BoundSession(
                    fullJID: JID(Self.full), isManaged: true, resumptionID: "s1", location: nil), in: step)
            try account.omemo.start(in: step)
            try account.startModules(.session, in: step)
            try listen(in: step)
            try ask(in: step)
        }
        for xml in Self.history { try receive(xml) }
        try store.step { step in
            try account.listeners.set(
                ListenerTable.messages, key: "failing", to: FuzzHandlers.Failing().durable, in: step)
        }
        try receive("<message from='romeo@montague.example/a' id='m9'><body>set aside</body></message>")
        try store.step { step in
            try account.listeners.remove(ListenerTable.messages, key: "failing", in: step)
        }
    }

    private func listen(in step: borrowing Step) throws {
        try account.listen(as: "heard", FuzzHandlers.Heard().durable, in: step)
        try account.listeners.set(
            "message", key: MessageTaken.id, to: MessageTaken().durable, in: step)
        try account.listeners.set(
            ListenerTable.requests, key: ListenerTable.key("query", "jabber:iq:version"),
            to: FuzzHandlers.Asked().durable, in: step)
        try account.pubsub.listen(
            to: Namespaces.nick, as: "nick", FuzzHandlers.Changed().durable, in: step)
        try account.omemo.listen(as: "read", FuzzHandlers.Read().durable, in: step)
        try step.schedule(FuzzHandlers.Ticked().durable, after: .seconds(60))
    }

    private func ask(in step: borrowing Step) throws {
        for (id, peer) in [("q1", "capulet.example"), ("q2", "romeo@montague.example/a")] {
            try account.send(
                .iq(
                    IQ(
                        type: .get, to: JID(peer), id: id,
                        payload: Element("ping", namespace: Namespaces.ping))),
                then: FuzzHandlers.Answered(tag: id).durable, in: step)
        }
        try account.rooms.join(JID("room@rooms.example"), as: "juliet", in: step)
    }

    private static let history = [
        "<iq type='set' id='p1'><query xmlns='jabber:iq:roster' ver='v2'><item jid='romeo@montague.example' subscription='both' name='Romeo'><group>Lovers</group></item></query></iq>",
        "<presence from='romeo@montague.example/a'><status>here</status></presence>",
        "<presence from='paris@verona.example' type='subscribe'/>",
        "<presence from='room@rooms.example/juliet'><x xmlns='http://jabber.org/protocol/muc#user'><item affiliation='member' role='participant'/><status code='110'/></x></presence>",
        "<presence from='room@rooms.example/romeo'><x xmlns='http://jabber.org/protocol/muc#user'><item affiliation='owner' role='moderator'/></x></presence>",
        "<message from='romeo@montague.example/a' id='m1' type='chat'><body>hello</body><request xmlns='urn:xmpp:receipts'/></message>",
        "<message from='romeo@montague.example' type='headline'><event xmlns='http://jabber.org/protocol/pubsub#event'><items node='http://jabber.org/protocol/nick'><item id='1'><nick xmlns='http://jabber.org/protocol/nick'>Romeo</nick></item></items></event></message>",
        "<message from='romeo@montague.example' type='headline'><event xmlns='http://jabber.org/protocol/pubsub#event'><items node='urn:xmpp:omemo:2:devices'><item id='current'><devices xmlns='urn:xmpp:omemo:2'><device id='7'/></devices></item></items></event></message>",
        "<iq type='get' id='v1' from='romeo@montague.example/a'><query xmlns='jabber:iq:version'/></iq>",
    ]

    // MARK: What arrives

    /// Takes in one stanza and commits it.
    func receive(_ xml: String) throws {
        let element = try Element(parsing: xml, defaultNamespace: Namespaces.client)
        try store.step { step in
            var inbound = try start(in: step)
            _ = try inbound.process(.element(element), in: step)
            try end(inbound, in: step)
        }
    }

    func start(in step: borrowing Step) throws -> InboundStep {
        let state = try account.sessions.load(in: step)
        return account.inboundStep(
            own: try JID(Self.full), session: state.number, now: .zero,
            management: state.management(account.acknowledgements))
    }

    func end(_ inbound: InboundStep, in step: borrowing Step) throws {
        try account.sessions.advance(received: inbound.management.received, connectedTime: .zero, in: step)
    }
}
