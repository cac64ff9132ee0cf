import Platform
import XMPPTransport
import XMPPCore

/// One connection of a client, seen from the server. Nothing blocks.
final class ServerConnection {
    /// The phase of a connection.
    enum Phase: Equatable {
        /// Bytes of the stream go in and out.
        case open
        /// TLS starts once what is written has been sent.
        case awaitingTLS
        case handshaking
        /// The stream's end is written; what comes in is dropped.
        case finishing
        /// Everything is sent and the sending direction is closed. The peer gets until this moment, in milliseconds of
        /// the machine's monotonic clock, to read it and to close: closing with unread input would reset the connection.
        case lingering(until: Int64)
        case gone
    }

    /// A fault that waits for a number of bytes.
    struct Budget {
        var bytes: Int
        var ending: ConnectionEnding
    }

    /// Counted from 1.
    let number: Int
    private let transport: Connection
    private(set) var phase = Phase.open
    private var parser: StreamParser?
    /// The bytes that were read and not yet parsed.
    private var input: [UInt8] = []
    /// The bytes to send that the transport does not have yet.
    var output: [UInt8] = []

    var isReadingPaused = false
    var isWritingPaused = false
    /// Break after this many more bytes of the stream have been sent.
    var sendBudget: Budget?
    /// Break after this many more bytes of the stream have been received.
    var receiveBudget: Budget?

    /// A client that does not read makes the server hold this much, in bytes; then it is reset.
    private static let outputLimit = 512 << 20
    /// The duration of ``Phase/lingering(until:)``, in milliseconds.
    private static let lingerLimit: Int64 = 2000

    init(_ transport: Connection, number: Int) throws {
        self.transport = transport
        self.number = number
        parser = try StreamParser()
    }

    // MARK: Waiting

    /// The events to poll for; the descriptor is negative if there are none.
    var pollEntry: PollEntry {
        var events: PollEvents = []
        if canRead { events.insert(.readable) }
        if hasOutput { events.insert(.writable) }
        return PollEntry(events.isEmpty ? -1 : transport.fileDescriptor, for: events)
    }

    private var canRead: Bool { phase != .gone && phase != .awaitingTLS && !isReadingPaused }

    private var hasOutput: Bool {
        if isWritingPaused || phase == .gone { return false }
        if phase == .handshaking { return transport.pollEvents.contains(.writable) }
        return transport.hasPendingOutput || !output.isEmpty
    }

    /// The descriptor; -1 once closed.
    var fileDescriptor: Int32 { transport.fileDescriptor }

    /// Whether something can be read without waiting.
    var hasBufferedInput: Bool { canRead && transport.hasBufferedInput }

    /// The channel binding data of the TLS session.
    var bindings: ChannelBindings { transport.tls?.channelBindings ?? ChannelBindings() }

    // MARK: Reading

    /// The received bytes.
    enum Arrival {
        case nothing
        /// TLS is complete.
        case secured
        case events([StreamParser.Event])
        /// These events, and then something that is no XML for a stream.
        case broken([StreamParser.Event], StreamError)
        /// The peer will send nothing more.
        case closed
        /// As many bytes as a fault wanted; these events were complete in them.
        case spent([StreamParser.Event], ConnectionEnding)
    }

    /// Reads what has arrived, a limited amount at a time.
    func read() throws -> Arrival {
        switch phase {
        case .gone, .awaitingTLS: return .nothing
        case .handshaking:
            guard try transport.continueHandshake() else { return .nothing }
            phase = .open
            return .secured
        case .open, .finishing, .lingering: break
        }
        input.removeAll(keepingCapacity: true)
        switch try transport.read(into: &input) {
        case .wouldBlock: return .nothing
        case .closed: return .closed
        case .bytes: break
        }
        guard phase == .open else { return .nothing }
        if let budget = receiveBudget {
            receiveBudget?.bytes -= input.count
            if input.count >= budget.bytes {
                input.removeSubrange(max(0, budget.bytes)...)
                switch parse() {
                case .events(let events), .broken(let events, _): return .spent(events, budget.ending)
                default: return .spent([], budget.ending)
                }
            }
        }
        return parse()
    }

    private func parse() -> Arrival {
        do throws(StreamParserError) {
            return .events(try parser?.parse(input) ?? [])
        } catch { return .broken(error.events, error.streamError) }
    }

    /// A new stream starts with the next byte.
    func restart() throws { parser = try StreamParser() }

    // MARK: Writing

    /// Hands over what is to be sent and sends what the system takes.
    ///
    /// - Parameter context: For TLS that starts when everything is sent.
    func flush(_ context: TLSContext) throws {
        guard phase != .gone, !isWritingPaused else { return checkOutput() }
        if phase == .open, output.isEmpty, sendBudget == nil, !transport.hasPendingOutput { return }
        var isSpent = false
        if phase != .handshaking, !output.isEmpty {
            let count = min(output.count, sendBudget.map { max(0, $0.bytes) } ?? .max)
            output.withUnsafeBytes { transport.write(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
            sendBudget?.bytes -= count
            isSpent = count < output.count || sendBudget?.bytes == 0
            output.removeAll(keepingCapacity: output.capacity <= 1 << 20)
        } else if let budget = sendBudget, budget.bytes <= 0 {
            isSpent = true
        }
        guard try transport.flush() else { return checkOutput() }
        if isSpent, let budget = sendBudget { return drop(budget.ending) }
        switch phase {
        case .awaitingTLS: try startTLS(context)
        case .finishing: finish()
        default: break
        }
    }

    private func checkOutput() {
        if output.count + transport.pendingOutput > Self.outputLimit { drop(.reset) }
    }

    // MARK: TLS

    /// TLS starts once everything that is written has been sent.
    func awaitTLS() {
        parser = nil
        phase = .awaitingTLS
    }

    /// Starts TLS as the server.
    func startTLS(_ context: TLSContext) throws {
        try transport.startServerHandshake(context)
        try restart()
        phase = .handshaking
    }

    // MARK: Closing

    /// Writes the stream's end and closes once everything is sent.
    func close() {
        guard phase != .gone else { return }
        output += Serializer.streamEnd
        phase = .finishing
        isReadingPaused = false
        isWritingPaused = false
    }

    private func finish() {
        StreamSocket.shutdownWriting(transport.fileDescriptor)
        phase = .lingering(until: ServerTime.monotonicMilliseconds + Self.lingerLimit)
    }

    /// Closes at once.
    func drop(_ ending: ConnectionEnding) {
        guard phase != .gone else { return }
        phase = .gone
        output = []
        let descriptor = transport.fileDescriptor
        switch ending {
        case .reset: StreamSocket.resetOnClose(descriptor)
        case .finish:
            // The end of the stream goes out first; unread input would turn the close into a reset.
            StreamSocket.shutdownWriting(descriptor)
            StreamSocket.drain(descriptor)
        }
        transport.closeDirty()
    }
}
