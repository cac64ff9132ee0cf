import CSQLite
package import Handlers
import Platform
import Synchronization

/// SQLite's virtual file system on a simulated disk, which also gives the store its view of the files.
///
/// Source: https://www.sqlite.org/vfs.html
///
/// ```swift
/// let files = SQLiteFileSystem(SimulatedDisk(seed: 7))
/// let system = SystemServices(files: files)
/// ```
///
/// `@unchecked Sendable`: one thread uses the disk.
package final class SQLiteFileSystem: StoreFiles, @unchecked Sendable {
    package let disk: SimulatedDisk
    /// Milliseconds since 1970.
    private let clock: () -> Int64
    /// Lets a number of microseconds pass.
    private let wait: (UInt32) -> Void
    private let fileSystem: UnsafeMutablePointer<sqlite3_vfs>
    private let name: UnsafeMutablePointer<CChar>
    /// Gives each file system of the process its own name.
    private static let lastNumber = Atomic(0)

    /// Registers the file system with SQLite until this object is released.
    ///
    /// Release it after all connections to its files.
    ///
    /// - Parameters:
    ///   - clock: Milliseconds since 1970.
    ///   - wait: Lets a number of microseconds pass while SQLite waits for a lock.
    package init(
        _ disk: SimulatedDisk, clock: @escaping () -> Int64 = { 0 },
        wait: @escaping (UInt32) -> Void = { _ in }
    ) {
        self.disk = disk
        self.clock = clock
        self.wait = wait
        let text = "disk-\(Self.lastNumber.wrappingAdd(1, ordering: .relaxed).newValue)"
        let bytes = text.utf8CString
        name = .allocate(capacity: bytes.count)
        _ = UnsafeMutableBufferPointer(start: name, count: bytes.count).update(from: bytes)
        fileSystem = .allocate(capacity: 1)
        fileSystem.initialize(to: Self.table)
        fileSystem.pointee.zName = UnsafePointer(name)
        fileSystem.pointee.pAppData = Unmanaged.passUnretained(self).toOpaque()
        sqlite3_vfs_register(fileSystem, 0)
    }

    deinit {
        sqlite3_vfs_unregister(fileSystem)
        fileSystem.deallocate()
        name.deallocate()
    }

    // MARK: StoreFiles

    package var virtualFileSystem: String? { String(cString: name) }

    package func prepare(_ path: String) throws(HandlerError) {
        try look(.open, path)
        disk.create(path)
    }

    package func makePrivate(_ path: String) -> Bool { false }

    package func checkReadable(_ path: String) throws(HandlerError) {
        try look(.lookup, path)
        guard disk.contains(path) else {
            throw HandlerError(.databaseUnavailable, "the store \(path) cannot be read (it does not exist)")
        }
    }

    package func number(of path: String) -> Int64? { disk.contains(path) ? 1 : nil }

    package func pause(microseconds: UInt32) { wait(microseconds) }

    private func look(_ kind: SimulatedDisk.Call.Kind, _ path: String) throws(HandlerError) {
        guard let process = disk.current, disk.fault(.init(kind: kind, path: path), of: process) == nil else {
            throw HandlerError(
                .databaseUnavailable, "the database \(path) cannot be opened (input/output error)")
        }
    }

    // MARK: SQLite's table

    /// SQLite's record of an open file.
    private struct File {
        var base: sqlite3_file
        var handle: Unmanaged<DiskHandle>?
    }

    private static func handle(_ file: UnsafeMutablePointer<sqlite3_file>?) -> DiskHandle? {
        UnsafeMutableRawPointer(file)?.assumingMemoryBound(to: File.self).pointee.handle?
            .takeUnretainedValue()
    }

    private static func owner(_ fileSystem: UnsafeMutablePointer<sqlite3_vfs>?) -> SQLiteFileSystem? {
        fileSystem?.pointee.pAppData.map { Unmanaged.fromOpaque($0).takeUnretainedValue() }
    }

    private static var table: sqlite3_vfs {
        var table = sqlite3_vfs()
        table.iVersion = 2
        table.szOsFile = Int32(MemoryLayout<File>.stride)
        table.mxPathname = 512
        table.xOpen = { SQLiteFileSystem.open($0, $1, $2, $3, $4) }
        table.xDelete = { fileSystem, name, isDurable in
            guard let owner = SQLiteFileSystem.owner(fileSystem), let name else { return IOError.delete }
            return owner.delete(String(cString: name), isDurable: isDurable != 0)
        }
        table.xAccess = { fileSystem, name, _, found in
            guard let owner = SQLiteFileSystem.owner(fileSystem), let name else { return IOError.access }
            return owner.access(String(cString: name), found)
        }
        table.xFullPathname = { _, name, size, result in
            guard let name, let result else { return SQLITE_CANTOPEN }
            let bytes = UnsafeBufferPointer(start: name, count: String(cString: name).utf8.count + 1)
            guard bytes.count <= size else { return SQLITE_CANTOPEN }
            _ = UnsafeMutableBufferPointer(start: result, count: Int(size)).update(from: bytes)
            return SQLITE_OK
        }
        table.xRandomness = { _, count, bytes in
            guard let bytes else { return 0 }
            let random = Randomness.replacedBytes(Int(count)) ?? [UInt8](repeating: 7, count: Int(count))
            random.withUnsafeBytes {
                UnsafeMutableRawPointer(bytes).copyMemory(from: $0.baseAddress!, byteCount: $0.count)
            }
            return count
        }
        table.xSleep = { fileSystem, microseconds in
            SQLiteFileSystem.owner(fileSystem)?.wait(UInt32(max(0, microseconds)))
            return microseconds
        }
        table.xCurrentTime = { fileSystem, days in
            days?.pointee = Double(SQLiteFileSystem.julian(fileSystem)) / 86_400_000
            return SQLITE_OK
        }
        table.xGetLastError = { _, _, _ in 0 }
        table.xCurrentTimeInt64 = { fileSystem, milliseconds in
            milliseconds?.pointee = SQLiteFileSystem.julian(fileSystem)
            return SQLITE_OK
        }
        return table
    }

    /// Milliseconds since the start of the Julian period.
    private static func julian(_ fileSystem: UnsafeMutablePointer<sqlite3_vfs>?) -> Int64 {
        210_866_760_000_000 + (owner(fileSystem)?.clock() ?? 0)
    }

    // MARK: Names

    private static func open(
        _ fileSystem: UnsafeMutablePointer<sqlite3_vfs>?, _ name: UnsafePointer<CChar>?,
        _ file: UnsafeMutablePointer<sqlite3_file>?, _ flags: Int32, _ given: UnsafeMutablePointer<Int32>?
    ) -> Int32 {
        guard let file, let owner = owner(fileSystem), let process = owner.disk.current else {
            return SQLITE_CANTOPEN
        }
        // SQLite also closes a file that could not be opened, if it has methods.
        file.pointee.pMethods = nil
        let disk = owner.disk
        let path = name.map { String(cString: $0) }
        switch disk.fault(.init(kind: .open, path: path ?? ""), of: process) {
        case nil: break
        case .full: return SQLITE_FULL
        default: return SQLITE_CANTOPEN
        }
        if let path, !disk.contains(path) {
            guard flags & SQLITE_OPEN_CREATE != 0 else { return SQLITE_CANTOPEN }
            disk.create(path)
        }
        let handle = DiskHandle(
            disk, path ?? disk.makeUnnamed(), process,
            isDeletedAtClose: flags & SQLITE_OPEN_DELETEONCLOSE != 0)
        UnsafeMutableRawPointer(file).assumingMemoryBound(to: File.self).pointee.handle = .passRetained(
            handle)
        file.pointee.pMethods = methods
        given?.pointee = flags
        return SQLITE_OK
    }

    private func delete(_ path: String, isDurable: Bool) -> Int32 {
        guard let process = disk.current, disk.fault(.init(kind: .delete, path: path), of: process) == nil
        else {
            return IOError.delete
        }
        guard disk.contains(path) else { return IOError.missing }
        disk.delete(path, isDurable: isDurable)
        return SQLITE_OK
    }

    private func access(_ path: String, _ found: UnsafeMutablePointer<Int32>?) -> Int32 {
        guard let process = disk.current, disk.fault(.init(kind: .lookup, path: path), of: process) == nil
        else {
            return IOError.access
        }
        // SQLite's own file systems do not count an empty file, such as a journal without content, as present.
        found?.pointee = disk.size(of: path) > 0 ? 1 : 0
        return SQLITE_OK
    }

    // MARK: Files

    /// One method table for all files of all disks.
    nonisolated(unsafe) private static let methods: UnsafePointer<sqlite3_io_methods> = {
        var table = sqlite3_io_methods()
        table.iVersion = 2
        table.xClose = { file in
            guard let file, let handle = SQLiteFileSystem.handle(file) else { return SQLITE_OK }
            handle.close()
            UnsafeMutableRawPointer(file).assumingMemoryBound(to: File.self).pointee.handle?.release()
            return SQLITE_OK
        }
        table.xRead = { SQLiteFileSystem.read($0, $1, $2, $3) }
        table.xWrite = { SQLiteFileSystem.write($0, $1, $2, $3) }
        table.xTruncate = { SQLiteFileSystem.truncate($0, $1) }
        table.xSync = { file, _ in SQLiteFileSystem.sync(file) }
        table.xFileSize = { SQLiteFileSystem.size($0, $1) }
        table.xLock = { file, level in
            SQLiteFileSystem.locking(file) { $0.lock(level) }
        }
        table.xUnlock = { file, level in
            SQLiteFileSystem.handle(file)?.unlock(to: level)
            return SQLITE_OK
        }
        table.xCheckReservedLock = { file, result in
            result?.pointee = SQLiteFileSystem.handle(file)?.isReserved == true ? 1 : 0
            return SQLITE_OK
        }
        table.xFileControl = { SQLiteFileSystem.control($0, $1, $2) }
        table.xSectorSize = { _ in 4096 }
        table.xDeviceCharacteristics = { _ in SQLITE_IOCAP_POWERSAFE_OVERWRITE }
        table.xShmMap = { SQLiteFileSystem.map($0, $1, $2, $3, $4) }
        table.xShmLock = { SQLiteFileSystem.lockMemory($0, $1, $2, $3) }
        table.xShmBarrier = { SQLiteFileSystem.handle($0)?.disk.memoryChanged() }
        table.xShmUnmap = { file, _ in
            SQLiteFileSystem.handle(file)?.unmap()
            return SQLITE_OK
        }
        let place = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
        place.initialize(to: table)
        return UnsafePointer(place)
    }()

    private static func read(
        _ file: UnsafeMutablePointer<sqlite3_file>?, _ buffer: UnsafeMutableRawPointer?, _ count: Int32,
        _ offset: Int64
    ) -> Int32 {
        guard let handle = handle(file), let buffer else { return IOError.read }
        // No fault shortens a read: SQLite's own file system repeats short reads, and SQLite takes a short read for the end of the
        // file.
        guard handle.fault(.read, offset: Int(offset), count: Int(count)) == nil else { return IOError.read }
        let read = handle.disk.change(handle.path) { file in
            let found = (Int(offset)..<Int(offset) + Int(count)).clamped(to: 0..<file.content.count)
            // A range beyond the end is clamped to an empty one.
            file.content.withUnsafeBytes { all in
                if !found.isEmpty {
                    buffer.copyMemory(from: all.baseAddress! + found.lowerBound, byteCount: found.count)
                }
            }
            return found.count
        }
        guard let read else { return IOError.read }
        if read == Int(count) { return SQLITE_OK }
        (buffer + read).initializeMemory(as: UInt8.self, repeating: 0, count: Int(count) - read)
        return IOError.shortRead
    }

    private static func write(
        _ file: UnsafeMutablePointer<sqlite3_file>?, _ bytes: UnsafeRawPointer?, _ count: Int32,
        _ offset: Int64
    ) -> Int32 {
        guard let handle = handle(file), let bytes else { return IOError.write }
        let fault = handle.fault(.write, offset: Int(offset), count: Int(count))
        if handle.process.isDead || fault == .ioError { return IOError.write }
        let room =
            fault == .full
            ? Int(count) / 2 : handle.disk.room(for: Int(count), at: Int(offset), of: handle.path)
        handle.disk.edit(handle.path) { file in
            file.write(UnsafeRawBufferPointer(start: bytes, count: room), at: Int(offset))
        }
        return room == Int(count) ? SQLITE_OK : SQLITE_FULL
    }

    private static func truncate(_ file: UnsafeMutablePointer<sqlite3_file>?, _ size: Int64) -> Int32 {
        guard let handle = handle(file), handle.fault(.resize, count: Int(size)) == nil else {
            return IOError.truncate
        }
        handle.disk.edit(handle.path) { $0.resize(to: Int(size)) }
        return SQLITE_OK
    }

    private static func sync(_ file: UnsafeMutablePointer<sqlite3_file>?) -> Int32 {
        guard let handle = handle(file) else { return IOError.sync }
        guard handle.fault(.sync) == nil else {
            // A killed process loses nothing of what it had written before.
            if !handle.process.isDead { _ = handle.disk.change(handle.path) { $0.failSync() } }
            return IOError.sync
        }
        handle.disk.sync(handle.path)
        return SQLITE_OK
    }

    private static func size(
        _ file: UnsafeMutablePointer<sqlite3_file>?, _ result: UnsafeMutablePointer<Int64>?
    ) -> Int32 {
        guard let handle = handle(file), handle.fault(.size) == nil else { return IOError.size }
        result?.pointee = Int64(handle.disk.size(of: handle.path))
        return SQLITE_OK
    }

    private static func control(
        _ file: UnsafeMutablePointer<sqlite3_file>?, _ operation: Int32, _ argument: UnsafeMutableRawPointer?
    ) -> Int32 {
        guard operation == SQLITE_FCNTL_HAS_MOVED, let handle = handle(file) else { return SQLITE_NOTFOUND }
        argument?.assumingMemoryBound(to: Int32.self).pointee = handle.disk.contains(handle.path) ? 0 : 1
        return SQLITE_OK
    }

    // MARK: Locks

    private static func locking(
        _ file: UnsafeMutablePointer<sqlite3_file>?, _ kind: SimulatedDisk.Call.Kind = .lock,
        _ body: (DiskHandle) -> Bool
    ) -> Int32 {
        guard let handle = handle(file) else { return IOError.lock }
        switch handle.fault(kind) {
        case nil: return body(handle) ? SQLITE_OK : SQLITE_BUSY
        case .busy: return SQLITE_BUSY
        default: return kind == .lock ? IOError.lock : IOError.lockMemory
        }
    }

    private static func map(
        _ file: UnsafeMutablePointer<sqlite3_file>?, _ region: Int32, _ size: Int32, _ extends: Int32,
        _ result: UnsafeMutablePointer<UnsafeMutableRawPointer?>?
    ) -> Int32 {
        result?.pointee = nil
        guard let handle = handle(file), handle.fault(.mapMemory) == nil else { return IOError.mapMemory }
        do throws(Errno) {
            result?.pointee = try handle.map(region: Int(region), size: Int(size), extends: extends != 0)
            return SQLITE_OK
        } catch {
            return IOError.mapMemory
        }
    }

    private static func lockMemory(
        _ file: UnsafeMutablePointer<sqlite3_file>?, _ first: Int32, _ count: Int32, _ flags: Int32
    ) -> Int32 {
        let mask = ((UInt32(1) << UInt32(count)) - 1) << UInt32(first)
        if flags & SQLITE_SHM_UNLOCK != 0 {
            handle(file)?.unlockMemory(mask)
            return SQLITE_OK
        }
        return locking(file, .lockMemory) {
            $0.lockMemory(mask, exclusively: flags & SQLITE_SHM_EXCLUSIVE != 0)
        }
    }
}

/// SQLite's codes of input and output errors, which are macros that Swift does not import.
private enum IOError {
    static let read = SQLITE_IOERR | 1 << 8
    static let shortRead = SQLITE_IOERR | 2 << 8
    static let write = SQLITE_IOERR | 3 << 8
    static let sync = SQLITE_IOERR | 4 << 8
    static let truncate = SQLITE_IOERR | 6 << 8
    static let size = SQLITE_IOERR | 7 << 8
    static let delete = SQLITE_IOERR | 10 << 8
    static let access = SQLITE_IOERR | 13 << 8
    static let lock = SQLITE_IOERR | 15 << 8
    static let lockMemory = SQLITE_IOERR | 20 << 8
    static let mapMemory = SQLITE_IOERR | 21 << 8
    static let missing = SQLITE_IOERR | 23 << 8
}
