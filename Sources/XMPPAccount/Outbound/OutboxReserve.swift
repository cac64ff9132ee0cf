/// Room in the outbox for what modules ask for by themselves.
///
/// A session that begins with an outbox that the program has filled would else begin without roster, copies and archives,
/// and nobody would ask again. Answers to requests get it, too: an answer to the server keeps the stream open. What else others
/// cause, such as receipts, does not.
package enum OutboxReserve {
    /// How many stanzas more than ``AccountConfiguration/maximumOutbox`` may wait.
    static let size = 1000

    @TaskLocal static var isOpen = false

    /// How many stanzas may wait for whoever asks now.
    static func limit(_ maximum: Int) -> Int {
        isOpen && maximum < .max - size ? maximum + size : maximum
    }

    package static func opened<Result>(_ body: () throws -> Result) rethrows -> Result {
        try $isOpen.withValue(true, operation: body)
    }
}
