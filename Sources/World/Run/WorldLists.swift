import Handlers
import HandlersTestKit
import XMPPCore

/// The account's roster (RFC 6121 section 2) and block list (XEP-0191) at the server. Another device of the user also changes them.
final class WorldLists {
    static let namespaces: Set<String> = [Namespaces.roster, Namespaces.blocking]

    /// The names of the contacts, by address.
    private var contacts: [String: String] = [:]
    /// The changed contact of each roster version; the first entry makes version 1.
    private var changed: [String] = []
    private var blocked: Set<String> = []
    /// The sessions that requested a list and receive its pushes: session and address, by list.
    private var interested: [String: [Int: JID]] = [:]
    private var lastPush = 0

    private var version: String { String(changed.count) }

    /// The lists that the account must have once everything has come to rest, in the form of ``Observer/lists()``.
    var text: String {
        (contacts.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" } + blocked.sorted())
            .joined(separator: " ")
    }

    static func contact(_ number: Int) -> String { "c\(number)@\(WorldServer.domain)" }

    /// Answers a request of the account.
    ///
    /// - Parameter session: The session that sent the request.
    /// - Returns: The stanzas to send, in this order.
    func replies(to element: Element, of session: Int?) -> [Element] {
        guard let iq = try? IQ(element: element), let payload = iq.payload, let from = iq.from else {
            return []
        }
        let items = payload.elements.compactMap { $0["jid"].map { "\($0)" } }
        switch (iq.type, payload.name) {
        case (.get, "query"):
            if let session { interested[Namespaces.roster, default: [:]][session] = from }
            return roster(asked: payload["ver"].map { "\($0)" }, by: from, iq)
        case (.get, "blocklist"):
            if let session { interested[Namespaces.blocking, default: [:]][session] = from }
            let list = Element(
                "blocklist", namespace: Namespaces.blocking, children: blocked.sorted().map(Self.blockedItem))
            return [iq.result(payload: list)?.element].compactMap(\.self)
        case (.set, "query"):
            guard let jid = items.first else { return [] }
            let isRemoval = payload.firstElement?["subscription"] == "remove"
            guard !isRemoval || contacts[jid] != nil else {
                return [iq.errorReply(StanzaError(.itemNotFound))?.element].compactMap(\.self)
            }
            let pushes = set(jid, isRemoval ? nil : payload.firstElement?["name"].map { "\($0)" } ?? "")
            return pushes + [iq.result()?.element].compactMap(\.self)
        case (.set, "block"), (.set, "unblock"):
            return block(payload.name == "block", items) + [iq.result()?.element].compactMap(\.self)
        default: return [iq.errorReply(StanzaError(.badRequest))?.element].compactMap(\.self)
        }
    }

    /// Changes one of the lists in the name of another device.
    func change(using random: inout SeededGenerator) -> [Element] {
        let jid = Self.contact(Int.random(in: 0..<6, using: &random))
        switch Int.random(in: 0..<4, using: &random) {
        case 0 where contacts[jid] != nil: return set(jid, nil)
        case 1: return block(!blocked.contains(jid), [jid])
        default: return set(jid, "other-\(changed.count)")
        }
    }

    /// Forgets the sessions that are over.
    ///
    /// - Parameter isOpen: Whether a session can still receive pushes.
    func forgetSessions(but isOpen: (Int) -> Bool) {
        for (list, sessions) in interested { interested[list] = sessions.filter { isOpen($0.key) } }
    }

    // MARK: The roster

    /// Returns the whole roster, or the changes as pushes if they are few (RFC 6121 section 2.6.3).
    private func roster(asked: String?, by jid: JID, _ iq: IQ) -> [Element] {
        if let known = asked.flatMap({ Int($0) }), 0...changed.count ~= known, known > 0,
            changed.count - known < 4
        {
            let pushes = (known..<changed.count).map { push(roster: changed[$0], version: $0 + 1, to: jid) }
            return [iq.result()?.element].compactMap(\.self) + pushes
        }
        let query = Element(
            "query", namespace: Namespaces.roster, attributes: ["ver": version],
            children: (changed.count % 2 == 0 ? [] : [HostileStanzas.item(space: Namespaces.roster)])
                + contacts.sorted { $0.key < $1.key }.map { Self.item($0.key, $0.value) })
        return [iq.result(payload: query)?.element].compactMap(\.self)
    }

    private func set(_ jid: String, _ name: String?) -> [Element] {
        contacts[jid] = name
        changed.append(jid)
        return told(Namespaces.roster).map { push(roster: jid, version: changed.count, to: $0) }
    }

    private func push(roster jid: String, version: Int, to device: JID) -> Element {
        let query = Element(
            "query", namespace: Namespaces.roster, attributes: ["ver": String(version)],
            children: [Self.item(jid, contacts[jid])])
        return push(query, to: device)
    }

    private static func item(_ jid: String, _ name: String?) -> Element {
        Element(
            "item", namespace: Namespaces.roster,
            attributes: ["jid": jid, "name": name, "subscription": name == nil ? "remove" : "none"])
    }

    // MARK: The block list

    private func block(_ isBlocked: Bool, _ jids: [String]) -> [Element] {
        if isBlocked { blocked.formUnion(jids) } else { blocked.subtract(jids) }
        let payload = Element(
            isBlocked ? "block" : "unblock", namespace: Namespaces.blocking,
            children: jids.map(Self.blockedItem))
        return told(Namespaces.blocking).map { push(payload, to: $0) }
    }

    private static func blockedItem(_ jid: String) -> Element {
        Element("item", namespace: Namespaces.blocking, attributes: ["jid": jid])
    }

    // MARK: Pushes

    private func told(_ list: String) -> [JID] {
        (interested[list] ?? [:]).sorted { $0.key < $1.key }.map(\.value)
    }

    private func push(_ payload: Element, to device: JID) -> Element {
        lastPush += 1
        return IQ(type: .set, to: device, id: "push-\(lastPush)", payload: payload).element
    }
}
