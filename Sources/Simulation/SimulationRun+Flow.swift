import Handlers

// Nobody can store without end what nobody stops sending: when processes are killed faster than they can store what
// arrives, the server's queue grows, each resumption sends more of it again, and fewer processes get through it.
extension SimulationRun {
    /// The messages of the peer that are not known to be stored.
    package struct Flow {
        /// At more messages that are not stored the peer stops.
        package var most = 300
        /// At fewer it goes on.
        package var few = 50
        var isOpen = false
        /// How many messages the peer had sent, and how many of them were not stored, when the store was last looked at.
        var sent = 0
        var backlog = 0
    }

    func openFlow() throws {
        try world.startSending()
        flow.isOpen = true
    }

    func closeFlow() throws {
        try world.stopSending()
        flow.isOpen = false
    }

    /// Compares the peer's log with the store. Main must be alive: the process that opens the store recovers what dead
    /// processes left in it, and only main and worker may do that.
    func regulateByStore() throws {
        let store = try HandlerStore(path: storePath, registry: HandlerRegistry())
        // Before the log: what is stored meanwhile makes the backlog look larger than it is, never smaller.
        let stored = try store.read { snapshot in
            try snapshot.first("SELECT count(DISTINCT stanza_id) FROM sim_received") {
                (row) throws(HandlerError) in Int(row.integer(0))
            }
        }
        flow.sent = try world.sentCount()
        flow.backlog = flow.sent - (stored ?? 0)
        if flow.isOpen, flow.backlog > flow.most { try holdPeerBack() }
        if !flow.isOpen, flow.backlog < flow.few { try openFlow() }
    }

    /// The same without the store, between two kills.
    ///
    /// - Returns: How many messages are not stored at most: what was stored since the store was looked at is not known.
    func regulateByCount() throws -> Int {
        let most = flow.backlog + (try world.sentCount()) - flow.sent
        if flow.isOpen, most > flow.most { try holdPeerBack() }
        return most
    }

    private func holdPeerBack() throws {
        verdict.heldBack += 1
        try closeFlow()
    }
}
