import Foundation
import Platform
import TestSupport
import TestThreads
import Testing
import XMPPTestKit

@testable import XMPPTransport

/// Reading, writing and closing, in plain and under TLS: both ends are in the test's own thread.
@Suite(.ownThread) struct ConnectionTests {
    /// Two connected ends, with TLS when asked for.
    private func makePair(isProtected: Bool) throws -> (client: Connection, server: Connection) {
        let pair = try makeConnectedPair()
        if isProtected {
            let folder = try TemporaryFolder()
            let certificates = try TestCertificates(in: folder.path)
            let files = try certificates.makeServerCertificate(for: ["example.org"])
            try pair.client.startClientHandshake(
                .client(trust: .file(certificates.authorityFile)), domain: "example.org")
            try pair.server.startServerHandshake(
                .server(certificateFile: files.certificateFile, keyFile: files.keyFile))
            try handshake(client: pair.client, server: pair.server)
            // TLS 1.3's session tickets are on their way; they are no data.
            var none: [UInt8] = []
            #expect(try pair.client.read(into: &none) == .wouldBlock)
        }
        return pair
    }

    private static func pattern(_ count: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        for index in bytes.indices { bytes[index] = UInt8(truncatingIfNeeded: index &* 31 &+ index >> 8) }
        return bytes
    }

    @Test(
        "X17 more than the socket takes is sent piece by piece, whole and in order", arguments: [false, true])
    func partialFlush(isProtected: Bool) throws {
        let (client, server) = try makePair(isProtected: isProtected)
        let sent = Self.pattern(1_000_000)
        client.write(sent[..<700_000])
        #expect(try !client.flush())
        #expect(client.hasPendingOutput)
        #expect(!client.canTakeMore)
        #expect(client.pollEvents == [.readable, .writable])
        client.write(sent[700_000...])
        var received: [UInt8] = []
        var rounds = 0
        while received.count < sent.count {
            if case .wouldBlock = try server.read(into: &received) { _ = try client.flush() }
            rounds += 1
            try #require(rounds < 100_000)
        }
        #expect(received == sent)
        #expect(try client.flush())
        #expect(client.pendingOutput == 0)
        #expect(client.canTakeMore)
        #expect(client.pollEvents == .readable)
    }

    @Test("S16 each TLS record on the wire ends with an element, and several of them leave together")
    func records() throws {
        let (client, server) = try makePair(isProtected: true)
        let sizes = [300, 20_000, 9000, 9000, 5, 16_384]
        for size in sizes { client.write(Self.pattern(size)) }
        #expect(try client.flush())
        var wire: [UInt8] = []
        let tap = try Connection(
            socket: Socket(StreamSocket(adopting: dup(server.fileDescriptor)), peer: "a tap"))
        while case .bytes = try tap.read(into: &wire) {}
        // RFC 8446 section 5.2: a header of 5 bytes, and 17 of the record's type and tag.
        var records: [Int] = []
        var rest = wire[...]
        while rest.count >= 5 {
            let size = Int(rest[rest.startIndex + 3]) << 8 + Int(rest[rest.startIndex + 4])
            records.append(size - 17)
            rest = rest.dropFirst(5 + size)
        }
        #expect(records == [300, 16_384, 3616, 9000, 9005, 16_384])
    }

    @Test("X17 one read is bounded however much has arrived", arguments: [false, true])
    func boundedRead(isProtected: Bool) throws {
        let (client, server) = try makePair(isProtected: isProtected)
        server.write(Self.pattern(150_000))
        _ = try server.flush()
        var received: [UInt8] = []
        guard case .bytes(let count) = try client.read(into: &received) else {
            Issue.record("nothing was read")
            return
        }
        #expect(count == received.count)
        #expect(count >= Connection.readLimit)
        #expect(count <= Connection.readLimit + 16 * 1024)
        #expect(client.hasBufferedInput)
    }

