import Platform

/// The parts of the operating system that a store uses. A simulated world replaces them.
package struct SystemServices: Sendable {
    /// Takes a slot among the processes that have the database at a path open; see ``ProcessSlot/init(path:whenAlone:recover:)``.
    package typealias Presence =
        @Sendable (
            _ path: String, _ whenAlone: () throws(HandlerError) -> Void,
            _ recover: (_ slot: Int, _ runningCall: RunningCall?) throws(HandlerError) -> Void
        ) throws(HandlerError) -> any ProcessPresence

    /// Runs the loops of the store's runners and accounts, and of its watch of other processes.
    package var driver: any LoopDriver
    package var presence: Presence
    package var files: any StoreFiles
    /// Id of the running boot; nil where the system has none.
    package var boot: @Sendable () -> String?
    /// Waits in a task.
    package var sleep: @Sendable (Duration) async throws -> Void
    /// Runs the tasks of async handlers; nil for the threads of all tasks.
    package var asyncHandlers: (any TaskExecutor)?

    package init(
        driver: any LoopDriver = ThreadDriver(), files: any StoreFiles = SystemFiles(),
        boot: @escaping @Sendable () -> String? = ThisProcess.bootID,
        sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) },
        asyncHandlers: (any TaskExecutor)? = AsyncHandlerThreads.shared,
        presence: @escaping Presence = { (path, whenAlone, recover) throws(HandlerError) in
            try ProcessSlot(path: path, whenAlone: whenAlone, recover: recover)
        }
    ) {
        self.driver = driver
        self.presence = presence
        self.files = files
        self.boot = boot
        self.sleep = sleep
        self.asyncHandlers = asyncHandlers
    }
}
