package import Platform

/// A socket and, from TLS's start on, a TLS session: bytes in, buffered bytes out.
///
/// Nothing blocks; the functions with a deadline give the thread back while they wait. The owner's loop is:
///
/// ```swift
/// connection.write(bytes)
/// while true {
///     let isFlushed = try connection.flush()
///     if !connection.hasBufferedInput { … }  // wait in poll(2) for connection.pollEvents
///     if case .closed = try connection.read(into: &input) { break }
/// }
/// ```
///
/// Not `Sendable`: one thread at a time uses it.
package final class Connection {
    /// The result of a read.
    package enum ReadResult: Hashable, Sendable {
        /// This many bytes were appended. There may be more, see ``Connection/hasBufferedInput``.
        case bytes(Int)
        /// Nothing is there now.
        case wouldBlock
        /// The peer will send nothing more.
        case closed
    }

    /// One read gives at most this much plus one TLS record, so that a peer that sends without end cannot
    /// hold the loop.
    static let readLimit = 64 * 1024
    /// One read from the socket or from TLS.
    private static let chunkSize = 16 * 1024
    /// The number of bytes that are encrypted at a time, plus one TLS record: several records for one send(2).
    private static let encryptionLimit = 48 * 1024
    /// Output above which ``canTakeMore`` is false.
    package static let outputHighWater = 256 * 1024

    private let socket: any ByteStream
    /// The TLS session, once TLS has started.
    package private(set) var tls: TLSSession?
    private var isHandshaking = false
    /// Whether the output is divided into records without TLS.
    private var hasRecords = false

    /// Elements of the stream that wait to be encrypted.
    private var output = RecordBuffer()
    /// Bytes that wait to be sent as they are: encrypted ones and, before TLS, those of the stream.
    private var wire = OutputBuffer()

    private let chunk = UnsafeMutableRawBufferPointer.allocate(byteCount: Connection.chunkSize, alignment: 16)
    /// Whether the last read stopped at the limit or has to report an error, so that the next read needs no
    /// poll.
    private var isInputLeft = false
    /// An error met after bytes had been read; the next read throws it.
    private var parkedError: TransportError?
    private var isAtEnd = false
    /// Whether the last read took everything that had arrived.
    package private(set) var isDrained = false
    /// Shows a log what is read and written.
    package var transcript: Transcript?

    package init(socket: any ByteStream) { self.socket = socket }

    deinit { chunk.deallocate() }

    /// Connects; see ``Socket/connect(host:port:nameServers:deadline:on:)``.
    package static func connect(
        host: String, port: UInt16, nameServers: [String] = [], deadline: Deadline, on loop: EventLoop
    ) async throws(TransportError) -> Connection {
        Connection(
            socket: try await Socket.connect(
                host: host, port: port, nameServers: nameServers, deadline: deadline, on: loop))
    }

    // MARK: - Waiting

    /// The descriptor, for poll(2); -1 once closed.
    package var fileDescriptor: Int32 { socket.fileDescriptor }
    /// The other side in words: `example.org port 5222 (192.0.2.1)`.
    package var peer: String { socket.peer }
    /// The events to poll for: readable, and writable while output waits.
    package var pollEvents: PollEvents {
        let isWriting = isHandshaking ? !wire.isEmpty : hasPendingOutput
        return isWriting ? [.readable, .writable] : .readable
    }

    /// Whether a read gives something without waiting. Never poll while this is true: what TLS has already
    /// taken from the socket does not make the descriptor readable.
    package var hasBufferedInput: Bool { isInputLeft }

    /// Waits until reading or, while output waits, writing is possible.
    package func wait(until deadline: Deadline, on loop: EventLoop) async -> WaitResult {
        // poll(2) would ignore the descriptor of a closed connection and wait for nothing; a read says
        // .closed.
        guard !hasBufferedInput, fileDescriptor >= 0 else { return .ready }
        socket.acknowledgeAtOnce()
        var entries = [PollEntry(fileDescriptor, for: pollEvents)]
        return await loop.wait(&entries, until: deadline)
    }

    // MARK: - Reading

    /// Appends what has arrived to `bytes`.
    ///
    /// - Throws: `connectionReset`, `tlsFailed`, `notConnected`… as `TransportError`. Bytes that arrived
    ///   before the failure are given first; the next call throws.
    package func read(into bytes: inout [UInt8]) throws(TransportError) -> ReadResult {
        if let error = parkedError { throw error }
        guard try continueHandshake() else { return .wouldBlock }
        let before = bytes.count
        (isInputLeft, isDrained) = (false, false)
        do throws(TransportError) {
            while !isAtEnd {
                guard try readChunk(into: &bytes) else { break }
                if bytes.count - before >= Connection.readLimit {
                    isInputLeft = true
                    break
                }
            }
        } catch {
            parkedError = error
            if bytes.count == before { throw error }
            isInputLeft = true
        }
        if bytes.count > before {
            transcript?.received(bytes[before...])
            isInputLeft = isInputLeft || isAtEnd
            isDrained = !isInputLeft
            return .bytes(bytes.count - before)
        }
        isDrained = true
        return isAtEnd ? .closed : .wouldBlock
    }

    /// Reads once; returns whether reading on may give more now.
    private func readChunk(into bytes: inout [UInt8]) throws(TransportError) -> Bool {
        guard let tls else {
            guard let count = try receive() else { return false }
            bytes.append(contentsOf: UnsafeRawBufferPointer(rebasing: chunk[..<count]))
            return count == chunk.count
        }
        switch try tls.read(into: chunk) {
        case .bytes(let count):
            bytes.append(contentsOf: UnsafeRawBufferPointer(rebasing: chunk[..<count]))
            return true
        case .closed:
            isAtEnd = true
            return false
        case .needsInput:
            return try receiveCiphertext()
        }
    }

    /// Fills the chunk from the socket; nil when nothing is there or the stream has ended.
    private func receive() throws(TransportError) -> Int? {
        switch try socket.receive(into: chunk) {
        case .bytes(let count): return count
        case .wouldBlock: return nil
        case .closed:
            isAtEnd = true
            return nil
        }
    }

    /// Moves what the socket has to TLS; returns whether that was anything.
    private func receiveCiphertext() throws(TransportError) -> Bool {
        guard let tls, let count = try receive() else { return false }
        try tls.receive(UnsafeRawBufferPointer(rebasing: chunk[..<count]))
        return true
    }

    // MARK: - Writing

    /// Appends whole top-level elements to the output; ``flush()`` sends them.
    ///
    /// What one call appends is never divided between two TLS records unless it is larger than a record, and shares none of
    /// its records then. A server so reads either all of an element or nothing when the process is killed.
    package func write(_ elements: UnsafeRawBufferPointer) {
        transcript?.sent(elements)
        if tls == nil && !hasRecords { wire.append(elements) } else { output.append(elements) }
    }
    /// Appends whole top-level elements to the output; ``flush()`` sends them.
    package func write(_ elements: some Collection<UInt8>) {
        let isWritten: Void? = elements.withContiguousStorageIfAvailable { write(UnsafeRawBufferPointer($0)) }
        if isWritten == nil { Array(elements).withUnsafeBytes { write($0) } }
    }

    /// The number of bytes that wait in this process, without those passed to the kernel.
    package var pendingOutput: Int { output.count + wire.count }
    /// Whether output waits.
    package var hasPendingOutput: Bool { pendingOutput > 0 }
    /// Whether the other side's system has taken everything that was sent.
    package var isDelivered: Bool { !hasPendingOutput && socket.isDelivered }
    /// Breaks the connection when the other side's system has acknowledged nothing for so long.
    package func limitUnacknowledged(toMilliseconds limit: Int64) {
        socket.limitUnacknowledged(toMilliseconds: limit)
    }
    /// Whether a writer should go on: false while more than ``outputHighWater`` bytes wait.
    package var canTakeMore: Bool { pendingOutput < Connection.outputHighWater }

    /// Sends as much of the output as the socket takes now.
    ///
    /// - Returns: Whether everything has been sent.
    /// - Throws: The reason the connection broke. Bytes that arrived before may still be read: perhaps the
    ///   stream error that explains it.
    package func flush() throws(TransportError) -> Bool {
        while true {
            tls?.moveOutput(into: &wire)
            try send(&wire)
            guard wire.isEmpty else { return false }
            // During the handshake the output waits: it belongs to the protected stream.
            guard !output.isEmpty, !isHandshaking else { return output.isEmpty }
            try writeRecords()
        }
    }

    private func writeRecords() throws(TransportError) {
        var count = 0
        while count < Connection.encryptionLimit, !output.isEmpty {
            count += try output.consumeRecord { plaintext throws(TransportError) in
                guard let tls else { return wire.append(record: plaintext) }
                return try tls.write(plaintext)
            }
        }
    }

    /// Sends all of the output, waiting where necessary.
    ///
    /// - Throws: `timedOut`, `interrupted`, or the reason the connection broke.
    package func flush(until deadline: Deadline, on loop: EventLoop) async throws(TransportError) {
        while try !flush() {
            var entries = [PollEntry(fileDescriptor, for: .writable)]
            try checkWait(await loop.wait(&entries, until: deadline), "Sending to \(peer)")
        }
    }

    private func send(_ buffer: inout OutputBuffer) throws(TransportError) {
        while !buffer.isEmpty {
            let count = try buffer.consume { bytes throws(TransportError) in try socket.send(bytes) }
            if count == 0 { return }
        }
    }

    // MARK: - TLS

    /// Divides the output into records from here on, as TLS does, and encrypts nothing: for a simulated network.
    ///
    /// Each record is preceded by its length, 4 bytes with the lowest first. What arrives has no records.
    package func startRecords() { hasRecords = true }

    /// Protects the connection from here on, as the client.
    ///
    /// For STARTTLS call it when `<proceed/>` has been parsed and nothing came after it: bytes that the
    /// parser already took are beyond this type's sight, so the caller checks that its parser gave no further
    /// event and was fed no further byte (RFC 6120 section 5.4.3.3), and drops that parser. What has not been
    /// read yet is checked here: a TLS server never speaks first.
    ///
    /// - Parameters:
    ///   - domain: The domain of the account's JID. The certificate must be for it, whatever host was dialed.
    ///   - offersProtocol: True for direct TLS (XEP-0368): ALPN offers "xmpp-client".
    ///   - deadline: When to give up.
    ///   - loop: What waits. Canceling the task ends the call.
    /// - Throws: `certificate…`, `tlsProtocolTooOld`, `tlsFailed`, `plaintextBeforeTLS`, `connectionClosed`,
    ///   `connectionReset`, `timedOut`, `interrupted`. The connection is of no use afterwards; drop it.
    package func startTLS(
        _ context: TLSContext, domain: String, offersProtocol: Bool = false, deadline: Deadline,
        on loop: EventLoop
    ) async throws(TransportError) {
        try await flush(until: deadline, on: loop)
        try startClientHandshake(context, domain: domain, offersProtocol: offersProtocol)
        try await finishHandshake(until: deadline, on: loop)
    }

    /// Starts TLS as the client without waiting; go on with ``continueHandshake()``. The output must be
    /// flushed.
    package func startClientHandshake(
        _ context: TLSContext, domain: String, offersProtocol: Bool = false
    ) throws(TransportError) {
        guard tls == nil, !socket.hasArrivedBytes() else {
            throw TransportError(
                .plaintextBeforeTLS,
                "\(peer) sent unprotected data where TLS for \(domain) must start; somebody may be tampering "
                    + "with the connection. Try another network.")
        }
        let names = TLSPeerNames(domain: domain, peer: peer)
        tls = try TLSSession(client: context, names: names, offersProtocol: offersProtocol)
        isHandshaking = true
        isInputLeft = false
    }

    /// Starts TLS as the server without waiting; go on with ``continueHandshake()``. The output must be flushed.
    package func startServerHandshake(_ context: TLSContext) throws(TransportError) {
        tls = try TLSSession(server: context, names: TLSPeerNames(domain: "a client", peer: peer))
        isHandshaking = true
        isInputLeft = false
    }

    /// Takes the handshake as far as possible without waiting; returns whether it is complete.
    package func continueHandshake() throws(TransportError) -> Bool {
        guard let tls, isHandshaking else { return true }
        isHandshaking = try !advanceHandshake(tls)
        if !isHandshaking { isInputLeft = tls.hasBufferedInput }
        return !isHandshaking
    }

    func finishHandshake(until deadline: Deadline, on loop: EventLoop) async throws(TransportError) {
        while try !continueHandshake() {
            try checkWait(await wait(until: deadline, on: loop), "The TLS handshake with \(peer)")
        }
    }

    private func advanceHandshake(_ tls: TLSSession) throws(TransportError) -> Bool {
        while true {
            do throws(TransportError) {
                if try tls.handshake() {
                    _ = try flush()
                    return true
                }
            } catch {
                _ = try? flush()  // The alert that tells the peer why.
                throw error
            }
            _ = try flush()
            if try receiveCiphertext() { continue }
            guard !isAtEnd else {
                throw TransportError(
                    .connectionClosed,
                    "\(peer) closed the connection during the TLS handshake; check the port and try again.")
            }
            return false
        }
    }

    private func checkWait(_ result: WaitResult, _ what: String) throws(TransportError) {
        switch result {
        case .ready: return
        case .timedOut:
            throw TransportError(.timedOut, "\(what) took too long; check the network and try again.")
        case .interrupted: throw TransportError(.interrupted, "\(what) was interrupted.")
        }
    }

    // MARK: - Closing

    /// Closes the descriptor and nothing else: no `</stream:stream>`, no close_notify, waiting output
    /// dropped.
    ///
    /// The server then keeps the session for resumption (XEP-0198 section 6). What the kernel has already
    /// taken may still arrive.
    package func closeDirty() {
        output.removeAll()
        wire.removeAll()
        isAtEnd = true
        isInputLeft = false
        socket.close()
    }

    /// Sends what waits and TLS's close_notify, and closes once the peer has closed its side.
    ///
    /// The caller has written `</stream:stream>` before. What the peer still sends is read and dropped: closing with
    /// unread input resets the connection, and a reset may overtake the end of the stream.
    ///
    /// - Parameters:
    ///   - deadline: When to give up and close all the same.
    ///   - loop: What waits. Canceling the task closes at once.
    package func closeClean(until deadline: Deadline, on loop: EventLoop) async {
        guard fileDescriptor >= 0 else { return }
        do throws(TransportError) {
            try await flush(until: deadline, on: loop)
            if let tls, !isHandshaking {
                tls.closeNotify()
                try await flush(until: deadline, on: loop)
            }
            socket.shutdownWriting()
            try await awaitEnd(until: deadline, on: loop)
        } catch {
            // The connection is going away in any case; the peer sees its end either way.
        }
        closeDirty()
    }

    private func awaitEnd(until deadline: Deadline, on loop: EventLoop) async throws(TransportError) {
        while try socket.receive(into: chunk) != .closed {
            var entries = [PollEntry(fileDescriptor)]
            guard await loop.wait(&entries, until: deadline) == .ready else { return }
        }
    }
}