    @Test("X5 what TLS has taken from the socket is read without waiting for the socket")
    func bufferedInTLS() throws {
        let (client, server) = try makePair(isProtected: true)
        // Four full records reach the limit of one read; the fifth comes from the socket along with the
        // fourth's end.
        let sent = Self.pattern(Connection.readLimit + 8000)
        server.write(sent)
        #expect(try server.flush())
        var received: [UInt8] = []
        #expect(try client.read(into: &received) == .bytes(Connection.readLimit))
        var entry = pollfd(fd: client.fileDescriptor, events: Int16(POLLIN), revents: 0)
        #expect(poll(&entry, 1, 0) == 0, "the socket itself has nothing more")
        #expect(client.hasBufferedInput)
        #expect(try client.wait(until: .never) == .ready)
        #expect(try client.read(into: &received) == .bytes(8000))
        #expect(received == sent)
        #expect(try client.read(into: &received) == .wouldBlock)
        #expect(!client.hasBufferedInput)
        #expect(try client.wait(until: .after(.zero)) == .timedOut)
    }

    @Test("X5 bytes that come one by one are put together", arguments: [false, true])
    func byteByByte(isProtected: Bool) throws {
        let (client, server) = try makePair(isProtected: isProtected)
        server.write(Array("<presence/>".utf8))
        _ = try server.flush()
        // Takes the wire's bytes and hands them on singly, to the same TLS session.
        var wire: [UInt8] = []
        _ = try Connection(socket: Socket(StreamSocket(adopting: dup(client.fileDescriptor)), peer: "a tap"))
            .read(
                into: &wire)
        var received: [UInt8] = []
        for byte in wire {
            server.writeUnprotected(byte)
            let before = received.count
            let result = try client.read(into: &received)
            #expect(result == (received.count > before ? .bytes(received.count - before) : .wouldBlock))
        }
        #expect(received == Array("<presence/>".utf8))
    }

    /// What a read gives once the other side has closed. A process that is started elsewhere at this moment may hold the
    /// other side's descriptor until it runs its program.
    private func readEnd(_ connection: Connection, into bytes: inout [UInt8]) throws -> Connection.ReadResult
    {
        let end = ContinuousClock.now + .seconds(20)
        var result = try connection.read(into: &bytes)
        while result == .wouldBlock, ContinuousClock.now < end {
            usleep(1000)
            result = try connection.read(into: &bytes)
        }
        return result
    }

    @Test("W5 a dirty close sends neither waiting output nor close_notify", arguments: [false, true])
    func dirtyClose(isProtected: Bool) throws {
        let (client, server) = try makePair(isProtected: isProtected)
        client.write(Array("flushed".utf8))
        #expect(try client.flush())
        client.write(Array("waiting".utf8))
        client.closeDirty()
        #expect(client.fileDescriptor == -1)
        #expect(!client.hasPendingOutput)
        var received: [UInt8] = []
        #expect(try server.read(into: &received) == .bytes(7))
        #expect(try readEnd(server, into: &received) == .closed)
        #expect(received == Array("flushed".utf8))
        #expect(server.tls?.hasReceivedCloseNotify != true)
        #expect(try client.read(into: &received) == .closed)
        client.write([1])
        #expect(transportError { _ = try client.flush() }?.code == .notConnected)
        client.closeDirty()
        client.closeClean()
    }

