/// Elements that wait to be encrypted, grouped into the TLS records that will carry them.
///
/// A server drops a record that is cut off, so a record that ends with an element leaves no half element in the server's
/// parser. Elements share a record as far as they fit; one that is larger than a record gets records of its own.
struct RecordBuffer: Sendable {
    /// The most that one TLS record carries, in bytes (RFC 8446 section 5.1).
    static let recordLimit = 16 * 1024

    private var bytes = OutputBuffer()
    /// The sizes of the records to come, oldest first.
    private var sizes: [Int] = []
    /// Whether the last of them is the end of a large element, which shares its records with nothing.
    private var isSealed = false

    var count: Int { bytes.count }
    var isEmpty: Bool { bytes.isEmpty }

    /// - Parameter elements: Whole elements; as many as belong together.
    mutating func append(_ elements: UnsafeRawBufferPointer) {
        guard !elements.isEmpty else { return }
        bytes.append(elements)
        if let last = sizes.last, !isSealed, last + elements.count <= Self.recordLimit {
            sizes[sizes.count - 1] = last + elements.count
            return
        }
        isSealed = elements.count > Self.recordLimit
        var rest = elements.count
        while rest > Self.recordLimit {
            sizes.append(Self.recordLimit)
            rest -= Self.recordLimit
        }
        sizes.append(rest)
    }

    /// Lends the next record's bytes to `encrypt`, which takes all of them, and drops them.
    ///
    /// - Returns: How many they were; 0 when nothing waits.
    mutating func consumeRecord(
        _ encrypt: (UnsafeRawBufferPointer) throws(TransportError) -> Int
    ) throws(TransportError) -> Int {
        guard let size = sizes.first else { return 0 }
        _ = try bytes.consume(upTo: size, encrypt)
        sizes.removeFirst()
        return size
    }

    mutating func removeAll() {
        bytes.removeAll()
        sizes = []
    }
}
