import Handlers
public import XMPPAccount
public import XMPPCore

/// Copies of what the account's other clients receive and send.
///
/// They are asked for in each new session and come as ordinary messages whose ``/XMPPAccount/MessageReceived/source`` is
/// `carbonReceived` or `carbonSent`. Only the own server's are believed (XEP-0280 section 11).
///
/// ```swift
/// configuration.modules = [CarbonsModule()]
/// ```
///
/// Source: XEP-0280.
public struct CarbonsModule: LibraryModule, AccountModule {
    package static let moduleName = "carbons"
    static let schema = Schema(module: "xmpp-carbons", migrations: [], handlers: [CarbonsAnswered.self])

    /// Makes the module, which has no options.
    public init() {}

    package func install(in hooks: inout ModuleHooks) {
        hooks.startsBeforePresence = true
        hooks.schema = Self.schema
        hooks.start = start
        hooks.end = end
        hooks.unwrap = unwrap
    }

    func start(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws {
        // The server keeps it on as long as the session lasts.
        guard scope == .session else { return }
        let enable = Element("enable", namespace: Namespaces.carbons)
        try account.send(
            .iq(IQ(type: .set, payload: enable)), then: CarbonsAnswered().durable, in: step)
    }

    func end(of account: Account, in step: borrowing Step) throws {
        let disable = Element("disable", namespace: Namespaces.carbons)
        try account.send(
            .iq(IQ(type: .set, payload: disable)), then: CarbonsAnswered(isEnd: true).durable, in: step)
    }

    func unwrap(
        _ message: Message, for account: Account, in step: borrowing Step
    ) throws -> UnwrappedMessage {
        let wrapper = message.element.elements.first { element in
            element.namespace == Namespaces.carbons && ["sent", "received"].contains(element.name)
        }
        guard let wrapper else { return .untouched }
        let own = try account.ownAddress(in: step)
        guard message.from ?? own == own else {
            return .refused(
                "a carbon copy from \(message.from?.description ?? "-"), which is not the account")
        }
        guard
            let inner = wrapper.child("forwarded", Namespaces.forward)?
                .child("message", Namespaces.client),
            let copied = try? Message(forwarded: inner, of: own)
        else { return .refused("a carbon copy without a message inside") }
        let isSent = wrapper.name == "sent"
        // What the own account sent is from it, what it received is for it; nothing else is ever copied. Inside, the server may write the
        // account as another client of it has.
        guard (isSent ? copied.from : copied.to)?.bare.isForm(of: own) == true else {
            return .refused("a carbon copy of a message that is not the account's")
        }
        return .message(copied, isSent ? .carbonSent : .carbonReceived)
    }
}

/// The server's answer to a request for carbon copies.
///
/// ```swift
/// for await event in account.events(of: CarbonsEvent.self) { print(event) }
/// ```
public enum CarbonsEvent: ModuleEvent, Hashable {
    /// Copies come from now on.
    case enabled
    /// The server refuses; nil when it did not answer.
    case refused(StanzaError?)
    /// No copies come any more: the module was removed.
    case disabled
}

/// Reports the server's answer.
struct CarbonsAnswered: Handler {
    static let id = "carbons.answered"
    var isEnd: Bool?

    func run(_ call: borrowing Call<IQReply>) throws {
        let event: CarbonsEvent =
            switch call.outcome {
            case .result: isEnd == true ? .disabled : .enabled
            case .error(let error): .refused(error)
            case .timeout: .refused(nil)
            }
        call.account.report(event, after: call.step)
    }
}