    @Test("X5 a clean close sends the waiting output and close_notify", arguments: [false, true])
    func cleanClose(isProtected: Bool) throws {
        let (client, server) = try makePair(isProtected: isProtected)
        client.write(Array("</stream:stream>".utf8))
        client.closeClean()
        #expect(client.fileDescriptor == -1)
        var received: [UInt8] = []
        #expect(try server.read(into: &received) == .bytes(16))
        #expect(try readEnd(server, into: &received) == .closed)
        #expect(received == Array("</stream:stream>".utf8))
        if isProtected { #expect(server.tls?.hasReceivedCloseNotify == true) }
    }

    @Test("X5 a clean close of a stuck connection ends at its deadline")
    func stuckClose() throws {
        let (client, _server) = try makePair(isProtected: false)
        client.write(Self.pattern(700_000))
        client.closeClean(until: .after(.milliseconds(20)))
        #expect(client.fileDescriptor == -1)
        withExtendedLifetime(_server) {}
    }

    @Test("X5 waiting on a closed connection ends at once")
    func waitAfterClose() throws {
        let client = try makePair(isProtected: false).client
        client.closeDirty()
        #expect(try client.wait(until: .never) == .ready)
        var received: [UInt8] = []
        #expect(try client.read(into: &received) == .closed)
    }

    @Test("X5 a dropped connection closes its descriptor")
    func droppedConnection() throws {
        let server = try makePair(isProtected: false).server
        var received: [UInt8] = []
        #expect(try readEnd(server, into: &received) == .closed)
    }

    @Test("X5 writing to a peer that is gone throws and raises no signal", arguments: [false, true])
    func peerGone(isProtected: Bool) throws {
        let (client, server) = try makePair(isProtected: isProtected)
        server.closeDirty()
        // As in ``readEnd(_:into:)``: until then what is written goes nowhere.
        let end = ContinuousClock.now + .seconds(20)
        var error: TransportError?
        while error == nil, ContinuousClock.now < end {
            client.write([1])
            error = transportError { _ = try client.flush() }
            usleep(1000)
        }
        #expect(error?.code == .connectionReset)
    }

    @Test("X5 what arrived before the connection broke is given before the error")
    func dataBeforeError() throws {
        let (client, server) = try makePair(isProtected: true)
        server.write(Array("last words".utf8))
        #expect(try server.flush())
        server.writeUnprotected(contentsOf: Self.pattern(100))
        var received: [UInt8] = []
        #expect(try client.read(into: &received) == .bytes(10))
        #expect(client.hasBufferedInput)
        for _ in 0..<2 {
            #expect(transportError { _ = try client.read(into: &received) }?.code == .tlsFailed)
        }
        #expect(received == Array("last words".utf8))
    }

    @Test("X5 sending to a peer that does not read ends at the deadline or when interrupted")
    func stuckFlush() throws {
        let (client, _server) = try makePair(isProtected: true)
        client.write(Self.pattern(700_000))
        #expect(transportError { try client.flush(until: .after(.milliseconds(20))) }?.code == .timedOut)
        let interruption = try AskedInterruption()
        let error = transportError { try client.flush(until: .never, interrupt: interruption.fileDescriptor) }
        #expect(error?.code == .interrupted)
        #expect(try client.wait(until: .never, interrupt: interruption.fileDescriptor) == .interrupted)
        withExtendedLifetime(_server) {}
    }

    @Test("X5 a descriptor that is no socket is refused")
    func notADescriptor() {
        #expect(throws: Errno.badDescriptor) { _ = try StreamSocket(adopting: -1) }
    }

    @Test(
        "X5 a clean close with unread input does not reset the connection, which could overtake its last words"
    )
    func cleanCloseWithUnreadInput() throws {
        let server = try LoopbackServer { connection in
            connection.write([1, 2, 3])
            try connection.flush(until: .after(.seconds(20)))
            _ = try connection.wait(until: .after(.seconds(20)))
            // Something that nobody reads any more is on its way while the last words wait to be read. A reset would
            // have arrived long before all of it is written.
            for _ in 0..<50 {
                connection.write([4])
                try connection.flush(until: .after(.seconds(20)))
                usleep(1000)
            }
            var received: [UInt8] = []
            while try connection.read(into: &received) != .closed {
                _ = try connection.wait(until: .after(.seconds(20)))
            }
            return received
        }
        let client = try Connection.connect(
            host: "127.0.0.1", port: server.port, deadline: .after(.seconds(20)))
        #expect(try client.wait(until: .after(.seconds(20))) == .ready)
        client.write(Array("bye".utf8))
        client.closeClean(until: .after(.seconds(20)))
        #expect(try server.finish() == Array("bye".utf8))
    }
}

extension Connection {
    /// Sends past TLS, as a tampering hand on the wire would.
    fileprivate func writeUnprotected(contentsOf bytes: [UInt8]) {
        #expect(send(fileDescriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count)
    }

    fileprivate func writeUnprotected(_ byte: UInt8) { writeUnprotected(contentsOf: [byte]) }
}
