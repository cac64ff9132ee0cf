import FoundationEssentials

/// One line of the table: ours beside a reference, measured in the same run.
struct Line: Codable {
    /// What is better: more of a rate, less of a time or of memory.
    enum Better {
        case more
        case less
    }

    /// The group, a slash, and what was measured.
    let name: String
    /// The unit of `ours` and `reference`.
    let unit: String
    let ours: Double
    let reference: Double
    let referenceName: String
    /// How we compare, better when larger.
    let ratio: Double
    /// The least ratio wanted.
    let goal: Double

    init(
        _ name: String, unit: String, better: Better, ours: Double, reference: Double, referenceName: String,
        goal: Double
    ) {
        self.name = name
        self.unit = unit
        self.ours = Self.rounded(ours)
        self.reference = Self.rounded(reference)
        self.referenceName = referenceName
        ratio = Self.rounded(better == .more ? ours / reference : reference / ours)
        self.goal = goal
    }

    private static func rounded(_ value: Double) -> Double { (value * 1000).rounded() / 1000 }

    static func json(_ lines: [Line]) throws -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        return try encoder.encode(lines) + Data("\n".utf8)
    }
}
