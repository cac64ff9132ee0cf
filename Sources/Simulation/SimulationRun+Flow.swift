import Handlers

// The peer's sending has to be limited. If processes are killed faster than they can store the messages, the server's queue grows.
// Each resumption then resends more of it, and fewer processes get through it.
extension SimulationRun {
    /// The messages of the peer that may not be stored yet.
    package struct Flow {
        /// The peer stops at more unstored messages than this.
        package var most = 300
        /// The peer continues at fewer unstored messages than this.
        package var few = 50
        var isOpen = false
        /// The numbers of sent and of unstored messages at the last look into the store.
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

    /// Compares the peer's log with the store. Main must be alive: a process that opens the store recovers dead processes'
    /// handlers, and only main and worker may do that.
    func regulateByStore() throws {
        let store = try HandlerStore(path: storePath, registry: HandlerRegistry())
        // The store is read before the log, so the backlog may be overestimated, but never underestimated.
        let stored = try store.read { snapshot in
            try snapshot.first("SELECT count(DISTINCT stanza_id) FROM sim_received") { Int($0.integer(0)) }
        }
        flow.sent = try world.sentCount()
        flow.backlog = flow.sent - (stored ?? 0)
        if flow.isOpen, flow.backlog > flow.most { try holdPeerBack() }
        if !flow.isOpen, flow.backlog < flow.few { try openFlow() }
    }

    /// Regulates without the store, between two kills.
    ///
    /// - Returns: The maximum number of unstored messages. Messages stored since the last look into the store still count.
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
