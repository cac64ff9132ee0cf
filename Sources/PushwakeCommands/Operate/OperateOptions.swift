import FoundationEssentials
import Glibc
import Handlers
import Simulation
import XMPPAccount
package import XMPPCore

/// What the commands for operators share: the store, the form of the answer, and the author of a change.
package struct OperateOptions {
    let arguments: Arguments
    let store: StoreAddress
    let format: AnswerFormat
    let opener: StoreOpener
    let say: (VisibleText) -> Void

    /// - Parameters:
    ///   - command: The name of the command, whose page lists its options.
    ///   - wordCount: The maximum number of words, the verb included.
    package init(
        _ words: [String], of command: String, _ opener: StoreOpener, wordCount: Int = 1,
        say: @escaping (VisibleText) -> Void = { Terminal.say($0) }
    ) throws(UsageError) {
        arguments = try Arguments(
            words.map { $0 == "-o" ? "--output" : $0 }, of: command, wordCount: wordCount)
        let named = arguments.value("--store") ?? Self.variable("PUSHWAKE_STORE")
        guard let named else {
            throw UsageError("--store is missing; name the store with it, or in PUSHWAKE_STORE")
        }
        store = StoreAddress(named)
        let text = arguments.value("--output") ?? AnswerFormat.text.rawValue
        guard let format = AnswerFormat(rawValue: text) else {
            let all = AnswerFormat.allCases.map(\.rawValue).joined(separator: ", ")
            throw UsageError("--output is one of \(all), not '\(text)'")
        }
        (self.format, self.opener, self.say) = (format, opener, say)
    }

    /// Whether words of a command name a database of PostgreSQL.
    static func isPostgres(_ words: [String]) -> Bool {
        let written = words.indices.compactMap { index -> String? in
            if words[index].hasPrefix("--store=") { return String(words[index].dropFirst(8)) }
            return words[index] == "--store" && index + 1 < words.count ? words[index + 1] : nil
        }.first
        return (written ?? variable("PUSHWAKE_STORE")).map { StoreAddress($0).isPostgres } ?? false
    }

    private static func variable(_ name: String) -> String? {
        ProcessInfo.processInfo.environment[name].flatMap { $0.isEmpty ? nil : $0 }
    }

    /// The verb, which is one of those on the page of the command.
    func verb(of command: String) throws(UsageError) -> String {
        let verbs = CommandPage.named(command)?.verbs ?? []
        guard let verb = arguments.words.first, verbs.contains(verb) else {
            let given = arguments.words.first.map { ", not '\($0)'" } ?? ""
            throw UsageError("'pushwake \(command)' takes one of \(verbs.joined(separator: ", "))\(given)")
        }
        return verb
    }

    func reader() throws -> StoreReader { try opener.reader(store.text, Account.schemas) }

    /// Opens the store for writing, after it was read: a file that is not a store does not become one.
    func writer() throws -> HandlerStore {
        _ = try reader().read { try $0.first("SELECT 1 FROM place") { _ in true } }
        return try opener.store(store.text, .discovered(and: SimulationApp.handlers))
    }

    func writing<Row: AnswerRow>(_ rows: Row.Type = Row.self) -> AnswerWriter<Row> {
        AnswerWriter(format, store: store.text, .current(), say)
    }

    /// The number of rows that are shown.
    func limit() throws(UsageError) -> Int {
        let fallback =
            switch format {
            case .text: 20
            case .json: 1000
            case .jsonl, .csv: 10_000_000
            }
        return try arguments.number("--limit", in: 1...10_000_000, default: fallback)
    }

    /// Who changes something: `--by`, or the user and the machine; and `--because`.
    var author: RepairAuthor {
        var host = [CChar](repeating: 0, count: 256)
        _ = gethostname(&host, host.count - 1)
        let machine = String(decoding: host.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let user = Self.variable("LOGNAME") ?? Self.variable("USER") ?? "user \(getuid())"
        return RepairAuthor(
            arguments.value("--by") ?? "\(user)@\(machine)", because: arguments.value("--because"),
            by: .command)
    }

    static func row(_ text: String) throws(UsageError) -> AnyHandlerID {
        guard let row = Int64(text), row > 0 else {
            throw UsageError(
                "ROW is the number of a handler as 'pushwake handler list' shows it, not '\(text)'")
        }
        return AnyHandlerID(rawValue: row)
    }

    /// Parses a time such as `90s`, `15m`, `36h` or `7d`.
    static func time(_ text: String, of option: String) throws(UsageError) -> Duration {
        let units: [Character: Int64] = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
        guard let unit = text.last.flatMap({ units[$0] }), let number = Int64(text.dropLast()),
            0...100_000_000 ~= number
        else { throw UsageError("\(option) takes a time such as 90s, 15m, 36h or 7d, not '\(text)'") }
        return .seconds(number * unit)
    }
}
