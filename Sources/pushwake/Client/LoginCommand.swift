import Handlers
import XMPPAccount

/// `pushwake login`: whether the account can log in, and what its server offers.
struct LoginCommand {
    private let client: Client

    init(_ words: [String]) throws {
        client = try Client(try Arguments(words, of: "login"))
    }

    func run() async throws -> Int32 {
        try await client.connect()
        let account = client.account
        let info = try await account.disco.info(of: account.configuration.jid.domainJID)
        let state = try await account.perform { step in
            (
                jid: try client.fullJID(in: step) ?? "", contacts: try account.roster.items(in: step).count,
                unseen: try step.first("SELECT count(*) FROM message") { (row) throws(HandlerError) in
                    row.integer(0)
                } ?? 0
            )
        }
        let name = info.identities.first { $0.category == "server" }?.name ?? account.configuration.jid.domain
        Terminal.say("logged in as \(state.jid)")
        Terminal.say("\(name) offers \(info.features.count) features; \(state.contacts) contacts")
        if state.unseen > 0 { Terminal.say("\(state.unseen) messages wait to be shown by 'pushwake listen'") }
        await account.close()
        return 0
    }
}
