import Platform

/// The named pipe `<database>-signal`, by which the stores of a database wake each other.
///
/// ```text
///   notifyOthers() ──one byte──▶ pipe ──an edge──▶ the EdgeWatch of every store
/// ```
/// No store reads what it is woken by: a read would take it from the others. A store that finds the pipe full empties it first.
/// What has changed is in the slot file (``SlotFile/changeCounter``), so a lost byte delays a store until its next look.
final class SignalPipe: Sendable {
    /// What a pipe holds by default.
    private static let capacity = 64 << 10
    /// How often a full pipe is emptied for one byte. A pipe that others fill again has woken every store.
    private static let attempts = 4

    let path: String
    /// Whether others had access to the pipe until it was opened.
    let wasNarrowed: Bool
    private let file: OpenFile

    /// For an ``EdgeWatch``.
    var descriptor: Int32 { file.descriptor }

    /// - Parameter database: The database file.
    /// - Returns: Nil where there is no pipe and none can be made.
    init?(database: String) throws(HandlerError) {
        path = database + "-signal"
        guard let (file, wasNarrowed) = try PrivateFile.openPipe(path, beside: database) else { return nil }
        (self.file, self.wasNarrowed) = (file, wasNarrowed)
    }

    /// Wakes every store that watches, also this one; never blocks.
    ///
    /// A write to a full pipe fails. Linux 6 reports an edge for it all the same, but nothing promises that.
    func raise() {
        var attempts = Self.attempts
        while !write(), attempts > 0 {
            empty()
            attempts -= 1
        }
    }

    /// Returns false if the pipe is full.
    private func write() -> Bool {
        do throws(Errno) {
            try withUnsafeBytes(of: UInt8(1)) { (byte) throws(Errno) in try file.write(byte) }
            return true
        } catch { return error != .wouldBlock }
    }

    private func empty() {
        withUnsafeTemporaryAllocation(byteCount: Self.capacity, alignment: 1) { buffer in
            _ = try? file.read(into: buffer)
        }
    }
}
