package import Handlers
package import XMPPCore

/// The handlers that `inspect` shows for a filter, at one moment.
package struct FoundHandlers: Codable {
    package var store: String
    /// The handlers that have not ended, oldest first.
    package var handlers: StoreContents.Rows<StoreContents.Handler>
    /// The ended ones, newest first; nil if the filter names a state or arguments, which endings do not have.
    package var endings: StoreContents.Rows<StoreContents.Ending>?

    /// - Parameter limit: The maximum number of shown rows of each list.
    package init(_ reader: StoreReader, _ filter: HandlerFilter, limit: Int) throws {
        store = reader.path
        (handlers, endings) = try reader.read { snapshot in
            let waits = try WaitReader(snapshot, StoreContents.processes(reader, snapshot))
            return (
                try StoreContents.handlers(filter, snapshot, limit, waits),
                filter.includesEndings ? try filter.endings(snapshot, limit: limit) : nil
            )
        }
    }

    package func text(_ style: TerminalStyle) -> VisibleText {
        var lines = [style.heading("store"), "  \(store)"]
        lines += StoreContents.section(
            "handlers", handlers, StoreContents.table(waiting: handlers.shown), style)
        if let endings {
            lines += StoreContents.section(
                "endings", endings, StoreContents.table(endings: endings.shown), style)
        }
        return VisibleText(joining: lines)
    }
}
