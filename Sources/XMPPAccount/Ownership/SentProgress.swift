import Handlers
import Platform

/// The last counts that an owner sent to the server, stored outside of the database.
///
/// Everything is committed before it is sent. So a database that lacks something that was sent is an older state: a backup has
/// replaced it, or a power loss has undone commits.
package struct SentProgress: Equatable, Sendable {
    /// The owner's epoch.
    package var epoch: Int64
    /// The last row of the outbox that was written to the socket.
    package var written: Int64 = 0
    /// The session whose `h` was sent, and that `h`.
    package var session: Int64 = 0
    package var h: Int64 = 0

    package init(epoch: Int64) { self.epoch = epoch }

    /// - Parameter offset: The place of the record in the file.
    /// - Returns: Nil if nothing is recorded, or the record is being written.
    init?(from file: OpenFile, at offset: Int) {
        guard let words = Self.words(in: file, at: offset), !Self.isEmpty(words), Self.isSound(words)
        else { return nil }
        (epoch, written, session, h) = (words[0], words[1], words[2], words[3])
    }

    private static let wordCount = 5

    /// The number of reads of a record that another process may be writing, and the pause between them, in microseconds.
    private static let (looks, pause) = (20, 500 as UInt32)

    /// Returns whether a place in a file is empty or contains the progress of an owner.
    static func isValid(_ file: OpenFile, at offset: Int) -> Bool {
        for _ in 0..<looks {
            guard let words = words(in: file, at: offset) else { return false }
            if isEmpty(words) || isSound(words) { return true }
            SystemThread.sleep(microseconds: pause)
        }
        return false
    }

    /// - Returns: Zeros behind the end of the file; nil where the file ends within the record.
    private static func words(in file: OpenFile, at offset: Int) -> [Int64]? {
        var words = [Int64](repeating: 0, count: wordCount)
        let count = words.withUnsafeMutableBytes { try? file.read(into: $0, at: offset) }
        return count == 0 || count == wordCount * 8 ? words : nil
    }

    private static func isEmpty(_ words: [Int64]) -> Bool { words.allSatisfy { $0 == 0 } }

    private static func isSound(_ words: [Int64]) -> Bool {
        words.reduce(0, ^) == 0 && OwnershipTable.epochs.contains(words[0]) && words[1] >= 0 && words[2] >= 0
            && UInt32(exactly: words[3]) != nil
    }

    /// The words of the record. The last one makes the XOR of all words 0, so that a reader detects a partly written one.
    var stored: [Int64] { [epoch, written, session, h, epoch ^ written ^ session ^ h] }

    /// Returns whether the database is older than this progress.
    func isAhead(of table: OwnershipTable, in step: borrowing Step) throws(HandlerError) -> Bool {
        if try epoch > table.epoch(in: step) { return true }
        let newest = try step.newestID(in: "outbox")
        let state = try SessionTable(account: table.account).load(in: step)
        guard written <= newest, session <= state.number else { return true }
        // Counts wrap at 2^32: a count is ahead if it is less than 2^31 ahead.
        let count = HandledCount(rawValue: UInt32(truncatingIfNeeded: h))
        let distance = count.distance(from: state.received)
        return session == state.number && distance != 0 && distance < 1 << 31
    }
}
