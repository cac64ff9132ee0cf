/// One of the five fields of a cron expression: its name and the values that it may have.
struct CalendarField: Sendable {
    let name: String
    let values: ClosedRange<Int>
    /// Names of the values, from the lowest.
    var names: [String] = []
    /// Forms that only this field has.
    var forms = Forms.values

    enum Forms: Sendable {
        case values, lastDay, weekdays
    }

    static let minute = CalendarField(name: "minute", values: 0...59)
    static let hour = CalendarField(name: "hour", values: 0...23)
    static let day = CalendarField(name: "day of the month", values: 1...31, forms: .lastDay)
    static let month = CalendarField(
        name: "month", values: 1...12,
        names: ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"])
    static let weekday = CalendarField(
        name: "day of the week", values: 0...7, names: ["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
        forms: .weekdays)

    /// The values in words, for messages.
    var description: String {
        let range = "\(values.lowerBound) to \(values.upperBound)"
        return switch forms {
        case .lastDay: "\(range) or L"
        case .weekdays: "\(range) or sun to sat"
        case .values: names.isEmpty ? range : "\(range) or \(names[0]) to \(names[names.count - 1])"
        }
    }

    /// The highest value of `*`: Sunday counts once.
    var highest: Int { forms == .weekdays ? 6 : values.upperBound }
}

/// What one field of an expression says.
struct FieldValues: Sendable {
    /// Bit n for the value n.
    var bits: UInt64 = 0
    var hasLastDay = false
    var numbered = NumberedWeekdays()
    /// Whether it begins with `*`.
    var isOpen = false
}
