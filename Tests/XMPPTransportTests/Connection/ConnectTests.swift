import Foundation
import Platform
import TestThreads
import TestSupport
import Testing

@testable import XMPPTransport

@Suite(.ownThread) struct ConnectTests {
    private func failure(
        host: String, port: UInt16, deadline: Deadline = .after(.seconds(20)), interrupt: Int32? = nil
    ) -> TransportError? {
        transportError {
            _ = try Socket.connect(host: host, port: port, deadline: deadline, interrupt: interrupt)
        }
    }

    /// A port on which nothing listens.
    private func freePort() throws -> UInt16 { try Listener().port }

    @Test(
        "X4 a listening host is reached by IPv4 address and by name", arguments: ["127.0.0.1", "localhost"])
    func connects(host: String) throws {
        let listener = try Listener()
        let socket = try Socket.connect(host: host, port: listener.port, deadline: .after(.seconds(20)))
        #expect(socket.peer.contains("\(host) port \(listener.port)"))
        let accepted = try listener.accept(within: .seconds(30))
        accepted.close()
        var byte: UInt8 = 0
        #expect(try withUnsafeMutableBytes(of: &byte) { try socket.waitForEnd(into: $0) } == .closed)
    }

    @Test(
        "X4 an IPv6 address is reached, with and without brackets", .enabled(if: hasIPv6),
        arguments: ["::1", "[::1]"])
    func connectsIPv6(host: String) throws {
        let listener = try Listener(isIPv6: true)
        _ = try Socket.connect(host: host, port: listener.port, deadline: .after(.seconds(20)))
        _ = try listener.accept(within: .seconds(30))
    }

    static let hasIPv6 = (try? Listener(isIPv6: true)) != nil

    @Test("X4 the socket is not inherited, does not block and does not wait for more bytes")
    func options() throws {
        let listener = try Listener()
        let socket = try Socket.connect(
            host: "127.0.0.1", port: listener.port, deadline: .after(.seconds(20)))
        let accepted = try listener.accept(within: .seconds(30))
        for descriptor in [socket.fileDescriptor, accepted.fileDescriptor] {
            #expect(fcntl(descriptor, F_GETFD) & FD_CLOEXEC != 0)
            #expect(fcntl(descriptor, F_GETFL) & O_NONBLOCK != 0)
            var value: Int32 = 0
            var size = socklen_t(MemoryLayout<Int32>.size)
            #expect(getsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &value, &size) == 0)
            #expect(value != 0)
        }
    }

    @Test("X4 a refused connection names host, port and what to check")
    func refused() throws {
        let port = try freePort()
        let error = failure(host: "127.0.0.1", port: port)
        #expect(error?.code == .refused)
        #expect(error?.message.contains("127.0.0.1 port \(port)") == true)
        #expect(error?.message.contains("check the port") == true)
    }

    @Test("X4 a name that does not exist is distinguished from one that cannot be looked up now")
    func nameNotFound() {
        let error = failure(host: "no-such-host.invalid", port: 5222)
        // Without any network the answer is "try again", which is not the same as "does not exist".
        #expect([.nameNotFound, .lookupFailed].contains(error?.code))
        #expect(error?.message.contains("no-such-host.invalid") == true)
    }

    @Test(
        "X4 an empty name and a name with a zero byte do not exist",
        arguments: ["", "[]", "127.0.0.1\u{0}.example"])
    func impossibleNames(host: String) {
        #expect(failure(host: host, port: 5222)?.code == .nameNotFound)
    }

    @Test("X4 looking a name up ends when the interrupting descriptor becomes readable")
    func interruptedLookup() throws {
        let interruption = try AskedInterruption()
        let error = failure(host: "no-such-host.invalid", port: 5222, interrupt: interruption.fileDescriptor)
        #expect(error?.code == .interrupted)
    }

