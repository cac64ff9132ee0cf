extension CalendarFields {
    /// In bytes.
    static let longestExpression = 256

    private static let shorthands = [
        "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
        "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
    ]

    /// Reads a cron expression.
    ///
    /// - Throws: ``HandlerError`` `invalidCalendar`.
    init(_ expression: String) throws(HandlerError) {
        try Self.checkBytes(expression)
        let texts = try Self.split(expression)
        func read(_ index: Int, _ field: CalendarField) throws(HandlerError) -> FieldValues {
            try CalendarFieldReader(expression: expression, field: field).values(of: texts[index])
        }
        let hour = try read(1, .hour)
        minutes = try read(0, .minute).bits
        hours = hour.bits
        followsRealTime = hour.isOpen
        days = CalendarDays(try read(2, .day), try read(4, .weekday))
        months = try read(3, .month).bits
        try checkHappens(expression)
    }

    private static func checkBytes(_ expression: String) throws(HandlerError) {
        guard 1...longestExpression ~= expression.utf8.count else {
            throw HandlerError(
                .invalidCalendar,
                "a calendar expression has 1 to \(longestExpression) bytes, this one has \(expression.utf8.count); write five fields such as '0 9 * * 1-5'"
            )
        }
        if let index = expression.utf8.firstIndex(where: { !(0x20...0x7e ~= $0 || $0 == 0x09) }) {
            let place = expression.utf8.distance(from: expression.startIndex, to: index) + 1
            throw HandlerError(
                .invalidCalendar,
                "byte \(place) of a calendar expression is no printable ASCII character; write five fields such as '0 9 * * 1-5'"
            )
        }
    }

    private static func split(_ expression: String) throws(HandlerError) -> [Substring] {
        var texts = expression.split { $0 == " " || $0 == "\t" }
        if texts.count == 1, texts[0].hasPrefix("@") {
            guard let fields = shorthands[texts[0].lowercased()] else {
                throw HandlerError(
                    .invalidCalendar,
                    "the calendar expression '\(expression)' is unknown; write one of \(shorthands.keys.sorted().joined(separator: ", ")), or five fields"
                )
            }
            texts = fields.split(separator: " ")
        }
        guard texts.count == 5 else {
            throw HandlerError(
                .invalidCalendar,
                "the calendar expression '\(expression)' has \(texts.count) fields; write five: minute, hour, day of the month, month, day of the week"
            )
        }
        return texts
    }

    private func checkHappens(_ expression: String) throws(HandlerError) {
        // The calendar repeats after 400 years, with its weekdays.
        let start = GregorianDay(year: 2000, month: 1, day: 1).number * 1440
        guard next(from: start, lastYear: 2399) == nil else { return }
        throw HandlerError(
            .invalidCalendar,
            "the calendar expression '\(expression)' never happens, because none of its months has such a day; change the day or the month"
        )
    }
}

extension CalendarDays {
    init(_ day: FieldValues, _ weekday: FieldValues) {
        self.init(
            days: day.bits, hasLastDay: day.hasLastDay, weekdays: weekday.bits, numbered: weekday.numbered,
            needsOnlyOne: !day.isOpen && !weekday.isOpen)
    }
}
