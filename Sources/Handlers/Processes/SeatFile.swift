import Platform
import Synchronization

/// The file `<database>-processes`, open and mapped: a header and ``ProcessSlot/limit`` records.
///
/// Its bytes are also the names of locks, none of which guards the content of the byte:
/// ```
/// 0                  who prepares the file
/// 1 ... 256          who sits on a seat, or recovers it
/// from firstLife on  who is alive; such a byte is locked by one holder in the file's whole life
/// ```
/// The file is never deleted: two processes with two files would not see each other.
final class SeatFile: Sendable {
    private static let preparing: Int64 = 0
    private static let firstSeat: Int64 = 1
    /// A life that nobody lives.
    static let nobody: Int64 = 1 << 20
    private static let lives = (nobody + 1)...(1 << 62)

    private static let headerSize = 64
    /// In the header, behind what ``SeatFileHeader`` reads.
    private static let bellOffset = 32
    static let size = headerSize + ProcessSlot.limit * SeatRecord.stride

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

    func withRecord<R>(_ seat: Int, _ body: (borrowing SeatRecord) -> R) -> R {
        precondition((0..<ProcessSlot.limit).contains(seat))
        let place = memory.start + Self.headerSize + seat * SeatRecord.stride
        return body(place.assumingMemoryBound(to: SeatRecord.self).pointee)
    }

    /// The words of a record, read from a file that is not mapped; zeros where it is too short.
    static func record(ofSeat seat: Int, in file: OpenFile) -> [Int64] {
        var words = [Int64](repeating: 0, count: SeatRecord.stride / 8)
        let offset = headerSize + seat * SeatRecord.stride
        _ = words.withUnsafeMutableBytes { try? file.read(into: $0, at: offset) }
        return words
    }

    /// Rung by every store that has the file open.
    ///
    /// The kernel's own word of a changed file comes too early: SQLite writes and syncs the log first and makes the commit
    /// visible afterwards, in shared memory, of which there is no word at all. A look in between finds nothing, and nothing
    /// would call for another. So the one who commits rings, afterwards. One who dies in between is told of by its death.
    var bell: SharedCounter { SharedCounter(at: memory.start + Self.bellOffset) }

    static func lock(ofSeat seat: Int) -> Int64 { firstSeat + Int64(seat) }

    static func newLife() -> Int64 {
        var generator = Randomness()
        return Int64.random(in: lives, using: &generator)
    }

    // MARK: - Preparing

    private static func prepare(_ path: String, _ file: OpenFile) throws(HandlerError) {
        let header = SeatFileHeader.current()
        // Without the lock first: the usual start must wait for nobody, not even for a stopped process.
        if isReady(file, header) { return }
        try withSystemErrors(path) { () throws(Errno) in try file.lock(byte: preparing) }
        defer { file.unlock(byte: preparing) }
        if isReady(file, header) { return }
        try SeatFileHeader.stored(in: file).check(path)
        guard isOurs(file) else { throw SeatFileErrors.foreign(path) }
        guard !file.isLockedElsewhere(byte: firstSeat, length: 0) else { throw SeatFileErrors.damaged(path) }
        try withSystemErrors(path) { () throws(Errno) in try write(header, to: file) }
    }

    private static func isReady(_ file: OpenFile, _ header: SeatFileHeader) -> Bool {
        (try? file.status())?.size == Int64(size) && SeatFileHeader.stored(in: file) == header
    }

    /// Whether the file is no longer than this library makes it, and holds what records can hold, also where the writer was
    /// interrupted or a loss of power left zeros.
    private static func isOurs(_ file: OpenFile) -> Bool {
        var words = [Int64](repeating: 0, count: size / 8 + 1)
        let count = words.withUnsafeMutableBytes { try? file.read(into: $0, at: 0) }
        guard let count, count <= size else { return false }
        return (0..<ProcessSlot.limit).allSatisfy { seat in
            let start = (headerSize + seat * SeatRecord.stride) / 8
            return SeatRecord.isPossible(words[start..<start + SeatRecord.stride / 8])
        }
    }

    /// A file without a header.
    private static var image: [Int64] {
        [Int64](repeating: 0, count: headerSize / 8)
            + (0..<ProcessSlot.limit).flatMap { _ in SeatRecord.unknown }
    }

    /// Writes every byte, for a hole in a mapped file is a SIGBUS when the disk is full; the header last. What a full disk
    /// left has no header and is written again.
    private static func write(_ header: SeatFileHeader, to file: OpenFile) throws(Errno) {
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
        do throws(Errno) { return try body() } catch { throw SeatFileErrors.failed(path, error) }
    }
}
