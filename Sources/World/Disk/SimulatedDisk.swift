import HandlersTestKit

/// A disk in memory, whose calls fail and whose power is lost as told.
///
/// One thread uses it. SQLite reaches it through a virtual file system (``SQLiteFileSystem``).
///
/// ```swift
/// let disk = SimulatedDisk(seed: 7)
/// disk.onCall = { call in call.kind == .sync ? .ioError : nil }
/// disk.losePower()
/// ```
package final class SimulatedDisk {
    /// A call that a process makes.
    package struct Call: Hashable, Sendable {
        package enum Kind: String, Hashable, Sendable, CaseIterable {
            case open, read, write, resize, sync, size, delete, lookup, lock, mapMemory = "map-memory",
                lockMemory = "lock-memory"
        }

        package var kind: Kind
        /// The file; empty for one without a name.
        package var path: String
        /// Where the call reads or writes.
        package var offset = 0
        /// The number of bytes it reads or writes, or the new size.
        package var count = 0
    }

    /// What a call does instead of what it is asked.
    package enum Fault: String, Hashable, Sendable, CaseIterable {
        /// EIO. A sync that fails so has written nothing for certain, and no later sync makes up for it.
        case ioError = "io-error"
        /// ENOSPC; a write keeps its first half.
        case full
        /// The lock is held by somebody else.
        case busy
    }

    /// A process that uses the disk. A dead one reaches nothing any more, and holds nothing.
    ///
    /// `@unchecked Sendable`: one thread uses it.
    package final class Process: @unchecked Sendable {
        package let name: String
        package internal(set) var isDead = false
        /// Whether its code does not run at the moment.
        package var isFrozen = false
        /// How far the clock of a dead process is ahead, in nanoseconds: nothing keeps it waiting.
        var ghostTime: Int64 = 0
        /// Whether its locks hold nobody up.
        let isObserver: Bool
        init(_ name: String, isObserver: Bool = false) { (self.name, self.isObserver) = (name, isObserver) }
    }

    private(set) var files: [String: DiskFile] = [:]
    /// Number of the running boot of the machine.
    package private(set) var boot = 1
    /// Files whose name was deleted without a sync of the folder: a loss of power may bring them back.
    private var deleted: [String: DiskFile] = [:]
    private var random: SeededGenerator
    /// Files without a name, by the number in the name that they have here.
    private var lastUnnamed = 0
    /// The handles of live processes.
    var handles: [DiskHandle] = []
    /// The indexes of write-ahead logs, by the database.
    var memories: [String: WALIndexMemory] = [:]
    /// Grows whenever a file may have changed, or the index of a log.
    private(set) var activity = 0
    /// The process whose code runs now.
    package var current: Process?
    /// Decides what becomes of each call; it may kill the process that makes it.
    package var onCall: ((Call) -> Fault?)?
    /// The bytes that all files may have together; nil for no limit.
    package var capacity: Int?

    package init(seed: UInt64) { random = SeededGenerator(seed: seed) }

    // MARK: Processes

    package func startProcess(_ name: String) -> Process { Process(name) }

    /// Starts a process that reads beside the others as if it were not there.
    func startObserver() -> Process { Process("observer", isObserver: true) }

    /// Kills a process: what it has written stays, and what it does from now on has no effect.
    package func kill(_ process: Process) {
        process.isDead = true
        for handle in handles where handle.process === process { handle.leaveMemory() }
        handles.removeAll { $0.process === process }
        if process.isObserver { return }
        activity += 1
        for path in memories.keys.sorted() { dropMemory(of: path) }
    }

    /// Forgets the index of a log that no process but an observer has.
    func dropMemory(of path: String) {
        guard let memory = memories[path] else { return }
        let users = handles.filter { $0.memory === memory }
        if !users.contains(where: { !$0.process.isObserver }) { memories[path] = nil }
    }

    /// Records that a process may have changed the index of a log.
    func memoryChanged() { activity += 1 }

    /// Ends all processes, and leaves of the files what was synced and some of the rest.
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

    /// Changes one bit of a file, chosen at random, as a medium does that forgets.
    ///
    /// - Returns: Its number, counted from the first byte's lowest bit; nil for an empty file.
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
        // As SQLite's own file system does: the first sync of a new file syncs the folder, and so what was deleted in it.
        if files[path]?.isNameDurable == false { deleted = [:] }
        _ = change(path) { $0.sync() }
    }

    func change<Value>(_ path: String, _ body: (inout DiskFile) -> Value) -> Value? {
        // Without the default, the file would be copied.
        files[path] == nil ? nil : body(&files[path, default: DiskFile()])
    }

    /// Changes what processes read of a file.
    func edit(_ path: String, _ body: (inout DiskFile) -> Void) {
        activity += 1
        _ = change(path, body)
    }

    /// The bytes of all files.
    package var used: Int { files.values.reduce(0) { $0 + $1.content.count } }

    /// How many of so many bytes a write at `offset` may add.
    func room(for count: Int, at offset: Int, of path: String) -> Int {
        guard let capacity else { return count }
        let grows = offset + count - size(of: path)
        guard grows > 0 else { return count }
        return max(0, count - max(0, used + grows - capacity))
    }

    // MARK: Calls

    /// Asks what becomes of a call of a process.
    ///
    /// - Returns: The fault; nil for none.
    func fault(_ call: Call, of process: Process) -> Fault? {
        if process.isDead { return .ioError }
        let fault = onCall?(call)
        return process.isDead ? .ioError : fault
    }
}
