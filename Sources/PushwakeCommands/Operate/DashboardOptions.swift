package import Handlers

/// The words of `pushwake dashboard`, and what its page shows of tables that `Handlers` does not know.
package struct DashboardOptions: @unchecked Sendable {
    // `OperateOptions` is not marked as sendable only because of its closure for output, which nothing here calls.
    private let options: OperateOptions
    /// The port of the loopback address; nil where none is named.
    package let port: UInt16?

    package init(_ words: [String], _ opener: StoreOpener) throws {
        options = try OperateOptions(words, of: "dashboard", opener, wordCount: 0)
        port = try options.arguments.value("--listen").map(Self.port)
    }

    /// Another address would let the network read the store without an encrypted connection.
    private static func port(_ text: String) throws(UsageError) -> UInt16 {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, ["127.0.0.1", "localhost"].contains(parts[0]), let port = UInt16(parts[1])
        else {
            throw UsageError(
                "--listen takes 127.0.0.1:PORT, not '\(text)'; from another machine, reach it through 'ssh -L PORT:127.0.0.1:PORT'"
            )
        }
        return port
    }

    /// Whether the page may change the store.
    package var isForOperators: Bool { options.arguments.has("--operator") }
    /// The name under which changes are stored.
    package var author: String { options.author.name }
    package func reader() throws -> StoreReader { try options.reader() }
    package func writer() throws -> HandlerStore { try options.writer() }

    /// Returns what says why handlers have not ended.
    package static func why(
        _ reader: StoreReader, _ snapshot: borrowing Snapshot
    ) throws -> (HandlerStatus, borrowing Snapshot) throws -> String {
        let waits = try WaitReader(snapshot, StoreContents.processes(reader, snapshot))
        return { try waits.handler($0, $1).why }
    }

    package static func release(_ id: AnyHandlerID, _ step: borrowing Step) throws {
        try AccountRows.release(id, step)
    }

    package static func processState(_ pid: Int32) -> String { ProcessState.of(pid) }
}
