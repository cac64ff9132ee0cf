// The functions that wait, for callers with a thread of their own.

extension Connection {
    /// Waits like ``wait(until:on:)``.
    ///
    /// - Parameter interrupt: A descriptor that becomes readable when the wait is to end. It is not read.
    package func wait(until deadline: Deadline, interrupt: Int32? = nil) throws(TransportError) -> WaitResult
    {
        try block(interrupt) { connection, loop in await connection.wait(until: deadline, on: loop) }
    }

    /// Sends all of the output like ``flush(until:on:)``.
    package func flush(until deadline: Deadline, interrupt: Int32? = nil) throws(TransportError) {
        if try flush() { return }
        try block(interrupt) { connection, loop in try await connection.flush(until: deadline, on: loop) }
    }

    private func block<Value: Sendable>(
        _ interrupt: Int32?, _ body: @escaping @Sendable (Connection, EventLoop) async throws -> Value
    ) throws(TransportError) -> Value {
        // The calling thread waits, and uses it afterwards.
        nonisolated(unsafe) let connection = self
        do {
            return try EventLoop.run(interrupt: interrupt) { try await body(connection, $0) }
        } catch { throw error as? TransportError ?? TransportError(.systemFailure, "\(error)") }
    }
}
