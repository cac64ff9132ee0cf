import Handlers

/// Stores what a node runs, over a connection of its own.
final class RunningCallRecord {
    private let connection: PostgresConnection

    init(_ options: PostgresSettings) throws(HandlerError) {
        var options = options
        // Its loss loses a fact that is found again at a later death.
        options.outageLimit = .zero
        connection = PostgresConnection(options, isReader: false)
        try connection.executeOnce("SET synchronous_commit = off")
    }

    /// Stores what the node runs, or that it runs nothing. It is sent, which is enough: a process that is killed takes nothing back.
    func store(_ runningCall: RunningCall?, of node: Int) throws(HandlerError) {
        try connection.sendOnce(
            "UPDATE node SET handler = ?, digest = ? WHERE id = ?",
            [runningCall?.handler, runningCall.map { Int64(bitPattern: $0.digest) }, node])
    }
}
