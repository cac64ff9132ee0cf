import Handlers

// Faults built in on purpose: numbers of rows that do not come from the sequence of the table.
extension Outbox {
    /// The number that a command drew before its step.
    private final class Drawn {
        var number: Int64?
    }

    /// `BuiltInFault.numberBeforeLock`: draws the number of the command's first stanza before the step takes the write lock.
    @inline(__always)
    func numbering(
        _ store: HandlerStore, _ run: @escaping @Sendable (borrowing Step) throws -> Void
    ) throws -> @Sendable (borrowing Step) throws -> Void {
        guard BuiltInFault.numberBeforeLock.isOn else { return run }
        let number = try store.read { try $0.newestID(in: "outbox") + 1 }
        return { step in
            step.keeping { Drawn() }.number = number
            try run(step)
        }
    }

    /// `BuiltInFault.reorderOutbox`: the last stanza of a batch goes first.
    static func reordered(_ stanzas: [Stanza]) -> [Stanza] {
        zip(stanzas, stanzas.suffix(1) + stanzas.dropLast()).map { Stanza(seq: $0.seq, xml: $1.xml) }
    }

    /// Gives the row that was appended last another number.
    func renumber(in step: borrowing Step) throws(HandlerError) {
        let row = try step.lastInsertedRow
        var number = step.kept(Drawn.self)?.number
        step.kept(Drawn.self)?.number = nil
        if BuiltInFault.reuseNumbers.isOn {
            number = try step.first("SELECT coalesce(max(seq), 0) + 1 FROM outbox WHERE seq <> ?", row) {
                $0.integer(0)
            }
        }
        if let number { try step.execute("UPDATE outbox SET seq = ? WHERE seq = ?", number, row) }
    }
}
