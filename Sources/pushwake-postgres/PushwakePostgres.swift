// pushwake-postgres: the commands of pushwake for a store on PostgreSQL; pushwake runs it with the same words.
//
// It is a separate program, because it links libpq. pushwake does not link it.

import Handlers
import HandlersPostgres
import PushwakeCommands

@main
struct PushwakePostgres {
    static func main() async { await Pushwake.main(run) }

    /// - Returns: The exit status.
    private static func run(_ words: [String]) throws -> Int32 {
        let rest = Array(words.dropFirst())
        switch words.first {
        case "inspect": return try InspectCommand(rest, opener).run()
        case "report": return try ReportCommand(rest, opener).run()
        case .some(let command) where Pushwake.forOperators.contains(command):
            return try Pushwake.operate(command, rest, opener)
        case "store": return try StoreMoveCommand(rest).run()
        default:
            throw UsageError(
                "for a store on PostgreSQL there is no command '\(words.first ?? "")'; there are inspect, report, store, \(Pushwake.forOperators.joined(separator: ", "))"
            )
        }
    }

    private static let opener = StoreOpener(
        reader: { try StoreReader(postgres: $0, schemas: $1) },
        // A standby that the server has must confirm a repair. The program decides whether it needs one.
        store: { try HandlerStore(postgres: $0, registry: $1, durability: .onPrimary) })
}
