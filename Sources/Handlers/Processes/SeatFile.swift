import Glibc
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
    let descriptor: Int32
    /// Whether others had access to the file until it was opened.
    let wasNarrowed: Bool
    // Memory mapped for the whole life of this object, of atomic fields only.
    private nonisolated(unsafe) let memory: UnsafeMutableRawPointer

    /// - Parameter database: The database file.
    init(database: String) throws(HandlerError) {
        let path = database + "-processes"
        let (descriptor, wasNarrowed) = try PrivateFile.open(path, beside: database)
        do throws(HandlerError) {
            try Self.prepare(path, descriptor)
            memory = try Self.map(path, descriptor)
        } catch {
            close(descriptor)
            throw error
        }
        self.path = path
        self.descriptor = descriptor
        self.wasNarrowed = wasNarrowed
    }

    deinit {
        munmap(memory, Self.size)
        close(descriptor)
    }

    func withRecord<R>(_ seat: Int, _ body: (borrowing SeatRecord) -> R) -> R {
        precondition((0..<ProcessSlot.limit).contains(seat))
        let place = memory + Self.headerSize + seat * SeatRecord.stride
        return body(place.assumingMemoryBound(to: SeatRecord.self).pointee)
    }

    /// The words of a record, read from a file that is not mapped; zeros where it is too short.
    static func record(ofSeat seat: Int, in descriptor: Int32) -> [Int64] {
        var words = [Int64](repeating: 0, count: SeatRecord.stride / 8)
        let offset = headerSize + seat * SeatRecord.stride
        _ = words.withUnsafeMutableBytes { pread(descriptor, $0.baseAddress, $0.count, off_t(offset)) }
        return words
    }

    /// Rung by every store that has the file open.
    var bell: ChangeBell {
        let rings = (memory + Self.bellOffset).assumingMemoryBound(to: Atomic<UInt32>.self)
        return ChangeBell(rings: UnsafePointer(rings))
    }

    static func lock(ofSeat seat: Int) -> Int64 { firstSeat + Int64(seat) }

    static func newLife() -> Int64 { Int64.random(in: lives) }

    private static func map(_ path: String, _ descriptor: Int32) throws(HandlerError)
        -> UnsafeMutableRawPointer
    {
        let memory = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)
        guard let memory, memory != MAP_FAILED else { throw SeatFileErrors.failed(path, errno) }
        return memory
    }

    // MARK: - Preparing

    private static func prepare(_ path: String, _ descriptor: Int32) throws(HandlerError) {
        let header = SeatFileHeader.current()
        // Without the lock first: the usual start must wait for nobody, not even for a stopped process.
        if isReady(descriptor, header) { return }
        let refusal = OpenFileLock.waitForWriting(descriptor, preparing)
        guard refusal == 0 else { throw SeatFileErrors.failed(path, refusal) }
        defer { OpenFileLock.unlock(descriptor, preparing) }
        if isReady(descriptor, header) { return }
        try SeatFileHeader.stored(in: descriptor).check(path)
        guard isOurs(descriptor) else { throw SeatFileErrors.foreign(path) }
        guard !OpenFileLock.isHeldElsewhere(descriptor, firstSeat, length: 0) else {
            throw SeatFileErrors.damaged(path)
        }
        try write(path, descriptor, header)
    }

    private static func isReady(_ descriptor: Int32, _ header: SeatFileHeader) -> Bool {
        var status = stat()
        return fstat(descriptor, &status) == 0 && status.st_size == size
            && SeatFileHeader.stored(in: descriptor) == header
    }

    /// Whether the file is no longer than this library makes it, and holds what records can hold, also where the writer was
    /// interrupted or a loss of power left zeros.
    private static func isOurs(_ descriptor: Int32) -> Bool {
        var words = [Int64](repeating: 0, count: size / 8 + 1)
        let count = words.withUnsafeMutableBytes { pread(descriptor, $0.baseAddress, $0.count, 0) }
        guard count >= 0, count <= size else { return false }
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

    /// Writes every byte, for a hole in a mapped file is a SIGBUS when the disk is full; the header last.
    private static func write(
        _ path: String, _ descriptor: Int32, _ header: SeatFileHeader
    ) throws(HandlerError) {
        try write(path, descriptor, image)
        try write(path, descriptor, header.words)
    }

    private static func write(_ path: String, _ descriptor: Int32, _ words: [Int64]) throws(HandlerError) {
        let (count, code) = words.withUnsafeBytes {
            (pwrite(descriptor, $0.baseAddress, $0.count, 0), errno)
        }
        // A short write means that the disk is full; what it left has no header and is written again.
        guard count == words.count * 8 else { throw SeatFileErrors.failed(path, count < 0 ? code : ENOSPC) }
    }
}
