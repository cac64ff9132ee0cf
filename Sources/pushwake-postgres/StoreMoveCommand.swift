import Handlers
import HandlersPostgres
import PubSub
import PushwakeCommands
import XMPPAccount
import XMPPCore
import XMPPModules

/// `pushwake store move`: moves a store between SQLite and PostgreSQL.
///
/// It knows the modules of this library that it links. Tables of others, such as those of the program itself, are made as the store
/// that is left keeps them.
struct StoreMoveCommand {
    private let move: StoreMove
    private let isUndo: Bool

    init(_ words: [String]) throws {
        let arguments = try Arguments(words, of: "store", wordCount: 1)
        guard arguments.words == ["move"] else {
            throw UsageError("'pushwake store' takes the word move")
        }
        move = StoreMove(
            from: Self.place(try arguments.required("--from")),
            to: Self.place(try arguments.required("--to")),
            schemas: Account.schemas + PubSubEvents.schemas,
            durability: arguments.has("--without-standby") ? .onPrimary : .onStandby, takesUnknown: true)
        isUndo = arguments.has("--undo")
    }

    private static func place(_ text: String) -> StoreMove.Place {
        StoreAddress(text).isPostgres ? .postgres(text) : .file(text)
    }

    func run() throws -> Int32 {
        // All rows are read twice.
        var bar: ProgressBar?
        do {
            if isUndo {
                try move.undo()
                Terminal.say("The store is as it was.")
                return 0
            }
            let summary = try move.run { done in
                bar = bar ?? ProgressBar(total: 2 * done.all)
                bar?.show(
                    done.isComparing ? done.all + done.rows : done.rows,
                    done.isComparing ? "rows compared" : "rows copied")
            }
            let rows = Terminal.count(summary.rows, "row")
            Terminal.say(
                summary.wasCompleted
                    ? "An earlier run had moved everything; the store that is left is retired now."
                    : "\(rows) of \(Terminal.count(summary.tables, "table")) moved and compared; the store that is left is retired."
            )
            return 0
        } catch let error as HandlerError {
            bar?.interrupt()
            throw CommandFailure(error.message)
        }
    }
}
