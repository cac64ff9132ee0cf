/// A connected stream of bytes that never blocks: the kernel's ``Socket``, or the one of a simulated network.
package protocol ByteStream: AnyObject {
    /// The other side in words, for error messages: `example.org port 5222 (192.0.2.1)`.
    var peer: String { get }
    /// The descriptor for the pauses of the loop; -1 once closed.
    var fileDescriptor: Int32 { get }

    /// Reads what is there, at most `buffer.count` bytes.
    func receive(into buffer: UnsafeMutableRawBufferPointer) throws(TransportError) -> ByteStreamRead
    /// Sends as much of `bytes` as the system takes now; 0 when it takes nothing.
    func send(_ bytes: UnsafeRawBufferPointer) throws(TransportError) -> Int
    /// Returns whether bytes (or the end of the stream) wait to be read, without taking them.
    func hasArrivedBytes() -> Bool
    /// Whether the other side's system has acknowledged everything that was sent.
    var isDelivered: Bool { get }
    /// Breaks the connection when bytes stay without acknowledgement for so long.
    func limitUnacknowledged(toMilliseconds limit: Int64)
    /// Acknowledges received bytes at once. A peer with Nagle's algorithm (RFC 896), such as Prosody, keeps the rest of its
    /// answer back until then.
    func acknowledgeAtOnce()
    /// Ends the writing side; reading goes on.
    func shutdownWriting()
    /// Closes the stream. Further calls do nothing.
    func close()
}

/// The result of one read.
package enum ByteStreamRead: Equatable, Sendable {
    case bytes(Int), wouldBlock, closed
}
