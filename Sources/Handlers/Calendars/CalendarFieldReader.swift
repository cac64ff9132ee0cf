/// Reads one field of a cron expression.
struct CalendarFieldReader {
    /// The whole expression, for messages.
    let expression: String
    let field: CalendarField

    func values(of text: Substring) throws(HandlerError) -> FieldValues {
        var values = FieldValues()
        let items = text.split(separator: ",", omittingEmptySubsequences: false)
        for item in items { try read(item, into: &values) }
        guard items.count == 1 || !values.isOpen else {
            throw failure(text, "holds '*' in a list; write '*' alone, or the values without it")
        }
        return values
    }

    private func read(_ item: Substring, into values: inout FieldValues) throws(HandlerError) {
        let (base, step) = try split(item, at: "/")
        let stride = try step.map { (text) throws(HandlerError) in try self.step(text, of: item) }
        if base == "*" {
            values.isOpen = true
            return add(field.values.lowerBound...field.highest, stride ?? 1, to: &values)
        }
        let (first, last) = try split(base, at: "-")
        if let last {
            return add(try range(first, last, of: item), stride ?? 1, to: &values)
        }
        guard stride == nil else {
            throw failure(item, "has a step without a range; write '\(base)-\(field.highest)/\(step ?? "")'")
        }
        try addSingle(first, to: &values)
    }

    private func add(_ range: ClosedRange<Int>, _ step: Int, to values: inout FieldValues) {
        for value in stride(from: range.lowerBound, through: range.upperBound, by: step) {
            values.bits |= 1 << bit(value)
        }
    }

    private func addSingle(_ text: Substring, to values: inout FieldValues) throws(HandlerError) {
        switch field.forms {
        case .lastDay where text.lowercased() == "l": values.hasLastDay = true
        case .weekdays where text.contains("#"): try addNumbered(text, to: &values)
        default: values.bits |= 1 << bit(try value(text))
        }
    }

    private func addNumbered(_ text: Substring, to values: inout FieldValues) throws(HandlerError) {
        let (weekday, week) = try split(text, at: "#")
        guard let week, let number = Self.week(week) else {
            throw failure(text, "has no week of the month; write a number from 1 to 5 or L after '#'")
        }
        values.numbered.insert(bit(try value(weekday)), week: number)
    }

    private static func week(_ text: Substring) -> Int? {
        if text.lowercased() == "l" { return NumberedWeekdays.last }
        return number(text).flatMap { 1...NumberedWeekdays.last ~= $0 ? $0 - 1 : nil }
    }

    /// Sunday has two numbers and one bit.
    private func bit(_ value: Int) -> Int { value > field.highest ? 0 : value }

    private func range(
        _ first: Substring, _ last: Substring, of item: Substring
    ) throws(HandlerError) -> ClosedRange<Int> {
        let start = try value(first)
        var end = try value(last)
        // As in SAT-SUN.
        if field.forms == .weekdays, end == 0, start > 0 { end = 7 }
        guard start <= end else {
            throw failure(
                item,
                "ends before it starts; write '\(first)-\(field.highest),\(field.values.lowerBound)-\(last)'")
        }
        return start...end
    }

    private func step(_ text: Substring, of item: Substring) throws(HandlerError) -> Int {
        guard let step = Self.number(text), 1...field.values.upperBound ~= step else {
            throw failure(
                item, "has the step '\(text)'; write a number from 1 to \(field.values.upperBound)")
        }
        return step
    }

    private func value(_ text: Substring) throws(HandlerError) -> Int {
        let name = text.lowercased()
        if let index = field.names.firstIndex(of: name) { return field.values.lowerBound + index }
        guard let value = Self.number(text), field.values ~= value else {
            throw failure(text, "is no \(field.name); write \(field.description)")
        }
        return value
    }

    /// `Int` would also read a sign.
    private static func number(_ text: Substring) -> Int? {
        text.utf8.allSatisfy { 0x30...0x39 ~= $0 } ? Int(text) : nil
    }

    /// Divides a text in two at the only separator in it.
    private func split(
        _ text: Substring, at separator: Character
    ) throws(HandlerError) -> (Substring, Substring?) {
        let parts = text.split(separator: separator, omittingEmptySubsequences: false)
        guard parts.count <= 2 else {
            throw failure(text, "has '\(separator)' twice; write it once, or divide values with ','")
        }
        return (parts[0], parts.count == 2 ? parts[1] : nil)
    }

    private func failure(_ text: Substring, _ problem: String) -> HandlerError {
        HandlerError(
            .invalidCalendar,
            "'\(text)' in the field \(field.name) of the calendar expression '\(expression)' \(problem)")
    }
}
