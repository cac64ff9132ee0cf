import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// SIGTERM and SIGINT while they raise a pipe instead of ending the process.
package struct TerminationSignals {
    private static let signals = [SIGTERM, SIGINT]
    /// The descriptor that the signal handler writes to, its only action.
    private static let target = Atomic<Int32>(-1)

    /// The actions before.
    private let earlier: [sigaction]

    /// Makes the two signals write to the end of a pipe, which must never close, from now on.
    package static func redirect(to writeEnd: Int32) -> TerminationSignals {
        target.store(writeEnd, ordering: .relaxed)
        return TerminationSignals(earlier: signals.map(replaceAction))
    }

    /// Restores the earlier actions.
    package func restore() {
        for (number, action) in zip(Self.signals, earlier) {
            var action = action
            sigaction(number, &action, nil)
        }
    }

    /// - Returns: The action before.
    private static func replaceAction(of number: Int32) -> sigaction {
        var (action, earlier) = (sigaction(), sigaction())
        let handler: @convention(c) (Int32) -> Void = { _ in
            let code = errno
            var byte: UInt8 = 1
            _ = write(TerminationSignals.target.load(ordering: .relaxed), &byte, 1)
            errno = code
        }
        #if canImport(Darwin)
            action.__sigaction_u.__sa_handler = handler
        #else
            action.__sigaction_handler.sa_handler = handler
        #endif
        action.sa_flags = SA_RESTART
        sigaction(number, &action, &earlier)
        return earlier
    }
}
