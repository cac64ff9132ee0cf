import Glibc
package import Testing

/// Looks at something that has no event of its own until it is as wanted, the less often the more a look costs.
///
///     try await eventually("\(count) notes instead of \(try home.notes)") { try home.notes.count == count }
///
/// - Parameters:
///   - what: What is awaited; made when it has not come.
///   - limit: How long it may take.
/// - Throws: ``NotInTime``, and what the condition throws.
package func eventually(
    _ what: @autoclosure () throws -> String = "what was awaited", within limit: Duration = .seconds(40),
    sourceLocation: SourceLocation = #_sourceLocation, _ condition: () async throws -> Bool
) async throws {
    let clock = ContinuousClock()
    let end = clock.now + limit
    while true {
        let begin = clock.now
        if try await condition() { return }
        guard clock.now < end else { throw NotInTime(what: try what(), place: sourceLocation) }
        let cost = begin.duration(to: clock.now)
        try await clock.sleep(for: max(.milliseconds(2), min(cost * 2, .milliseconds(20))))
    }
}

/// Something has not come in time.
package struct NotInTime: Error, CustomStringConvertible {
    let what: String
    let place: SourceLocation

    package var description: String { "not in time: \(what), awaited at \(place)" }
}

/// Waits for something that only the kernel can tell and that has no event of its own.
package func becomesTrue(
    before deadline: ContinuousClock.Instant, _ condition: () throws -> Bool
) rethrows -> Bool {
    while try !condition() {
        if ContinuousClock.now >= deadline { return false }
        usleep(1000)
    }
    return true
}
