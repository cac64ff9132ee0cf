import Handlers
import Simulation
import XMPPAccount
package import XMPPCore
import XMPPModules

/// `pushwake inspect`: shows a store, and repairs quarantined or parked handlers.
///
/// Showing only reads: it works beside running and frozen programs, and on a copy. Repairing writes. The program's runner calls the
/// handlers that were requeued.
package struct InspectCommand {
    let store: StoreAddress
    private let opener: StoreOpener
    private let isJSON: Bool
    private let limit: Int
    private let filter: HandlerFilter
    private let repairs: [StoreRepair]

    package init(_ words: [String], _ opener: StoreOpener) throws {
        let arguments = try Arguments(words, of: "inspect")
        store = StoreAddress(try arguments.required("--store"))
        self.opener = opener
        isJSON = arguments.has("--json")
        limit = try arguments.number("--limit", in: 1...10_000_000, default: isJSON ? 1000 : 20)
        filter = try HandlerFilter(arguments)
        repairs = try [
            arguments.value("--requeue").map {
                $0 == "all" ? .requeueAll : .requeue(try Self.row($0, of: "--requeue", or: " or all"))
            },
            arguments.value("--discard").map { .discard(try Self.row($0, of: "--discard")) },
            arguments.value("--invalidate").map { .invalidate(try Self.row($0, of: "--invalidate")) },
        ].compactMap { $0 }
        guard filter.isEmpty || repairs.isEmpty else {
            throw UsageError(
                "a filter cannot stand beside a repair, which takes one handler by its row, or all; look first, then name the row"
            )
        }
    }

    private static func row(_ text: String, of option: String, or other: String = "") throws -> AnyHandlerID {
        guard let row = Int64(text), row > 0 else {
            throw UsageError(
                "\(option) takes the number of a handler as inspect shows it\(other), not '\(text)'")
        }
        return AnyHandlerID(rawValue: row)
    }

    package func run() throws -> Int32 {
        let reader = try opener.reader(store.text, Account.schemas)
        guard filter.isEmpty else { return try showFound(reader) }
        // Always reads first, so that a file that is not a store does not become one.
        var report = Report(contents: try StoreContents(reader, limit: limit))
        if !repairs.isEmpty {
            report.repairs = try StoreRepair.perform(repairs) { try opener.store(store.text, $0) }
            report.contents = try StoreContents(reader, limit: limit)
        }
        Terminal.say(isJSON ? VisibleText(json: try report.json()) : report.text(.current()))
        return 0
    }

    private func showFound(_ reader: StoreReader) throws -> Int32 {
        let found = try FoundHandlers(reader, filter, limit: limit)
        Terminal.say(
            isJSON ? VisibleText(json: try OneLineJSON.text(found)) : found.text(.current()))
        return 0
    }

    /// The output of the command.
    package struct Report {
        package var contents: StoreContents
        /// The repairs; nil when none was requested.
        package var repairs: [StoreRepair.Done]?

        /// Returns the contents, or the repairs if there were any.
        package func text(_ style: TerminalStyle) -> VisibleText {
            guard let repairs else { return contents.text(style) }
            guard !repairs.isEmpty else {
                return "nothing was quarantined or parked, so nothing was requeued"
            }
            return VisibleText(joining: repairs.map { "\($0.text)" })
        }

        package func json() throws -> String {
            try OneLineJSON.text(Whole(repairs: repairs, contents: contents))
        }

        /// The contents, with the repairs.
        private struct Whole: Encodable {
            package var repairs: [StoreRepair.Done]?
            package var contents: StoreContents

            private enum CodingKeys: CodingKey { case repairs }

            func encode(to encoder: any Encoder) throws {
                try contents.encode(to: encoder)
                var container = encoder.container(keyedBy: CodingKeys.self)
                try container.encodeIfPresent(repairs, forKey: .repairs)
            }
        }
    }
}
