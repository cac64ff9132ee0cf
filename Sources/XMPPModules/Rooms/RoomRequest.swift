import XMPPAccount
public import XMPPCore

/// What owners, admins and moderators ask of a room.
///
/// ```swift
/// try account.rooms.send(.setAffiliation(.outcast, of: [tybalt], reason: "Brawling"), to: council, then: …, in: step)
/// ```
///
/// Source: XEP-0045 sections 8 to 10.
public enum RoomRequest: Hashable, Sendable {
    /// The form with which the room is set up; read it with ``configuration(in:)``.
    case configuration
    /// Sets the room up. A form of the kind ``/XMPPCore/DataForm/Kind/submit`` without fields takes it as the service
    /// makes it; one
    /// of the kind `cancel` keeps what is, and ends a room that is new.
    case configure(DataForm)
    /// Who has an affiliation; read it with ``entries(in:)``.
    case affiliations(RoomAffiliation)
    /// Gives users an affiliation: `outcast` bans them, `none` takes away what they have.
    case setAffiliation(RoomAffiliation, of: [JID], reason: ForeignText?)
    /// Who has a role; read it with ``entries(in:)``.
    case roles(RoomRole)
    /// Gives an occupant a role: `none` puts it out, `visitor` takes its voice.
    case setRole(RoomRole, of: ForeignText, reason: ForeignText?)
    /// Ends the room for everybody.
    case destroy(alternative: JID?, reason: ForeignText?)

    /// The request, with an id of its own.
    ///
    /// - Parameter room: The room's bare address.
    /// - Returns: An IQ of type `get` or `set`.
    public func iq(to room: JID) -> IQ {
        IQ(type: type, to: room.bare, id: StanzaID.random(), payload: payload)
    }

    private var type: IQ.Kind {
        switch self {
        case .configuration, .affiliations, .roles: .get
        case .configure, .setAffiliation, .setRole, .destroy: .set
        }
    }

    private var payload: Element {
        switch self {
        case .configuration: Element("query", namespace: Namespaces.mucOwner)
        case .configure(let form): Self.owner(Self.complete(form).element)
        case .affiliations(let affiliation): Self.admin([["affiliation": affiliation.rawValue]], reason: nil)
        case .setAffiliation(let affiliation, let users, let reason):
            Self.admin(
                users.map { ["affiliation": affiliation.rawValue, "jid": $0.bare.description] },
                reason: reason)
        case .roles(let role): Self.admin([["role": role.rawValue]], reason: nil)
        case .setRole(let role, let nick, let reason):
            Self.admin([["nick": nick, "role": role.rawValue]], reason: reason)
        case .destroy(let alternative, let reason):
            Self.owner(
                Element(
                    "destroy", namespace: Namespaces.mucOwner,
                    attributes: ["jid": alternative?.description],
                    children: Self.reasons(reason, Namespaces.mucOwner)))
        }
    }

    /// XEP-0045 section 10.2: a form that sets something names what it is for.
    private static func complete(_ form: DataForm) -> DataForm {
        guard form.kind == .submit, !form.fields.isEmpty, form.formType == nil else { return form }
        return DataForm(.submit, type: formType, form.fields)
    }

    private static let formType = "http://jabber.org/protocol/muc#roomconfig"

    private static func owner(_ child: Element) -> Element {
        Element("query", namespace: Namespaces.mucOwner, children: [child])
    }

    private static func admin(_ items: [KeyValuePairs<String, (any TextConvertible)?>], reason: ForeignText?)
        -> Element
    {
        Element(
            "query", namespace: Namespaces.mucAdmin,
            children: items.map {
                Element(
                    "item", namespace: Namespaces.mucAdmin, attributes: $0,
                    children: reasons(reason, Namespaces.mucAdmin))
            })
    }

    private static func reasons(_ reason: ForeignText?, _ namespace: String) -> [Element] {
        reason.map { [Element("reason", namespace: namespace, text: $0)] } ?? []
    }

    // MARK: Reading answers

    /// One entry of a room's list.
    ///
    /// ```swift
    /// for entry in try await account.rooms.users(with: .member, in: council) { print(entry.jid as Any) }
    /// ```
    public struct Entry: Hashable, Sendable {
        /// The user's address; nil where the room hides it.
        public let jid: JID?
        /// The nickname, for who is in the room or has one registered.
        public let nick: ForeignText?
        /// The lasting standing; nil where the list does not say it.
        public let affiliation: RoomAffiliation?
        /// What the occupant may do; nil where the list does not say it.
        public let role: RoomRole?
        /// Why, in words for people.
        public let reason: ForeignText?
    }

    /// The list in an answer to ``affiliations(_:)`` or ``roles(_:)``.
    ///
    /// - Parameter payload: The payload of the answer.
    /// - Returns: The entries in the room's order; none for a payload of another kind.
    public static func entries(in payload: Element?) -> [Entry] {
        guard let payload, payload.has(name: "query", namespace: Namespaces.mucAdmin) else { return [] }
        return payload.children("item", Namespaces.mucAdmin).map { item in
            Entry(
                jid: item["jid"].flatMap { try? JID($0) }, nick: item["nick"],
                affiliation: item["affiliation"].flatMap { RoomAffiliation($0) },
                role: item["role"].flatMap { RoomRole($0) },
                reason: item.child("reason", Namespaces.mucAdmin)?.text)
        }
    }

    /// The form in an answer to ``configuration``; nil when there is none.
    ///
    /// - Parameter payload: The payload of the answer.
    /// - Returns: The form.
    public static func configuration(in payload: Element?) -> DataForm? {
        guard let payload, payload.has(name: "query", namespace: Namespaces.mucOwner) else { return nil }
        return payload.child("x", Namespaces.dataForms).flatMap { DataForm($0) }
    }
}
