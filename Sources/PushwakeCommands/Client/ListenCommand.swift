import XMPPAccount
import XMPPModules

/// `pushwake listen`: shows messages until it is killed. Messages that arrive while it does not run are shown by the next run.
struct ListenCommand {
    private let client: Client
    private let isJSON: Bool

    init(_ words: [String]) throws {
        let arguments = try Arguments(words, of: "listen")
        isJSON = arguments.has("--json")
        client = try Client(arguments)
    }

    func run() async throws -> Int32 {
        let (client, isJSON) = (client, isJSON)
        let end = CommandEnd(of: client.account)
        let stopped = Client.untilStopped(client.account)
        try await client.connect(retrying: true)
        let jid = try client.store.read { try client.fullJID(in: $0) }
        Terminal.writeError("listening as \(jid ?? "\(client.account.configuration.jid)")\n")
        let invitations = client.account.events(of: RoomEvent.self)
        let showing = end.watch { try await client.showMessages(isJSON: isJSON) }
        let inviting = end.watch { try await Self.storeInvitations(invitations, client) }
        let error = await stopped.value
        for task in [showing, inviting] { task.cancel() }
        try end.check()
        if let error { throw error }
        return 0
    }
}

extension ListenCommand {
    /// Stores each invitation as a line to be shown: those that came before, and those that come.
    private static func storeInvitations(_ events: AsyncStream<RoomEvent>, _ client: Client) async throws {
        let account = client.account
        try await account.perform { try ClientApp.storeInvitations(of: account, in: $0) }
        for await event in events {
            guard case .invited = event.change else { continue }
            try await account.perform { try ClientApp.storeInvitations(of: account, in: $0) }
        }
    }
}

extension Client {
    /// Waits until the account stops permanently. Until then, it reports why the account is not connected.
    ///
    /// - Parameter mayShare: Whether the command works as well while another process has the stream.
    static func untilStopped(_ account: Account, mayShare: Bool = false) -> Task<AccountError?, Never> {
        let events = account.events
        return Task {
            var wasConnected = false
            for await event in events {
                switch event {
                case .bound: wasConnected = true
                case .retrying(_, let reason as AccountError) where mayShare && reason.code == .ownershipHeld:
                    break
                case .retrying(let wait, let reason) where !wasConnected:
                    let seconds = max(1, wait.components.seconds)
                    Terminal.writeError(
                        "not connected: \(advised(reason, account))\ntrying again in \(seconds) s\n")
                case .stopped(let error): return error
                case .suspended(let error): Terminal.writeError("the connection broke: \(error)\n")
                case .resumed where wasConnected:
                    Terminal.writeError("connected again; nothing was lost\n")
                case .resumed: wasConnected = true
                default: break
                }
            }
            return nil
        }
    }
}
