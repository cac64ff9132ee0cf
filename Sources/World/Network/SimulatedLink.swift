import XMPPTransport

/// A connection between a process and the server. Bytes travel in both directions in order, until a fault.
///
/// ```text
///   process ──records──▶ toServer ──whole records──▶ server        a half record never arrives, as with TLS
///   process ◀──pieces─── toClient ◀──────bytes────── server        cut anywhere
/// ```
final class SimulatedLink {
    /// The bytes in transit in one direction.
    struct Direction {
        struct Piece {
            var sent: Int64
            var due: Int64
            var bytes: ArraySlice<UInt8>
        }

        private(set) var pieces: [Piece] = []
        /// The time when the direction ends, after all pieces; nil while it is open.
        private(set) var endsAt: Int64?
        private var lastDue: Int64 = 0
        /// The time when the last removed bytes were sent.
        private(set) var lastSent: Int64 = 0

        var count: Int { pieces.reduce(0) { $0 + $1.bytes.count } }
        var isEmpty: Bool { pieces.isEmpty && endsAt == nil }

        /// The time of the next arrival.
        var nextDue: Int64? { pieces.first?.due ?? endsAt }

        mutating func append(_ bytes: some Sequence<UInt8>, at now: Int64, due: Int64) {
            guard endsAt == nil else { return }
            lastDue = max(lastDue, due)
            pieces.append(Piece(sent: now, due: lastDue, bytes: ArraySlice(bytes)))
        }

        mutating func end(due: Int64) {
            lastDue = max(lastDue, due)
            if endsAt == nil { endsAt = lastDue }
        }

        /// Removes at most `limit` bytes of the first piece.
        ///
        /// - Returns: Nil at the end of the direction.
        mutating func take(_ limit: Int) -> ArraySlice<UInt8>? {
            guard let first = pieces.first else { return nil }
            let taken = first.bytes.prefix(limit)
            lastSent = first.sent
            pieces[0].bytes = first.bytes.dropFirst(limit)
            if pieces[0].bytes.isEmpty { pieces.removeFirst() }
            return taken
        }

        /// Drops everything in transit.
        mutating func clear() { (pieces, endsAt) = ([], nil) }
    }

    enum State { case open, reset, closed }

    let number: Int
    let process: SimulatedDisk.Process
    var toServer = Direction()
    var toClient = Direction()
    /// The state at the client's end. The client notices a reset at its next call.
    var state = State.open
    /// Whether the server's end is open.
    var isServerOpen = true
    /// The time until which nothing arrives in either direction. Packets sent before it arrive afterwards.
    var blockedUntil: Int64 = 0
    /// The bytes that arrived at the client and are unread.
    var arrived: [UInt8] = []
    /// Whether the server closed its direction, and the client has received everything sent before.
    var hasEnded = false
    /// The time without an arrival after which the client's system ends the connection, in nanoseconds.
    var unacknowledgedLimit: Int64?
    /// The time when the oldest byte still in transit was sent.
    var sendingSince: Int64?

    /// Assembles the records that arrive at the server.
    var records = RecordReader()

    init(_ number: Int, _ process: SimulatedDisk.Process) {
        (self.number, self.process) = (number, process)
    }

    /// Whether the client's end can be read.
    var isReadable: Bool { !arrived.isEmpty || hasEnded || state != .open }
}

/// The client's end of a link.
final class SimulatedStream: ByteStream {
    private let link: SimulatedLink
    private unowned let network: SimulatedNetwork
    /// The network's descriptors are higher than any descriptor of the system.
    static let firstDescriptor: Int32 = 1 << 24
    /// The maximum number of bytes in transit, as TCP's window limits it.
    private static let window = 64 * 1024

    let peer: String

    init(_ link: SimulatedLink, _ network: SimulatedNetwork, peer: String) {
        (self.link, self.network, self.peer) = (link, network, peer)
    }

    deinit { close() }

    var fileDescriptor: Int32 { link.state == .closed ? -1 : Self.firstDescriptor + Int32(link.number) }

    func receive(into buffer: UnsafeMutableRawBufferPointer) throws(TransportError) -> ByteStreamRead {
        if link.process.isDead { return .closed }
        let count = min(buffer.count, link.arrived.count)
        if count > 0 {
            link.arrived.withUnsafeBytes {
                buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[..<count]))
            }
            link.arrived.removeFirst(count)
            return .bytes(count)
        }
        switch link.state {
        case .open: return link.hasEnded ? .closed : .wouldBlock
        case .reset: throw broken
        case .closed: throw TransportError(.notConnected, "The connection to \(peer) is already closed.")
        }
    }

    func send(_ bytes: UnsafeRawBufferPointer) throws(TransportError) -> Int {
        if link.process.isDead { return bytes.count }
        switch link.state {
        case .open: break
        case .reset: throw broken
        case .closed: throw TransportError(.notConnected, "The connection to \(peer) is already closed.")
        }
        let count = min(bytes.count, max(0, Self.window - link.toServer.count))
        if count > 0 { network.send(bytes.prefix(count), on: link) }
        return link.process.isDead ? bytes.count : count
    }

    private var broken: TransportError {
        TransportError(
            .connectionReset, "The connection to \(peer) was broken off by the other side; reconnect.")
    }

    func hasArrivedBytes() -> Bool { !link.arrived.isEmpty || link.hasEnded }
    var isDelivered: Bool { link.toServer.pieces.isEmpty }
    func limitUnacknowledged(toMilliseconds limit: Int64) { link.unacknowledgedLimit = limit * 1_000_000 }
    func acknowledgeAtOnce() {}
    func shutdownWriting() { if !link.process.isDead { network.endWriting(link) } }

    func close() {
        guard link.state != .closed else { return }
        if !link.process.isDead { network.close(link) }
        link.state = .closed
    }
}
