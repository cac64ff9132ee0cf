import Platform

/// A process that has a store open: one of this machine that has a file open, or a node of a database of PostgreSQL.
///
/// ```swift
/// for process in StoreProcess.all(of: "app.db") { print(process.slot, process.processID) }
/// ```
package struct StoreProcess: Hashable, Sendable {
    /// What the database knows about the life of a node.
    package enum Life: String, Sendable {
        case alive
        /// It has not renewed its lease in time: it is frozen, cut off, or has died.
        case late
        /// It has died. What it held waits for a node that frees it.
        case dead
    }

    /// Slot of the process, from 0, or the number of the node; a handler's lease names it.
    package let slot: Int
    /// Its id, as itself sees it: in another container it means another process. Nil for a node.
    package let processID: Int32?
    /// The handler that it runs at this moment; nil for none.
    package let handler: AnyHandlerID?
    /// Nil for a process that has a file open: those that died are not among them.
    package let life: Life?
    /// The `application_name` of the node's connection; nil without a connection.
    package let application: String?
    /// The network address of the node's machine; nil where it is not known, as with a local socket.
    package let address: String?
    /// By how many milliseconds the clock of a node's machine is ahead of the server's; nil where that is not known.
    package let clockAhead: Int64?

    /// Describes a node.
    package init(
        node: Int, handler: AnyHandlerID?, life: Life, application: String?, address: String?,
        clockAhead: Int64?
    ) {
        slot = node
        processID = nil
        self.handler = handler
        self.life = life
        self.application = application
        self.address = address
        self.clockAhead = clockAhead
    }

    /// Returns the processes of a file whose slots are locked; none where no process has had it open since the machine started, as with
    /// a copy. Asking about a lock neither takes it nor waits for it.
    package static func all(of path: String) -> [StoreProcess] {
        guard let file = PrivateFile.openToRead(FileSystem.resolved(path) + "-processes"),
            SlotFileHeader.stored(in: file) == .current()
        else { return [] }
        return (0..<ProcessSlot.limit).compactMap { slot in
            guard file.isLockedElsewhere(byte: SlotFile.lock(ofSlot: slot)) else { return nil }
            return StoreProcess(slot: slot, record: SlotFile.record(ofSlot: slot, in: file))
        }
    }

    /// - Parameter record: The words of ``SlotRecord``.
    private init(slot: Int, record: [Int64]) {
        self.slot = slot
        processID = Int32(truncatingIfNeeded: record[2])
        handler = record[3] == 0 ? nil : AnyHandlerID(rawValue: record[3])
        life = nil
        application = nil
        address = nil
        clockAhead = nil
    }
}
