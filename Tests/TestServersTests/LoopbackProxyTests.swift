import Platform
import TestThreads
import Testing

@testable import TestServers
import XMPPTestKit

@Suite(.ownThread) struct LoopbackProxyTests {
    /// Accepts a connection that is on its way.
    private func accept(_ listener: StreamSocket) throws -> StreamSocket {
        try #require(listener.waitReadable(milliseconds: 30_000))
        return try #require(try StreamSocket.accept(from: listener.descriptor))
    }

    @Test("W6 of the connections that clients have left the server's ends are awaited, and of no others")
    func departures() throws {
        let port = try LoopbackPort()
        let listener = try LoopbackSocket.listen(on: port)
        let proxy = try LoopbackProxy(to: port.number)
        defer { proxy.close() }
        func connect() throws -> StreamSocket {
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
            #expect(try bytes.withUnsafeBytes { try leaving.send($0) } == bytes.count)
            _ = consume leaving
            // The end comes with the last of it, or right behind.
            let end = ContinuousClock.now + .seconds(30)
            while proxy.records.last?.sent != bytes.count, ContinuousClock.now < end {
                SystemThread.sleep(microseconds: 1000)
            }
            SystemThread.sleep(microseconds: 20_000)
            #expect(!areClosed(within: .milliseconds(100)))
            _ = consume nearLeaving
        }
        #expect(areClosed(within: .seconds(30)))
        withExtendedLifetime(proxy) {}
        _ = (staying.descriptor, nearStaying.descriptor)
    }

    private struct Refused: Error {}
}
