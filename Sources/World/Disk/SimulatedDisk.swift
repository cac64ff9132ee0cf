import HandlersTestKit

/// A disk in memory with scripted faults and power losses.
///
/// One thread uses it. SQLite reaches it through a virtual file system (``SQLiteFileSystem``).
///
/// ```swift
/// let disk = SimulatedDisk(seed: 7)
/// disk.onCall = { call in call.kind == .sync ? .ioError : nil }
/// disk.losePower()
/// ```
package final class SimulatedDisk {
    /// A call of a process to the disk.
    package struct Call: Hashable, Sendable {
        package enum Kind: String, Hashable, Sendable, CaseIterable {
            case open, read, write, resize, sync, size, delete, lookup, lock, mapMemory = "map-memory",
                lockMemory = "lock-memory"
        }

        package var kind: Kind
        /// The file's path; empty for a file without a name.
        package var path: String
        /// The offset of a read or a write.
        package var offset = 0
        /// The number of bytes to read or write, or the new size.
        package var count = 0
    }

    /// The fault that replaces the effect of a call.
    package enum Fault: String, Hashable, Sendable, CaseIterable {
        /// EIO. After a failed sync, nothing is certainly on the medium, and no later sync writes those changes.
        case ioError = "io-error"
        /// ENOSPC; a write keeps its first half.
        case full
        /// Another handle holds the lock.
        case busy
    }

    /// A process that uses the disk. The calls of a dead one have no effect, and it holds no locks.
    ///
    /// `@unchecked Sendable`: one thread uses it.
    package final class Process: @unchecked Sendable {
        package let name: String
        package internal(set) var isDead = false
        /// Whether its code is stopped at the moment.
        package var isFrozen = false
        /// How far the clock of a dead process is ahead, in nanoseconds, so that its pending waits end at once.
        var ghostTime: Int64 = 0
        /// Whether other processes ignore its locks.
        let isObserver: Bool
        init(_ name: String, isObserver: Bool = false) { (self.name, self.isObserver) = (name, isObserver) }
    }

    private(set) var files: [String: DiskFile] = [:]
    /// The number of the machine's current boot.
    package private(set) var boot = 1
    /// Files that were deleted without a sync of the folder. A power loss may bring them back.
    private var deleted: [String: DiskFile] = [:]
    private var random: SeededGenerator
    /// The number of the last file without a name. Such a file is stored here under a name with its number.
    private var lastUnnamed = 0
    /// The handles of live processes.
    var handles: [DiskHandle] = []
    /// The indexes of write-ahead logs, by the path of the database.
    var memories: [String: WALIndexMemory] = [:]
    /// Grows whenever a file or the index of a log may have changed.
    private(set) var activity = 0
    /// The process whose code is running.
    package var current: Process?
    /// Returns the fault for a call, or nil. It may kill the calling process.
    package var onCall: ((Call) -> Fault?)?
    /// The maximum total size of all files, in bytes; nil for no limit.
    package var capacity: Int?

    package init(seed: UInt64) { random = SeededGenerator(seed: seed) }

    // MARK: Processes

    package func startProcess(_ name: String) -> Process { Process(name) }

    /// Starts a process that reads the files and has no effect on the others.
    func startObserver() -> Process { Process("observer", isObserver: true) }

    /// Kills a process: its earlier writes stay, and its later calls have no effect.
    package func kill(_ process: Process) {
        process.isDead = true
        for handle in handles where handle.process === process { handle.leaveMemory() }
        handles.removeAll { $0.process === process }
        if process.isObserver { return }
        activity += 1
        for path in memories.keys.sorted() { dropMemory(of: path) }
    }

    /// Drops the index of a log that only observers still use.
    func dropMemory(of path: String) {
        guard let memory = memories[path] else { return }
        let users = handles.filter { $0.memory === memory }
        if !users.contains(where: { !$0.process.isObserver }) { memories[path] = nil }
    }

    /// Records that a process may have changed the index of a log.
    func memoryChanged() { activity += 1 }

    /// Kills all processes, and keeps of the files only the synced part and some of the later changes.
    package func losePower() {
        boot += 1
        for handle in handles { kill(handle.process) }
        activity += 1
        memories = [:]
        let sector = Bool.random(using: &random) ? 512 : 4096
        for (path, file) in deleted.sorted(by: { $0.key < $1.key }) where files[path] == nil {
            if Bool.random(using: &random) { files[path] = file }
        }
        deleted = [:]
        for path in files.keys.sorted() {
            guard var file = files.removeValue(forKey: path) else { continue }
            if path.hasPrefix("/unnamed/") { continue }
            if file.losePower(sector: sector, using: &random) { files[path] = file }
        }
    }

    // MARK: Files

    /// Changes one random bit of a file, as a failing medium does.
    ///
    /// - Returns: The number of the bit, counted from the lowest bit of the first byte; nil for an empty file.
    @discardableResult
    package func flipBit(of path: String) -> Int? {
        let bits = size(of: path) * 8
        guard bits > 0 else { return nil }
        let bit = Int.random(in: 0..<bits, using: &random)
        _ = change(path) { $0.flip(bit: bit) }
        return bit
    }

    func contains(_ path: String) -> Bool { files[path] != nil }

    func size(of path: String) -> Int { files[path]?.content.count ?? 0 }

    func create(_ path: String) { if files[path] == nil { files[path] = DiskFile() } }

    func makeUnnamed() -> String {
        lastUnnamed += 1
        let path = "/unnamed/\(lastUnnamed)"
        create(path)
        return path
    }

    func delete(_ path: String, isDurable: Bool) {
        activity += 1
        guard let file = files.removeValue(forKey: path), !isDurable else { return }
        deleted[path] = file
    }

    func sync(_ path: String) {
        // As in SQLite's own file system, the first sync of a new file also syncs the folder, and so makes deletions final.
        if files[path]?.isNameDurable == false { deleted = [:] }
        _ = change(path) { $0.sync() }
    }

    func change<Value>(_ path: String, _ body: (inout DiskFile) -> Value) -> Value? {
        // Without the default, Swift would copy the file.
        files[path] == nil ? nil : body(&files[path, default: DiskFile()])
    }

    /// Changes the content that processes read.
    func edit(_ path: String, _ body: (inout DiskFile) -> Void) {
        activity += 1
        _ = change(path, body)
    }

    /// The total size of all files, in bytes.
    package var used: Int { files.values.reduce(0) { $0 + $1.content.count } }

    /// Returns how many of `count` bytes may be written at `offset`.
    func room(for count: Int, at offset: Int, of path: String) -> Int {
        guard let capacity else { return count }
        let grows = offset + count - size(of: path)
        guard grows > 0 else { return count }
        return max(0, count - max(0, used + grows - capacity))
    }

    // MARK: Calls

    /// Decides the fault of a process's call.
    ///
    /// - Returns: The fault; nil for none.
    func fault(_ call: Call, of process: Process) -> Fault? {
        if process.isDead { return .ioError }
        let fault = onCall?(call)
        return process.isDead ? .ioError : fault
    }
}
