import Platform

/// A process that has a store open.
///
/// ```swift
/// for process in StoreReader(path: "app.db").processes() { print(process.slot, process.processID) }
/// ```
package struct StoreProcess: Hashable, Sendable {
    /// Slot of the process, from 0; a handler's lease names it.
    package let slot: Int
    /// Its id, as itself sees it: in another container it means another process.
    package let processID: Int32
    /// The handler that it runs at this moment; nil for none.
    package let handler: AnyHandlerID?

    /// Those whose slots are locked. Asking about a lock neither takes it nor waits for it.
    static func all(of path: String) -> [StoreProcess] {
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
    }
}
