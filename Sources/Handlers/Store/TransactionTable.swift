/// Work of one kind on the tables of the open transaction, such as ``HandlerTable``.
///
/// A structure of one reference, which costs nothing to make. It has no state of its own: what a step keeps in memory is in
/// ``Transaction``.
protocol TransactionTable {
    var transaction: Transaction { get }
}

extension TransactionTable {
    typealias Kind = Transaction.Kind
    typealias State = Transaction.State

    var connection: Connection { transaction.connection }
    var registry: HandlerRegistry { transaction.registry }
    var handlers: HandlerTable { HandlerTable(transaction: transaction) }
    var calls: HandlerCalls { HandlerCalls(transaction: transaction) }
    var callLimits: CallLimits { CallLimits(transaction: transaction) }
    var invalidations: Invalidations { Invalidations(transaction: transaction) }
    var dueRows: DueRows { DueRows(transaction: transaction) }
    var leases: Leases { Leases(transaction: transaction) }
    var repairs: Repairs { Repairs(transaction: transaction) }
    var connectedTime: ConnectedTime { ConnectedTime(transaction: transaction) }
    /// The time of the wall clock.
    var now: Timestamp { transaction.now }

    /// Logs a message once the step has committed.
    func log(_ level: LogLevel, _ subject: HandlerLog.Subject, _ message: @escaping () -> String) {
        transaction.log(level, subject, message)
    }
}
