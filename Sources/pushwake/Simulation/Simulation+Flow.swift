import Handlers

// Nobody can store without end what nobody stops sending: when processes are killed faster than they can store what
// arrives, the server's queue grows, each resumption sends more of it again, and fewer processes get through it.
extension Simulation {
    /// What the peer has sent, as far as it is known not to be stored.
    struct Flow {
        var isOpen = false
        /// How many messages the peer had sent, and how many of them were not stored, when the store was last looked at.
        var sent = 0
        var backlog = 0
    }

    /// At so many messages that are not stored the peer stops.
    private static let mostUnstored = 300
    /// At so few it goes on.
    private static let fewUnstored = 50

    func openFlow() throws {
        try world.startSending()
        flow.isOpen = true
    }

    func closeFlow() throws {
        try world.stopSending()
        flow.isOpen = false
    }

    /// Compares the peer's log with the store. Main must be there: whoever opens the store looks after what dead processes
    /// left in it, and that is for main and worker to do.
    func regulateByStore() throws {
        let store = try HandlerStore(path: storePath, registry: HandlerRegistry())
        // First: what is stored meanwhile makes the backlog look larger than it is, never smaller.
        let stored = try store.step { step in
            try step.first("SELECT count(DISTINCT stanza_id) FROM sim_received") { (row) throws(HandlerError) in
                Int(row.integer(0))
            }
        }
        flow.sent = try world.sentCount()
        flow.backlog = flow.sent - (stored ?? 0)
        if flow.isOpen, flow.backlog > Self.mostUnstored { try holdPeerBack() }
        if !flow.isOpen, flow.backlog < Self.fewUnstored { try openFlow() }
    }

    /// How many messages may wait at most, for what the store holds now is not known: nothing is stored, for certain, while
    /// every process is killed.
    func regulateByCount() throws -> Int {
        let most = flow.backlog + (try world.sentCount()) - flow.sent
        if flow.isOpen, most > Self.mostUnstored { try holdPeerBack() }
        return most
    }

    private func holdPeerBack() throws {
        verdict.heldBack += 1
        try closeFlow()
    }
}
