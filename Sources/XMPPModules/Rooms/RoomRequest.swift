import XMPPCore

/// The payloads of ``RoomOperations``.
enum RoomRequest: Hashable, Sendable {
    case configuration
    case configure(DataForm)
    case affiliations(RoomAffiliation)
    case setAffiliation(RoomAffiliation, of: [JID], reason: ForeignText?)
    case roles(RoomRole)
    case setRole(RoomRole, of: ForeignText, reason: ForeignText?)
    case destroy(alternative: JID?, reason: ForeignText?)

    /// The request, with an id of its own.
    func iq(to room: JID) -> IQ { IQ(type: type, to: room.bare, id: StanzaID.random(), payload: payload) }

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
                    "destroy", namespace: Namespaces.mucOwner, attributes: ["jid": alternative?.description],
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

    /// The list in an answer to ``affiliations(_:)`` or ``roles(_:)``; empty for a payload of another kind.
    static func entries(in payload: Element?) -> [RoomEntry] {
        guard let payload, payload.has(name: "query", namespace: Namespaces.mucAdmin) else { return [] }
        return payload.children("item", Namespaces.mucAdmin).map { item in
            RoomEntry(
                jid: item["jid"].flatMap { try? JID(received: $0) }, nick: item["nick"],
                affiliation: item["affiliation"].flatMap { RoomAffiliation($0) },
                role: item["role"].flatMap { RoomRole($0) },
                reason: item.child("reason", Namespaces.mucAdmin)?.text)
        }
    }

    /// The form in an answer to ``configuration``; nil when there is none.
    static func configuration(in payload: Element?) -> DataForm? {
        guard let payload, payload.has(name: "query", namespace: Namespaces.mucOwner) else { return nil }
        return payload.child("x", Namespaces.dataForms).flatMap { DataForm($0) }
    }
}
