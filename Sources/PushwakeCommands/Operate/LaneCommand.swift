import Handlers
package import XMPPCore

/// `pushwake lane`: shows lanes, pauses them and sets their limits.
package struct LaneCommand {
    package let options: OperateOptions
    private let verb: String
    private let name: String
    private let rule: LaneRule?

    package init(
        _ words: [String], _ opener: StoreOpener,
        say: @escaping (VisibleText) -> Void = { Terminal.say($0) }
    ) throws {
        options = try OperateOptions(words, of: "lane", opener, wordCount: 2, say: say)
        verb = try options.verb(of: "lane")
        name = options.arguments.words.dropFirst().first ?? ""
        guard verb == "list" || !name.isEmpty else {
            throw UsageError("'lane \(verb)' takes the name of a lane")
        }
        rule = verb == "limit" ? try Self.rule(name, options.arguments) : nil
    }

    /// The limits that the options name; none without any.
    private static func rule(_ name: String, _ arguments: Arguments) throws -> LaneRule {
        let concurrency = try arguments.number("--concurrency", in: 1...Int.max)
        guard let text = arguments.value("--rate") else { return LaneRule(name, concurrency: concurrency) }
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, let count = Int(parts[0]) else {
            throw UsageError("--rate takes COUNT/TIME such as 100/60s, not '\(text)'")
        }
        return LaneRule(
            name, concurrency: concurrency,
            rate: LaneRate(count, per: try OperateOptions.time(String(parts[1]), of: "--rate")))
    }

    package func run() throws -> Int32 {
        guard verb != "list" else { return try list() }
        let isDry = options.arguments.has("--dry-run")
        let author = options.author
        let store = isDry ? nil : try options.writer()
        try store?.step { step in
            switch verb {
            case "pause": try step.pauseLane(name, by: author)
            case "resume": try step.resumeLane(name, by: author)
            default: if let rule { try step.setLane(rule, by: author) }
            }
        }
        let (lane, now) = try options.reader().read { (try $0.laneStatus(name), $0.now) }
        if isDry, options.format == .text { options.say("nothing was changed; the lane is now:") }
        var writer = options.writing(LaneItem.self)
        try writer.add([LaneItem(lane)])
        try writer.end(now, none: "")
        return 0
    }

    private func list() throws -> Int32 {
        let (lanes, now) = try options.reader().read { (try $0.lanes(), $0.now) }
        var writer = options.writing(LaneItem.self)
        let start = options.arguments.value("--after").map { ForeignText($0) }
        let rest = lanes.filter { lane in start.map { ForeignText(lane.name) > $0 } ?? true }
        let shown = rest.prefix(try options.limit())
        try writer.add(shown.map(LaneItem.init))
        try writer.end(
            now, next: shown.count < rest.count ? shown.last?.name : nil,
            none: "no lane has limits or handlers")
        return 0
    }
}
