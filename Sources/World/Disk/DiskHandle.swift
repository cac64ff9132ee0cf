import CSQLite
import Platform

/// An open file of a process, with its locks.
final class DiskHandle {
    let disk: SimulatedDisk
    let path: String
    let process: SimulatedDisk.Process
    let isDeletedAtClose: Bool
    /// SQLite's lock level on the database file.
    private(set) var level = SQLITE_LOCK_NONE
    /// The index of the write-ahead log in shared memory, while it is mapped.
    private(set) var memory: WALIndexMemory?
    private var mappings: [SharedMemory.Mapping] = []
    /// The locks on that memory, one bit for each.
    private(set) var (shared, exclusive): (UInt32, UInt32) = (0, 0)

    init(_ disk: SimulatedDisk, _ path: String, _ process: SimulatedDisk.Process, isDeletedAtClose: Bool) {
        (self.disk, self.path, self.process) = (disk, path, process)
        self.isDeletedAtClose = isDeletedAtClose
        disk.handles.append(self)
    }

    func fault(_ kind: SimulatedDisk.Call.Kind, offset: Int = 0, count: Int = 0) -> SimulatedDisk.Fault? {
        disk.fault(.init(kind: kind, path: path, offset: offset, count: count), of: process)
    }

    func close() {
        leaveMemory()
        disk.handles.removeAll { $0 === self }
        if isDeletedAtClose && !process.isDead { disk.delete(path, isDurable: true) }
    }

    private var others: [DiskHandle] {
        disk.handles.filter { $0.path == path && $0 !== self && !$0.process.isObserver }
    }

    // MARK: The lock of the file

    /// Raises the lock level by the rules of SQLite's locking protocol.
    ///
    /// - Returns: False when another handle holds a conflicting lock.
    func lock(_ wanted: Int32) -> Bool {
        let highest = others.map(\.level).max() ?? SQLITE_LOCK_NONE
        switch wanted {
        case _ where wanted <= level: return true
        case SQLITE_LOCK_SHARED: if highest >= SQLITE_LOCK_PENDING { return false }
        case SQLITE_LOCK_RESERVED: if highest >= SQLITE_LOCK_RESERVED { return false }
        default:
            if highest >= SQLITE_LOCK_RESERVED { return false }
            // New readers are refused while the last ones finish.
            level = SQLITE_LOCK_PENDING
            if highest >= SQLITE_LOCK_SHARED { return false }
        }
        level = wanted
        return true
    }

    func unlock(to wanted: Int32) { level = min(level, wanted) }

    var isReserved: Bool { ([self] + others).contains { $0.level >= SQLITE_LOCK_RESERVED } }

    // MARK: The shared memory of the log

    /// Returns the address of a region of the write-ahead log's index.
    ///
    /// - Returns: Nil where the region does not exist and `extends` is false.
    func map(region: Int, size: Int, extends: Bool) throws(Errno) -> UnsafeMutableRawPointer? {
        let memory = self.memory ?? disk.memories[path] ?? WALIndexMemory()
        if !process.isObserver { disk.memories[path] = memory }
        self.memory = memory
        while memory.regions.count <= region {
            if !extends { return nil }
            memory.regions.append(try SharedMemory(size: size))
        }
        while mappings.count <= region { mappings.append(try memory.regions[mappings.count].map()) }
        return mappings[region].start
    }

    /// - Parameter mask: One bit for each lock.
    /// - Returns: False when another handle holds a conflicting lock.
    func lockMemory(_ mask: UInt32, exclusively: Bool) -> Bool {
        for other in others where other.memory === memory {
            if other.exclusive & mask != 0 || exclusively && other.shared & mask != 0 { return false }
        }
        if exclusively { exclusive |= mask } else { shared |= mask }
        return true
    }

    func unlockMemory(_ mask: UInt32) {
        exclusive &= ~mask
        shared &= ~mask
    }

    /// Maps for an observer the index that a process would see if it opened the database now: the shared one, or a new one.
    func renewMemory() throws(Errno) {
        if memory == nil { return }
        let memory = disk.memories[path] ?? WALIndexMemory()
        self.memory = memory
        for (number, mapping) in mappings.enumerated() {
            if disk.memories[path] == nil { memory.regions.append(try SharedMemory(size: mapping.size)) }
            // The log may be shorter now and have fewer regions.
            if number < memory.regions.count { try mapping.show(memory.regions[number]) }
        }
    }

    /// Unmaps the memory. It is dropped when no other process uses it.
    func unmap() {
        guard let memory else { return }
        self.memory = nil
        (shared, exclusive) = (0, 0)
        mappings = []
        if disk.memories[path] === memory { disk.dropMemory(of: path) }
    }

    /// Detaches the mappings of a killed process. SQLite can still read and write its mapped memory, but no other process sees it.
    func leaveMemory() {
        for mapping in mappings { try? mapping.detach() }
        (shared, exclusive, level) = (0, 0, SQLITE_LOCK_NONE)
    }
}

/// The index of a write-ahead log, shared by all processes that have the database open.
final class WALIndexMemory {
    var regions: [SharedMemory] = []
}
