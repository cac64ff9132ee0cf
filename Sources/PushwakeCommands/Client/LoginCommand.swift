import Handlers
import XMPPAccount
package import XMPPCore
import XMPPModules

/// `pushwake login`: checks whether the account can log in, and shows the features of its server.
package struct LoginCommand {
    private let client: Client

    init(_ words: [String]) throws {
        client = try Client(try Arguments(words, of: "login"))
    }

    func run() async throws -> Int32 {
        try await client.finishing { try await show() }
        return 0
    }

    private func show() async throws {
        try await client.connect()
        let account = client.account
        let info = try await account.request(.discoInfo(of: account.configuration.jid.domainJID))
        let offers = info.features.union(try await ownFeatures())
        let state = try client.store.read { snapshot in
            (
                jid: try client.fullJID(in: snapshot) ?? "", canResume: try client.canResume(in: snapshot),
                contacts: try account.roster.items(in: snapshot).count,
                unseen: try snapshot.first("SELECT count(*) FROM message") { $0.integer(0) } ?? 0
            )
        }
        let name = info.identities.first { $0.category == "server" }?.name ?? account.configuration.jid.domain
        Terminal.say("logged in as \(state.jid)")
        Terminal.say("\(Self.sentence(name.string, offers, canResume: state.canResume))")
        Terminal.say("\(Terminal.count(state.contacts, "contact"))")
        if state.unseen > 0 {
            let wait = state.unseen == 1 ? "waits" : "wait"
            Terminal.say(
                "\(Terminal.count(state.unseen, "message")) \(wait) to be shown by 'pushwake listen'")
        }
    }

    /// Returns the features of the account itself at its server, such as an archive.
    private func ownFeatures() async throws -> Set<ForeignText> {
        do {
            return try await client.account.request(.discoInfo(of: client.account.configuration.jid.bare))
                .features
        } catch is StanzaError { return [] }
    }

    /// Describes the features of a server that matter to a messenger.
    package static func sentence(_ server: String, _ features: Set<ForeignText>, canResume: Bool) -> String {
        let known = [
            ("resumption", canResume), ("archive", features.contains(Namespaces.mam)),
            ("carbons", features.contains(Namespaces.carbons)), ("push", features.contains(Namespaces.push)),
            ("blocking", features.contains(Namespaces.blocking)),
        ]
        let (has, lacks) = (known.filter(\.1).map(\.0), known.filter { !$0.1 }.map(\.0))
        let offer = "\(server) offers \(has.isEmpty ? "nothing" : has.joined(separator: ", "))"
        return lacks.isEmpty ? offer : "\(offer); not \(lacks.joined(separator: ", "))"
    }
}
