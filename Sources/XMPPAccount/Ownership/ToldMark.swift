import Glibc
import Handlers

/// The last of what an owner told the server, kept outside of the database.
///
/// Nothing is told before it is committed. So a database that does not know of something that was told is older than it
/// was: a backup was written over it, or a loss of power took commits back.
struct ToldMark: Equatable {
    /// The owner's epoch.
    var epoch: Int64
    /// The last row of the outbox that was written to the socket.
    var written: Int64 = 0
    /// The session whose count was told, and that count.
    var session: Int64 = 0
    var handled: Int64 = 0

    init(epoch: Int64) { self.epoch = epoch }

    /// - Returns: Nil where nothing was noted, or where it is being written.
    init?(from descriptor: Int32) {
        var words = [Int64](repeating: 0, count: 5)
        let count = words.withUnsafeMutableBytes { pread(descriptor, $0.baseAddress, $0.count, 0) }
        guard count == words.count * 8, words.reduce(0, ^) == 0 else { return nil }
        (epoch, written, session, handled) = (words[0], words[1], words[2], words[3])
    }

    init?(file path: String) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        // Here no lock depends on it: those are of the open file (flock).
        defer { close(descriptor) }
        self.init(from: descriptor)
    }

    /// The last word makes the sum of all come out as nothing, so that a reader knows what is half written.
    var stored: [Int64] { [epoch, written, session, handled, epoch ^ written ^ session ^ handled] }

    /// Whether the database knows less.
    func isAhead(of table: OwnershipTable, in step: borrowing Step) throws(HandlerError) -> Bool {
        if try epoch > table.epoch(in: step) { return true }
        let newest =
            try step.first("SELECT seq FROM sqlite_sequence WHERE name = 'outbox'") {
                (row) throws(HandlerError) in row.integer(0)
            } ?? 0
        let state = try SessionTable(account: table.account).load(in: step)
        guard written <= newest, session <= state.number else { return true }
        // Modulo 2^32: what lies less than half of that ahead is ahead.
        let count = HandledCount(rawValue: UInt32(truncatingIfNeeded: handled))
        let distance = count.distance(from: state.received)
        return session == state.number && distance != 0 && distance < 1 << 31
    }
}
