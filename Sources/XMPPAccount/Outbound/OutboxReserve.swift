package import Handlers

/// Room in the outbox for what modules ask for by themselves.
///
/// A session that starts with an outbox that the program has filled would else start without roster, carbons and archives,
/// and nobody would ask again. Answers to requests get it, too: an answer to the server keeps the stream open. What else others
/// cause, such as receipts, does not.
///
/// A scope of the step and no parameter: the hooks of modules, also of a program's own, send by the same public functions as the
/// program.
final class OutboxReserve {
    /// The number of stanzas beyond ``AccountConfiguration/maximumOutbox`` that may wait.
    static let size = 1000

    /// The uses that are under way in the step that keeps this object.
    fileprivate var uses = 0

    /// Returns the maximum number of stanzas in the outbox.
    static func limit(_ maximum: Int, in step: borrowing Step) -> Int {
        let isOpen = step.kept(OutboxReserve.self).map { $0.uses > 0 } ?? false
        return isOpen && maximum < .max - size ? maximum + size : maximum
    }
}

extension Account {
    /// Runs `body`, whose stanzas may use the reserve of the outbox.
    package func usingReserve<Result>(in step: borrowing Step, _ body: () throws -> Result) rethrows -> Result
    {
        let reserve = step.keeping { OutboxReserve() }
        reserve.uses += 1
        defer { reserve.uses -= 1 }
        return try body()
    }
}
