import Handlers
@testable import Omemo
@testable import XMPPAccount
import XMPPCore
@testable import XMPPModules
import XMPPTestKit

/// Combining marks beside as many bytes of `a`: in the label of a device, and in stanzas that an account with every standard
/// module and OMEMO takes into a step.
struct HostileStanzas {
    private static let own = "a@bench.example"
    private static let rounds = 21
    /// The largest that fits into a stanza of 1 MiB with its markup.
    private static let value = (1 << 20) - 512

    /// Hears messages.
    private struct Heard: Handler {
        static let id = "bench.heard"
        func run(_ call: borrowing Call<MessageReceived>) throws {}
    }

    private let account: Account

    /// - Parameter folder: Where the account's store is made.
    init(_ folder: String) throws {
        let store = try HandlerStore(
            path: "\(folder)/hostile.db", registry: HandlerRegistry([Heard.self]),
            schemas: Account.schemas + OmemoService.schemas)
        var configuration = AccountConfiguration(jid: try JID(Self.own), password: "none")
        configuration.modules = .standard + [OmemoModule()]
        account = try Account(configuration, store: store)
        try store.step { [account] step in
            let session = BoundSession(
                fullJID: try JID(Self.own + "/x"), isManaged: true, resumptionID: "s1", location: nil)
            try account.sessions.start(session, in: step)
            try account.omemo.start(in: step)
            try account.startModules(.session, in: step)
            try account.listen(as: "heard", Heard().durable, in: step)
        }
    }

    /// - Parameter line: Takes a name, and the milliseconds of the marks and of as many `a`.
    func run(_ line: (String, Double, Double) -> Void) throws {
        for (name, bytes) in [
            ("device-label", OmemoDeviceList.maximumLabelLength),
            ("device-label-refused", OmemoDeviceList.maximumLabelLength + 1),
        ] {
            try compare(name, bytes, Self.label, line)
        }
        for (name, bytes, stanza) in Self.stanzas {
            try compare("step-\(name)", bytes, { text in try take(stanza(text)) }, line)
        }
    }

    private func compare(
        _ name: String, _ bytes: Int, _ work: (String) throws -> Void,
        _ line: (String, Double, Double) -> Void
    ) throws {
        let texts = (HostileText.marks(bytes), String(repeating: "a", count: bytes))
        var times: ([Double], [Double]) = ([], [])
        for _ in 0..<Self.rounds {
            times.0.append(try ContinuousClock().measure { try work(texts.0) } / .milliseconds(1))
            times.1.append(try ContinuousClock().measure { try work(texts.1) } / .milliseconds(1))
        }
        line(name, times.0.sorted()[Self.rounds / 2], times.1.sorted()[Self.rounds / 2])
    }

    // MARK: A device's label

    /// As often as makes the time of one readable.
    private static func label(_ text: String) throws {
        let xml =
            "<devices xmlns='urn:xmpp:omemo:2'><device id='1' label='\(text)' labelsig='c2lnbmVk'/></devices>"
        for _ in 0..<100 {
            let list = try OmemoDeviceList(Element(parsing: xml))
            precondition(list != nil && Set([list]).contains(list))
        }
    }

    // MARK: A stanza in a step

    private static let stanzas: [(name: String, bytes: Int, stanza: @Sendable (String) -> String)] = [
        ("type", value, { "<message from='b@bench.example/x' type='\($0)'><body>x</body></message>" }),
        ("id", value, { "<message from='b@bench.example/x' id='\($0)'><body>x</body></message>" }),
        ("body", value, { "<message from='b@bench.example/x' id='1'><body>\($0)</body></message>" }),
        ("resource", 1023, { "<message from='b@bench.example/\($0)'><body>x</body></message>" }),
        ("status", value, { "<presence from='b@bench.example/x'><status>\($0)</status></presence>" }),
        (
            "device-label", OmemoDeviceList.maximumLabelLength,
            {
                """
                <message from='b@bench.example'><event xmlns='http://jabber.org/protocol/pubsub#event'>\
                <items node='urn:xmpp:omemo:2:devices'><item id='current'><devices xmlns='urn:xmpp:omemo:2'>\
                <device id='1' label='\($0)' labelsig='c2lnbmVk'/></devices></item></items></event></message>
                """
            }
        ),
    ]

    /// Reads the stanza, takes it in and undoes the step.
    private func take(_ xml: String) throws {
        struct Undo: Error {}
        do {
            try account.store.step { step in
                let state = try account.sessions.load(in: step)
                var inbound = account.inboundStep(
                    own: try JID(Self.own + "/x"), session: state.number, now: .zero,
                    management: state.management(account.acknowledgements))
                let element = try Element(parsing: xml, defaultNamespace: Namespaces.client)
                _ = try inbound.process(.element(element), in: step)
                throw Undo()
            }
        } catch is Undo {}
    }
}
