import Handlers
import XMPPAccount
import XMPPCore
import XMPPModules

/// `pushwake roster`: shows the contacts, or changes them.
struct RosterCommand {
    private enum Action {
        case show
        case add(JID, name: String?)
        case remove(JID)
        case accept(JID)
        case refuse(JID)
    }

    private let client: Client
    private let action: Action
    private let isJSON: Bool

    init(_ words: [String]) throws {
        let arguments = try Arguments(words, of: "roster", wordCount: 2)
        action = try Self.action(arguments)
        isJSON = arguments.has("--json")
        client = try Client(arguments)
    }

    private static func action(_ arguments: Arguments) throws -> Action {
        guard let verb = arguments.words.first else {
            guard arguments.value("--name") == nil else { throw nameless }
            return .show
        }
        guard arguments.words.count == 2 else {
            throw UsageError("say whom: pushwake roster \(verb) USER@DOMAIN --jid …")
        }
        let jid = try ConnectionOptions.address(arguments.words[1], "the contact").bare
        guard verb == "add" || arguments.value("--name") == nil else { throw nameless }
        switch verb {
        case "add":
            ConnectionOptions.doubt(jid)
            return .add(jid, name: arguments.value("--name"))
        case "remove": return .remove(jid)
        case "accept": return .accept(jid)
        case "refuse": return .refuse(jid)
        default: throw UsageError("a roster can add, remove, accept or refuse somebody, not '\(verb)'")
        }
    }

    private static let nameless = UsageError("--name is what to call who is added: it goes with 'add' alone")

    func run() async throws -> Int32 {
        try await client.finishing { try await perform() }
        return 0
    }

    private func perform() async throws {
        let roster = client.account.roster
        let hasStream = try await client.connectOrShare()
        switch action {
        case .show: try await show(hasStream: hasStream)
        case .add(let jid, let name):
            // The server replaces name and groups, so the stored ones are sent again.
            var item = try client.store.read { try roster.item(for: jid, in: $0) } ?? RosterItem(jid)
            if let name { item.name = name.foreignText }
            try await client.performAnywhere(.roster.set(item))
            try await client.account.perform { try roster.subscribe(to: jid, in: $0) }
            Terminal.say("\(jid) is in the roster and was asked for their presence")
        case .remove(let jid):
            try await remove(jid)
            Terminal.say("\(jid) is not in the roster any more")
        case .accept(let jid):
            try await client.account.perform { try roster.approve(jid, in: $0) }
            Terminal.say("\(jid) may see the account's presence")
        case .refuse(let jid):
            try await client.account.perform { try roster.deny(jid, in: $0) }
            Terminal.say("\(jid) may not see the account's presence")
        }
        if hasStream { try await client.account.caughtUp() }
    }

    private func remove(_ jid: JID) async throws {
        do {
            try await client.performAnywhere(.roster.remove(jid))
        } catch let error as RequestRefused where error.condition == "item-not-found" {
            throw CommandFailure("\(jid) is not in the roster")
        }
    }

    private struct Contact: Encodable {
        var jid: String
        var name: String?
        var subscription: String
        /// Whether the account has requested their presence and has no answer yet.
        var asked: Bool
        var groups: [String]
        var online: Bool

        var text: String {
            let name = name.map { " (\($0))" } ?? ""
            let asked = asked ? ", was asked for their presence" : ""
            return "\(online ? "●" : "○") \(jid)\(name)  \(Self.words[subscription] ?? subscription)\(asked)"
        }

        /// The words of RFC 6121 section 2.1.2.5 for people. Others than these are in the JSON only.
        private static let words = [
            "none": "neither sees the other's presence", "to": "does not see the account's presence",
            "from": "does not show its presence", "both": "each sees the other's presence",
        ]
    }

    /// A contact's request to see the account's presence.
    private struct Request: Encodable {
        var jid: String
        var request = true
    }

    private func show(hasStream: Bool) async throws {
        let roster = client.account.roster
        // The server sends the contacts' presence after it has received the client's. Another process that has the stream has
        // stored it before.
        if hasStream { try await client.account.caughtUp() }
        let (contacts, requests) = try client.store.read { snapshot in
            let items = try roster.items(in: snapshot)
            var contacts: [Contact] = []
            for item in items {
                contacts.append(
                    Contact(
                        jid: item.jid.description, name: item.name?.string,
                        subscription: item.subscription.rawValue,
                        asked: item.isAsking, groups: item.groups.map(\.string),
                        online: try !roster.presence(of: item.jid, in: snapshot).isEmpty))
            }
            return (contacts, try roster.requests(in: snapshot).map(\.jid.description))
        }
        if isJSON {
            for contact in contacts { Terminal.say(try Client.json(contact)) }
            for request in requests { Terminal.say(try Client.json(Request(jid: request))) }
            return
        }
        for contact in contacts { Terminal.say("\(contact.text)") }
        if contacts.isEmpty { Terminal.say("no contacts; add one with 'pushwake roster add USER@DOMAIN'") }
        for request in requests {
            Terminal.say("\(request) asks to see the account's presence: 'pushwake roster accept \(request)'")
        }
    }
}
