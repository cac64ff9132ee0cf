import Glibc
import TestThreads
import Testing

@testable import TestServers
import XMPPTestKit

@Suite(.ownThread) struct LoopbackProxyTests {
    /// Accepts a connection that is on its way.
    private func accept(_ listener: borrowing FileDescriptor) throws -> FileDescriptor {
        var entry = pollfd(fd: listener.number, events: Int16(POLLIN), revents: 0)
        try #require(poll(&entry, 1, 30_000) == 1)
        let number = Glibc.accept(listener.number, nil, nil)
        try #require(number >= 0)
        return FileDescriptor(number)
    }

    @Test("W6 of the connections that clients have left the server's ends are awaited, and of no others")
    func departures() throws {
        let port = try LoopbackPort()
        let listener = try LoopbackSocket.listen(on: port)
        let proxy = try LoopbackProxy(to: port.number)
        defer { proxy.close() }
        func connect() throws -> FileDescriptor {
            guard let client = LoopbackSocket.connect(to: proxy.port) else { throw Refused() }
            return client
        }
        func areClosed(within limit: Duration) -> Bool {
            proxy.waitUntilDepartedAreClosed(deadline: .now + limit)
        }
        let staying = try connect()
        let nearStaying = try accept(listener)
        do {
            let leaving = try connect()
            let nearLeaving = try accept(listener)
            #expect(areClosed(within: .seconds(30)))
            let bytes = [UInt8](repeating: 1, count: 10_000)
            #expect(send(leaving.number, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count)
            _ = consume leaving
            // The end comes with the last of it, or right behind.
            let end = ContinuousClock.now + .seconds(30)
            while proxy.records.last?.sent != bytes.count, ContinuousClock.now < end { usleep(1000) }
            usleep(20_000)
            #expect(!areClosed(within: .milliseconds(100)))
            _ = consume nearLeaving
        }
        #expect(areClosed(within: .seconds(30)))
        withExtendedLifetime(proxy) {}
        _ = (staying.number, nearStaying.number)
    }

    private struct Refused: Error {}
}
