/// Bytes that wait to be sent: appended at the end, consumed from the front, never reordered.
struct OutputBuffer: Sendable {
    private var bytes: [UInt8] = []
    private var head = 0

    /// Below this many consumed bytes the rest is not moved to the front: moving costs more than the memory.
    private static let compactionThreshold = 64 * 1024

    var count: Int { bytes.count - head }
    var isEmpty: Bool { head == bytes.count }

    mutating func append(_ more: UnsafeRawBufferPointer) { bytes.append(contentsOf: more) }
    mutating func append(_ more: some Sequence<UInt8>) { bytes.append(contentsOf: more) }

    /// Appends bytes that are read as a whole or not at all, after their number: 4 bytes with the lowest first.
    mutating func append(record: UnsafeRawBufferPointer) -> Int {
        withUnsafeBytes(of: UInt32(record.count).littleEndian) { append($0) }
        append(record)
        return record.count
    }

    /// Lends what waits to `body`, which returns how many of them it took; those are dropped.
    mutating func consume(
        upTo limit: Int = .max, _ body: (UnsafeRawBufferPointer) throws(TransportError) -> Int
    ) throws(TransportError) -> Int {
        let taken = try bytes.withUnsafeBufferPointer { buffer throws(TransportError) in
            let waiting = UnsafeRawBufferPointer(
                rebasing: UnsafeRawBufferPointer(buffer)[head...].prefix(limit))
            return try body(waiting)
        }
        head += taken
        if isEmpty {
            bytes.removeAll(keepingCapacity: bytes.capacity <= OutputBuffer.compactionThreshold)
            head = 0
        } else if head >= OutputBuffer.compactionThreshold {
            bytes.removeSubrange(..<head)
            head = 0
        }
        return taken
    }

    mutating func removeAll() {
        bytes = []
        head = 0
    }
}
