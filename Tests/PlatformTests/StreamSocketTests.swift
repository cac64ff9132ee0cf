import TestSupport
import TestThreads
import Testing

@testable import Platform

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

@Suite(.ownThread) struct StreamSocketTests {
    @Test(
        "X22 a socket beside a database can be reached however long its path is, by its own user only",
        arguments: [1, 200])
    func local(length: Int) throws {
        let folder = try TemporaryFolder()
        let place = folder.path + "/" + String(repeating: "f", count: length)
        try #require(mkdir(place, 0o700) == 0)
        let path = place + "/socket"
        #if os(iOS) || DH_KQUEUE
            if length == 200 {
                #expect(throws: Errno(rawValue: ENAMETOOLONG)) {
                    try StreamSocket.listening(atPath: path, backlog: 8)
                }
                return
            }
        #endif
        #expect(throws: Errno.noSuchFile) { try StreamSocket.connected(toPath: path) }
        let listener = try StreamSocket.listening(atPath: path, backlog: 8)
        let status = try FileStatus(path)
        #expect(status.kind == .socket && status.permissions == 0o600)
        #expect(try StreamSocket.accept(from: listener.descriptor) == nil)
        let asker = try StreamSocket.connected(toPath: path)
        let answerer = try #require(try StreamSocket.accept(from: listener.descriptor))
        #expect(asker.isPeerOwnUser && answerer.isPeerOwnUser)
        #expect(answerer.receive(atMost: 1).isEmpty)
        #expect(asker.send([7, 8]))
        #expect(answerer.waitReadable(milliseconds: 10_000) && answerer.receive(atMost: 3) == [7, 8])
        // Another one takes the name over.
        _ = try StreamSocket.listening(atPath: path, backlog: 8)
        #expect(try StreamSocket.accept(from: listener.descriptor) == nil)
    }

    @Test("X4 a socket tells bytes, none yet and the end apart, and sending to nobody is no signal")
    func reading() throws {
        let (one, other) = try StreamSocket.pair()
        var buffer = [UInt8](repeating: 0, count: 8)
        func receive() throws -> Int? { try buffer.withUnsafeMutableBytes { try one.receive(into: $0) } }
        #expect(try receive() == nil)
        #expect(!one.hasArrivedBytes)
        #expect(try [1, 2, 3].withUnsafeBytes { try other.send($0) } == 24)
        #expect(one.hasArrivedBytes)
        #expect(try receive() == 8)
        #expect(try receive() == 8)
        #expect(try receive() == 8)
        other.shutdownWriting()
        #expect(try receive() == 0)
        one.shutdownWriting()
        #expect(throws: Errno.brokenPipe) { try [1].withUnsafeBytes { try one.send($0) } }
    }

    @Test("X4 a name that cannot be is distinguished from one that could not be looked up")
    func names() throws {
        let numeric = try NameLookup.addresses(of: "192.0.2.1", port: 5222, isNumeric: true)
        #expect(numeric.map(\.text) == ["192.0.2.1"] && numeric.map(\.family) == [AF_INET])
        #expect(throws: NameLookup.Failure.noName) {
            try NameLookup.addresses(of: "localhost", port: 5222, isNumeric: true)
        }
        #expect(NameLookup.Failure.noName.isNoName && !NameLookup.Failure.tryAgain.isNoName)
        #if canImport(Darwin)
            let words = "nodename nor servname provided, or not known"
        #else
            let words = "Name or service not known"
        #endif
        #expect(NameLookup.Failure.noName.description == words)
        // Too short to be an address.
        let part = [UInt8](repeating: 0, count: 2).withUnsafeBytes { SocketAddress($0) }
        #expect(part.text == "?")
    }
}
