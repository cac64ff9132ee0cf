import Platform

/// A process that has a store open.
///
/// ```swift
/// for process in StoreReader(path: "app.db").processes() { print(process.seat, process.processID) }
/// ```
public struct StoreProcess: Hashable, Sendable {
    /// Its seat among them, from 0; a handler's lease names it.
    public let seat: Int
    /// Its id, as itself sees it: in another container it means another process.
    public let processID: Int32
    /// The handler that it runs at this moment; nil for none.
    public let handler: HandlerID?

    /// Those whose seats are locked. Asking about a lock neither takes it nor waits for it.
    static func all(of path: String) -> [StoreProcess] {
        guard let file = PrivateFile.openToRead(FileSystem.resolved(path) + "-processes"),
            SeatFileHeader.stored(in: file) == .current()
        else { return [] }
        return (0..<ProcessSlot.limit).compactMap { seat in
            guard file.isLockedElsewhere(byte: SeatFile.lock(ofSeat: seat)) else { return nil }
            return StoreProcess(seat: seat, record: SeatFile.record(ofSeat: seat, in: file))
        }
    }

    /// - Parameter record: The words of ``SeatRecord``.
    private init(seat: Int, record: [Int64]) {
        self.seat = seat
        processID = Int32(truncatingIfNeeded: record[2])
        handler = record[3] == 0 ? nil : HandlerID(rawValue: record[3])
    }
}
