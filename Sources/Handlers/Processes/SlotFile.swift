import Platform
import Synchronization

/// The file `<database>-processes`, open and mapped: a header and ``ProcessSlot/limit`` records.
///
/// Its bytes are also the names of locks, none of which guards the content of the byte:
/// ```text
/// 0                  locked by the process that prepares the file
/// 1 ... 256          locked by the store in a slot, or by a process that recovers it
/// further bytes      alive bytes, each locked by one store and never used again
/// ```
/// The file is never deleted: two processes with two files would not see each other.
final class SlotFile: Sendable {
    private static let preparing: Int64 = 0
    private static let firstSlot: Int64 = 1
    /// Alive byte of no store.
    static let nobody: Int64 = 1 << 20
    private static let aliveBytes = (nobody + 1)...(1 << 62)

    private static let headerSize = 64
    /// The place in the header after the part that ``SlotFileHeader`` reads.
    private static let changeCounterOffset = 32
    static let size = headerSize + ProcessSlot.limit * SlotRecord.stride

    let path: String
    let handle: OpenFile
    /// Whether others had access to the file until it was opened.
    let wasNarrowed: Bool
    /// Of atomic fields only.
    private let memory: MappedFile

    /// - Parameter database: The database file.
    init(database: String) throws(HandlerError) {
        let path = database + "-processes"
        let (file, wasNarrowed) = try PrivateFile.open(path, beside: database)
        try Self.prepare(path, file)
        memory = try Self.withSystemErrors(path) { () throws(Errno) in try MappedFile(file, size: Self.size) }
        self.path = path
        handle = file
        self.wasNarrowed = wasNarrowed
    }

    /// Takes the lock of a byte for writing; false when another store holds it.
    func tryLock(byte: Int64) throws(HandlerError) -> Bool {
        try Self.withSystemErrors(path) { () throws(Errno) in try handle.tryLock(byte: byte) }
    }

    func withRecord<R>(_ slot: Int, _ body: (borrowing SlotRecord) -> R) -> R {
        precondition((0..<ProcessSlot.limit).contains(slot))
        let place = memory.start + Self.headerSize + slot * SlotRecord.stride
        return body(place.assumingMemoryBound(to: SlotRecord.self).pointee)
    }

    /// The words of a record, read from a file that is not mapped; zeros where it is too short.
    static func record(ofSlot slot: Int, in file: OpenFile) -> [Int64] {
        var words = [Int64](repeating: 0, count: SlotRecord.stride / 8)
        let offset = headerSize + slot * SlotRecord.stride
        _ = words.withUnsafeMutableBytes { try? file.read(into: $0, at: offset) }
        return words
    }

    /// Counter that every store raises after a commit, modulo 2^32.
    ///
    /// A watch on the log file would come too early: SQLite syncs the log before it makes the commit visible in shared
    /// memory. Committers therefore raise this counter after COMMIT. If a committer dies first, the release of its slot
    /// is the notification.
    var changeCounter: UnsafePointer<Atomic<UInt32>> {
        UnsafePointer((memory.start + Self.changeCounterOffset).assumingMemoryBound(to: Atomic<UInt32>.self))
    }

    static func lock(ofSlot slot: Int) -> Int64 { firstSlot + Int64(slot) }

    static func newAliveByte() -> Int64 {
        var generator = Randomness()
        return Int64.random(in: aliveBytes, using: &generator)
    }

    // MARK: - Preparing

    private static func prepare(_ path: String, _ file: OpenFile) throws(HandlerError) {
        let header = SlotFileHeader.current()
        // Without the lock first: the usual start must wait for nobody, not even for a stopped process.
        if isReady(file, header) { return }
        try withSystemErrors(path) { () throws(Errno) in try file.lock(byte: preparing) }
        defer { file.unlock(byte: preparing) }
        if isReady(file, header) { return }
        try SlotFileHeader.stored(in: file).check(path)
        guard isOurs(file) else { throw SlotFileErrors.foreign(path) }
        guard !file.isLockedElsewhere(byte: firstSlot, length: 0) else { throw SlotFileErrors.damaged(path) }
        try withSystemErrors(path) { () throws(Errno) in try write(header, to: file) }
    }

    private static func isReady(_ file: OpenFile, _ header: SlotFileHeader) -> Bool {
        (try? file.status())?.size == Int64(size) && SlotFileHeader.stored(in: file) == header
    }

    /// Returns whether the file is no longer than this library makes it, and holds what records can hold, also where the
    /// writer was interrupted or a loss of power left zeros.
    private static func isOurs(_ file: OpenFile) -> Bool {
        var words = [Int64](repeating: 0, count: size / 8 + 1)
        let count = words.withUnsafeMutableBytes { try? file.read(into: $0, at: 0) }
        guard let count, count <= size else { return false }
        return (0..<ProcessSlot.limit).allSatisfy { slot in
            let start = (headerSize + slot * SlotRecord.stride) / 8
            return SlotRecord.isPossible(words[start..<start + SlotRecord.stride / 8])
        }
    }

    /// A file without a header.
    private static var image: [Int64] {
        [Int64](repeating: 0, count: headerSize / 8)
            + (0..<ProcessSlot.limit).flatMap { _ in SlotRecord.unknown }
    }

    /// Writes every byte, for a hole in a mapped file is a SIGBUS when the disk is full; the header last. What a full disk
    /// left has no header and is written again.
    private static func write(_ header: SlotFileHeader, to file: OpenFile) throws(Errno) {
        for words in [image, header.words] {
            try words.withUnsafeBufferPointer { (words) throws(Errno) in
                try file.write(UnsafeRawBufferPointer(words), at: 0)
            }
        }
    }

    /// Runs system calls on the file, with errors that say what to do.
    private static func withSystemErrors<R>(
        _ path: String, _ body: () throws(Errno) -> R
    ) throws(HandlerError) -> R {
        do throws(Errno) { return try body() } catch { throw SlotFileErrors.failed(path, error) }
    }
}
