import Handlers
public import XMPPAccount
public import XMPPCore

extension AccountOperation where Context == VCardFetch, Value == VCard? {
    /// Requests the vCard of an address. The value is nil if there is none.
    ///
    /// ```swift
    /// let card = try await account.request(.vcard(of: juliet))
    /// try await account.send(.vcard(of: juliet), then: Contacts.cardFetched())
    /// ```
    ///
    /// - Parameters:
    ///   - jid: Whose: a user's bare address, of which a resource is left out, or a service's; nil for the own one. An
    ///     occupant of a room is asked under the full address, see `exactly`.
    ///   - exactly: Whether to ask the address as it is, with its resource.
    /// - Returns: The operation, to be sent or awaited.
    ///
    /// Source: XEP-0054 section 3.
    public static func vcard(of jid: JID?, exactly: Bool = false) -> AccountOperation {
        AccountOperation { _ in
            IQ(
                type: .get, to: exactly ? jid : jid?.bare, id: StanzaID.random(),
                payload: Element("vCard", namespace: Namespaces.vcard))
        } bind: { then in
            // When the answer can never come, the program's handler inside is invalidated with this one.
            try Durable(VCardFetched(jid: jid, then: then))
        } context: { reply in
            VCardFetch(of: jid, reply)
        } value: { fetch in
            try fetch.card
        }
    }
}

enum VCards {
    static let schema = Schema(module: "xmpp-vcard", migrations: [], handlers: [VCardFetched.self])
}

/// Turns the answer into a ``VCardFetch`` and runs the program's handler with it. Its id and arguments are stored.
struct VCardFetched: Handler {
    static let id = "vcard.fetched"
    /// The address of the requested card; nil for the own one.
    var jid: JID?
    /// The program's handler.
    var then: Durable<VCardFetch>

    func run(_ call: borrowing Call<IQReply>) throws {
        try call.step.run(then, with: VCardFetch(of: jid, call.context))
    }
}
