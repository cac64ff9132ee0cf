/// The process of a server that holds the lock of steps, for which the steps of all machines wait.
///
/// ```swift
/// let holder = StepLockHolder(processID: 4711, application: "psql", address: nil, waiters: 2)
/// ```
package struct StepLockHolder: Hashable, Sendable {
    /// Its id on the server's machine, which `pg_terminate_backend` takes.
    package let processID: Int32
    /// The `application_name` of its connection.
    package let application: String?
    /// The network address of its client; nil for a socket, and where the reading role may not see it.
    package let address: String?
    /// The number of steps that wait for the lock.
    package let waiters: Int

    /// Describes a holder.
    package init(processID: Int32, application: String?, address: String?, waiters: Int) {
        (self.processID, self.application, self.address, self.waiters) = (
            processID, application, address, waiters
        )
    }
}
