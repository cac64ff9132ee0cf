import CSQLite

/// The write-ahead log of an open database, as bytes; for the one that holds the write lock.
///
/// Source: https://www.sqlite.org/fileformat2.html, section 4, and https://www.sqlite.org/walformat.html, section 2.1.
struct WriteAheadLog {
    typealias Check = (_ code: Int32) throws(HandlerError) -> Void

    private let database: OpaquePointer
    /// The bytes of a frame: its header and a page.
    private let frameSize: Int

    private static let headerSize = 32
    private static let frameHeaderSize = 24
    /// The bytes that are written again at once, about.
    private static let pieceSize = 64 << 10

    init(of database: OpaquePointer, pageSize: Int64?) {
        self.database = database
        frameSize = Self.frameHeaderSize + Int(pageSize ?? 4096)
    }

    private typealias File = UnsafeMutablePointer<sqlite3_file>

    private func file(_ operation: Int32) -> (file: File, methods: sqlite3_io_methods)? {
        var file: File?
        sqlite3_file_control(database, "main", operation, &file)
        guard let file, let methods = file.pointee.pMethods?.pointee else { return nil }
        return (file, methods)
    }

    /// Writes the last transaction again, and the ones after it that only mark where a process has written so before, or all.
    ///
    /// Where commits are synced, everything before is on the disk: the process that recovers a dead one writes the end of the log
    /// again before it adds a transaction, and so does a store that is opened meanwhile. Each later transaction follows the sync of
    /// the one before.
    ///
    /// - Parameters:
    ///   - isWhole: Whether all of it is written.
    ///   - check: Throws for a code that is an error.
    /// - Returns: Whether there is a log.
    func writeAgain(isWhole: Bool, _ check: Check) throws(HandlerError) -> Bool {
        guard let (log, methods) = file(SQLITE_FCNTL_JOURNAL_POINTER) else { return false }
        var size: Int64 = 0
        try check(methods.xFileSize(log, &size))
        guard size >= Self.headerSize else { return size > 0 }
        let last = try lastFrame(check)
        let buffer = UnsafeMutableRawBufferPointer.allocate(
            byteCount: max(Self.pieceSize / frameSize, 1) * frameSize, alignment: 8)
        defer { buffer.deallocate() }
        func writeAgain(_ range: Range<Int64>) throws(HandlerError) {
            for start in stride(from: range.lowerBound, to: range.upperBound, by: buffer.count) {
                let count = Int32(min(Int64(buffer.count), range.upperBound - start))
                try check(methods.xRead(log, buffer.baseAddress, count, start))
                try check(methods.xWrite(log, buffer.baseAddress, count, start))
            }
        }
        /// The page of a frame, and whether a transaction ends with it.
        func frame(_ number: Int) throws(HandlerError) -> (page: UInt32, isLast: Bool) {
            try check(methods.xRead(log, buffer.baseAddress, 8, place(number)))
            return (buffer.bigEndian(at: 0), buffer.bigEndian(at: 4) != 0)
        }
        var first = isWhole ? 1 : last
        if last > 0 {
            var isMark = true
            while isMark, first > 1 {
                let page = try frame(first).page
                isMark = page == 1
                // Where a sector must be written whole, the last frame of a transaction is there several times.
                while first > 1 {
                    let before = try frame(first - 1)
                    if before.isLast && before.page != page { break }
                    if !before.isLast { isMark = false }
                    first -= 1
                }
                if isMark, first > 1 { first -= 1 }
            }
            try writeAgain(place(first)..<place(last + 1))
        }
        try writeAgain(0..<Int64(Self.headerSize))
        return true
    }

    /// The offset of a frame; the first one has the number 1.
    private func place(_ frame: Int) -> Int64 { Int64(Self.headerSize + (frame - 1) * frameSize) }

    /// The number of the last frame that was committed, as the connection has read it.
    func lastFrame(_ check: Check) throws(HandlerError) -> Int {
        guard let (file, methods) = file(SQLITE_FCNTL_FILE_POINTER) else { return 0 }
        let (index, code) = Self.index(file, methods)
        try check(code)
        return index.map { Int($0.load(fromByteOffset: 16, as: UInt32.self)) } ?? 0
    }

    /// The first region of the index, which the connection has mapped already.
    private static func index(
        _ file: File, _ methods: sqlite3_io_methods
    ) -> (UnsafeMutableRawPointer?, code: Int32) {
        var index: UnsafeMutableRawPointer?
        let code = methods.xShmMap(file, 0, 32 << 10, 0, &index)
        return (index, code)
    }

    /// Forgets that frames were copied into the database.
    ///
    /// - Returns: False while another connection copies some.
    func copyAllAgain() -> Bool {
        guard let (file, methods) = file(SQLITE_FCNTL_FILE_POINTER),
            case (let index?, SQLITE_OK) = Self.index(file, methods),
            methods.xShmLock(file, Self.checkpointLock, 1, SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE)
                == SQLITE_OK
        else { return false }
        index.storeBytes(of: 0, toByteOffset: Self.copiedFrames, as: UInt32.self)
        _ = methods.xShmLock(file, Self.checkpointLock, 1, SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE)
        return true
    }

    /// The lock of the one that copies frames.
    private static let checkpointLock: Int32 = 1
    /// The place in the index of the number of copied frames.
    private static let copiedFrames = 96
}

extension UnsafeMutableRawBufferPointer {
    fileprivate func bigEndian(at offset: Int) -> UInt32 {
        UInt32(bigEndian: loadUnaligned(fromByteOffset: offset, as: UInt32.self))
    }
}
