import Glibc
package import Platform
import Synchronization
import TestServers
import XMPPTestKit

/// A name server on loopback for tests, with a few records and the typical failures of name servers.
///
/// ```swift
/// let names = try DNSServer([
///     "_xmpp-client._tcp.example.test": [.service(priority: 1, weight: 0, port: port, host: "a.example.test")],
///     "a.example.test": [.address("127.0.0.1")],
/// ])
/// configuration.nameServers = [names.address]
/// ```
///
/// A name without any record does not exist. A query for a missing type of record gets an empty answer.
package final class DNSServer: Sendable {
    /// A record of a name.
    package enum Record: Hashable, Sendable {
        /// SRV. The host "." means that the service is not offered.
        case service(priority: UInt16, weight: UInt16, port: UInt16, host: String)
        /// A or AAAA, by the form of the address.
        case address(String)
    }

    /// How the server answers queries.
    package enum Mood: Hashable, Sendable {
        case truthful
        /// Answers every query with SERVFAIL.
        case failing
        /// Answers nothing.
        case silent
    }

    private struct State {
        var zone: [String: [Record]]
        var mood = Mood.truthful
        /// Moods about single names.
        var moods: [String: Mood] = [:]
        var delays: [String: Duration] = [:]
        var questions: [String] = []
    }

    private let socket: FileDescriptor
    private let port: UInt16
    private let state: Mutex<State>
    private let stop: Waker

    package init(_ zone: [String: [Record]]) throws(Errno) {
        let number = Glibc.socket(AF_INET, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard number >= 0, let port = Self.bindFreePort(number) else {
            throw Errno.current
        }
        socket = FileDescriptor(number)
        self.port = port
        state = Mutex(State(zone: zone))
        stop = try Waker()
        let loop = Loop(number: dup(number), stop: stop)
        _ = try SystemThread("names") { [weak self] in loop.run { self?.answer($0) } }
    }

    /// Binds a socket to a free port; nil when there is none.
    private static func bindFreePort(_ number: Int32) -> UInt16? {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(number, $0, size) == 0 ? getsockname(number, $0, &size) : -1
            }
        }
        return result == 0 ? UInt16(bigEndian: address.sin_port) : nil
    }

    deinit { stop.pipe.raise() }

    /// The address and port, in the form for a resolver.
    package var address: String { "127.0.0.1:\(port)" }
    /// The received queries in order, each with its type and name.
    package var questions: [String] { state.withLock { $0.questions } }

    /// Replaces the records of a name.
    package func set(_ name: String, _ records: [Record]) { state.withLock { $0.zone[name] = records } }

    /// Changes how queries are answered.
    package func set(_ mood: Mood) { state.withLock { $0.mood = mood } }

    /// Changes how queries for one name are answered.
    package func set(_ mood: Mood, for name: String) { state.withLock { $0.moods[name] = mood } }

    /// Has the server think about a name, and so about all that come after it.
    package func delay(_ duration: Duration, for name: String) {
        state.withLock { $0.delays[name] = duration }
    }

    // MARK: - Answers (RFC 1035 section 4)

    private static let types: [UInt16: String] = [1: "A", 28: "AAAA", 33: "SRV"]

    private func answer(_ request: [UInt8]) -> [UInt8]? {
        guard request.count > 16, let (name, end) = Self.name(in: request, at: 12), end + 4 <= request.count
        else { return nil }
        let type = UInt16(request[end]) << 8 | UInt16(request[end + 1])
        let (mood, records) = state.withLock { state in
            state.questions.append("\(Self.types[type] ?? String(type)) \(name)")
            return (state.moods[name.lowercased()] ?? state.mood, state.zone[name.lowercased()])
        }
        if mood == .silent { return nil }
        if let delay = state.withLock({ $0.delays[name.lowercased()] }) {
            usleep(UInt32(delay / .microseconds(1)))
        }
        let data = mood == .failing ? [] : (records ?? []).compactMap { Self.data($0, type: type) }
        let code: UInt8 = mood == .failing ? 2 : records == nil ? 3 : 0
        // An authoritative answer, with the flag that the query wanted recursion.
        var reply = Array(request[0..<2]) + [0x85, 0x80 | code, 0, 1, 0, UInt8(data.count), 0, 0, 0, 0]
        reply += request[12..<(end + 4)]
        for bytes in data {
            // A pointer to the name in the query, class IN, and a lifetime of a minute.
            reply +=
                [0xC0, 12] + Self.bytes(type) + [0, 1, 0, 0, 0, 60] + Self.bytes(UInt16(bytes.count)) + bytes
        }
        return reply
    }

    private static func data(_ record: Record, type: UInt16) -> [UInt8]? {
        switch record {
        case .service(let priority, let weight, let port, let host):
            guard type == 33 else { return nil }
            let labels = host.split(separator: ".").flatMap { [UInt8($0.utf8.count)] + Array($0.utf8) }
            return bytes(priority) + bytes(weight) + bytes(port) + labels + [0]
        case .address(let text):
            let isIPv6 = text.contains(":")
            guard type == (isIPv6 ? 28 : 1) else { return nil }
            var bytes = [UInt8](repeating: 0, count: isIPv6 ? 16 : 4)
            return inet_pton(isIPv6 ? AF_INET6 : AF_INET, text, &bytes) == 1 ? bytes : nil
        }
    }

    private static func name(in bytes: [UInt8], at start: Int) -> (String, end: Int)? {
        var labels: [String] = []
        var index = start
        while index < bytes.count, bytes[index] != 0 {
            let end = index + 1 + Int(bytes[index])
            guard bytes[index] < 64, end <= bytes.count else { return nil }
            labels.append(String(decoding: bytes[(index + 1)..<end], as: UTF8.self))
            index = end
        }
        return (labels.joined(separator: "."), index + 1)
    }

    private static func bytes(_ number: UInt16) -> [UInt8] { [UInt8(number >> 8), UInt8(number & 0xFF)] }

    /// The thread's loop. It refers to the server only while it answers, so that the server can be released.
    private final class Loop: Sendable {
        private let socket: FileDescriptor
        private let stop: Waker

        init(number: Int32, stop: Waker) {
            socket = FileDescriptor(number)
            self.stop = stop
        }

        func run(_ answer: ([UInt8]) -> [UInt8]?) {
            while true {
                var entries = [
                    pollfd(fd: socket.number, events: Int16(POLLIN), revents: 0),
                    pollfd(fd: stop.pipe.readEnd, events: Int16(POLLIN), revents: 0),
                ]
                _ = poll(&entries, 2, -1)
                if entries[1].revents != 0 { return }
                guard entries[0].revents != 0 else { continue }
                var peer = sockaddr_storage()
                var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
                var bytes = [UInt8](repeating: 0, count: 4096)
                withUnsafeMutablePointer(to: &peer) { pointer in
                    pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { peer in
                        let count = recvfrom(
                            socket.number, &bytes, bytes.count, Int32(MSG_DONTWAIT), peer, &size)
                        guard count > 0, let reply = answer(Array(bytes.prefix(count))) else { return }
                        _ = sendto(socket.number, reply, reply.count, 0, peer, size)
                    }
                }
            }
        }
    }
}
