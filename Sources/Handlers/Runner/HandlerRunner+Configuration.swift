extension HandlerRunner {
    /// Configuration of a runner.
    ///
    /// ```swift
    /// let runner = try HandlerRunner(store, .init(leases: 8) { error in logger.error("\(error)") })
    /// ```
    public struct Configuration: Sendable {
        /// The number of async handlers that run at the same time, 1 or more.
        package var leases: Int
        /// The time for which endings are kept; of the started runners of a store, the longest counts.
        package var keepEndings: Duration
        /// How long a canceled async handler may go on; then its place is free for another one.
        public var grace: Duration
        /// How much memory suspended workflows may need together in this process, about and in bytes; 64 MiB by default.
        ///
        /// A workflow that waits stays suspended, and goes on where it is. Beyond this, those that were not called for the longest time are
        /// dropped; such a one runs again from its start and reads its journal. 0 drops each. Of several runners of a store, the newest decides.
        public var workflowMemory = KeptRuns.standardLimit
        /// Gets a ``HandlerFailure`` when a handler failed for good, and the store's error when the store fails while no
        /// caller waits for it; then the runner tries again after a second. Of several runners of a store, the oldest gets it. Called outside of steps, on any thread.
        package var onFailure: @Sendable (any Error) -> Void
        /// Runs the loop that calls handlers; nil for the store's own.
        package var driver: (any LoopDriver)?

        /// Makes a configuration.
        ///
        /// - Parameters:
        ///   - leases: How many async handlers run at the same time, 1 or more; less counts as 1.
        ///   - keepEndings: For how long the endings of ended handlers are kept, 0 or more.
        ///   - grace: How long a canceled async handler may go on before its place is given to another one, 0 or more. It cannot end
        ///     then, but its thread is not free before it returns.
        ///   - onFailure: Gets final failures of handlers, and failures of the store.
        public init(
            leases: Int = 4, keepEndings: Duration = .seconds(7 * 86_400), grace: Duration = .seconds(5),
            onFailure: @escaping @Sendable (any Error) -> Void = { _ in }
        ) {
            self.leases = leases
            self.keepEndings = keepEndings
            self.grace = grace
            self.onFailure = onFailure
        }
    }
}
