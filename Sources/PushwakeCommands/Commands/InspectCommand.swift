import Handlers
import Simulation
import XMPPAccount
import XMPPCore
import XMPPModules

/// `pushwake inspect`: shows a store. It only reads, so it works beside running and frozen programs, and on a copy.
package struct InspectCommand {
    let store: StoreAddress
    private let opener: StoreOpener
    private let isJSON: Bool
    private let limit: Int
    private let filter: HandlerFilter

    package init(_ words: [String], _ opener: StoreOpener) throws {
        let arguments = try Arguments(words, of: "inspect")
        store = StoreAddress(try arguments.required("--store"))
        self.opener = opener
        isJSON = arguments.has("--json")
        limit = try arguments.number("--limit", in: 1...10_000_000, default: isJSON ? 1000 : 20)
        filter = try HandlerFilter(arguments)
    }

    package func run() throws -> Int32 {
        let reader = try opener.reader(store.text, Account.schemas)
        guard filter.isEmpty else { return try showFound(reader) }
        let contents = try StoreContents(reader, limit: limit)
        Terminal.say(isJSON ? VisibleText(json: try OneLineJSON.text(contents)) : contents.text(.current()))
        return 0
    }

    private func showFound(_ reader: StoreReader) throws -> Int32 {
        let found = try FoundHandlers(reader, filter, limit: limit)
        Terminal.say(
            isJSON ? VisibleText(json: try OneLineJSON.text(found)) : found.text(.current()))
        return 0
    }
}