    @Test("X4 a host that does not answer is given up at the deadline")
    func silent() throws {
        let silent = try SilentPort()
        let deadline = Deadline.after(.milliseconds(50))
        let error = failure(host: "127.0.0.1", port: silent.port, deadline: deadline)
        #expect(error?.code == .timedOut)
        #expect(deadline.isPassed(at: SystemTime.monotonicNanoseconds()))
    }

    @Test("X4 connecting ends when the interrupting descriptor becomes readable")
    func interruptedConnect() throws {
        let silent = try SilentPort()
        let interruption = try AskedInterruption()
        let error = failure(host: "127.0.0.1", port: silent.port, interrupt: interruption.fileDescriptor)
        #expect(error?.code == .interrupted)
    }

    @Test("X4 an address that is silent does not keep the next one from being tried")
    func happyEyeballs() throws {
        let silent = try SilentPort()
        let good = try Listener()
        let addresses = try [silent.port, good.port].flatMap {
            try AddressLookup.addresses(of: "127.0.0.1", port: $0, deadline: .never, interrupt: nil)
        }
        var attempts = ConnectAttempts(host: "example.org", port: good.port, addresses: addresses)
        let socket = try attempts.run(until: .after(.seconds(20)), interrupt: nil)
        #expect(attempts.running.count == 1)
        #expect(socket.peer == "example.org port \(good.port) (127.0.0.1)")
        _ = try good.accept(within: .seconds(30))
    }

    @Test("X4 an address that refuses does not keep the next one from being tried, at once")
    func fallback() throws {
        let good = try Listener()
        let addresses = try [freePort(), freePort(), good.port].flatMap {
            try AddressLookup.addresses(of: "127.0.0.1", port: $0, deadline: .never, interrupt: nil)
        }
        var attempts = ConnectAttempts(host: "example.org", port: good.port, addresses: addresses)
        _ = try attempts.run(until: .after(.seconds(20)), interrupt: nil)
        #expect(attempts.failures.map(\.error) == [.connectionRefused, .connectionRefused])
        _ = try good.accept(within: .seconds(30))
    }

    @Test("X4 families take turns, starting with the one the system prefers")
    func interleaving() throws {
        func addresses(_ texts: String...) throws -> [SocketAddress] {
            try texts.flatMap {
                try AddressLookup.addresses(of: $0, port: 1, deadline: .never, interrupt: nil)
            }
        }
        let given = try addresses("::1", "::2", "::3", "192.0.2.1", "192.0.2.2")
        let turns = SocketAddress.interleaved(given).map(\.text)
        #expect(turns == ["::1", "192.0.2.1", "::2", "192.0.2.2", "::3"])
        #expect(SocketAddress.interleaved([]).isEmpty)
    }

    @Test("X4 failing to connect leaves no descriptor open")
    func noLeak() throws {
        let port = try freePort()
        let before = try openDescriptors()
        for _ in 0..<300 { #expect(failure(host: "127.0.0.1", port: port)?.code == .refused) }
        // Other tests run beside this one and open some descriptors of their own.
        #expect(try openDescriptors() < before + 200)
    }

    private func openDescriptors() throws -> Int {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
    }
}

/// A port whose queue of unaccepted connections is full: the kernel drops further attempts unanswered.
private final class SilentPort {
    private let listener: Listener
    private var waiting: [Socket] = []
    var port: UInt16 { listener.port }

    init() throws {
        listener = try Listener(backlog: 0)
        let connect = { [listener] in
            try Socket.connect(host: "127.0.0.1", port: listener.port, deadline: .after(.milliseconds(50)))
        }
        while let socket = try? connect() { waiting.append(socket) }
    }
}

extension Socket {
    fileprivate func waitForEnd(into buffer: UnsafeMutableRawBufferPointer) throws -> ByteStreamRead {
        var entries = [PollEntry(fileDescriptor)]
        try PollEntry.wait(&entries, milliseconds: 30_000)
        return try receive(into: buffer)
    }
}
