import AccountTestSupport
import Foundation
import Handlers
import TestThreads
import Testing
@testable import XMPPAccount
@testable import XMPPTransport
import XMPPCore
import TestServers
import TestSupport
import XMPPTestKit

/// An account that finds its server by itself: DNS, several hosts, being sent elsewhere.
@Suite(.ownThread, .timeLimit(.minutes(2)), .engines(.sqlite, .postgres)) struct AccountServiceTests {
    private static let secureName = "_xmpps-client._tcp.localhost"
    private static let plainName = "_xmpp-client._tcp.localhost"

    private func service(_ port: UInt16, priority: UInt16 = 1, host: String = "xmpp.test") -> DNSServer.Record
    {
        .service(priority: priority, weight: 0, port: port, host: host)
    }

    /// An account at `localhost` that knows nothing but a name server.
    private func account(_ rig: AccountRig, _ names: DNSServer, timeout: Duration = .seconds(30)) throws
        -> Account
    {
        try rig.account {
            $0.server = nil
            $0.nameServers = [names.address]
            $0.connectTimeout = timeout
        }
    }

    @Test(
        "X4 the server is found by SRV records of either kind, and its certificate is for the address's domain",
        arguments: [true, false])
    func found(isDirectTLS: Bool) async throws {
        try await withRig { rig in
            let names = try DNSServer([
                isDirectTLS ? Self.secureName : Self.plainName: [
                    service(isDirectTLS ? rig.server.directTLSPort : rig.server.startTLSPort)
                ],
                "xmpp.test": [.address("127.0.0.1")],
            ])
            try await account(rig, names).connect()
            #expect(rig.server.log.entries.contains { $0.name == "starttls" } == !isDirectTLS)
        }
    }

    @Test("X4 a host that refuses, one that does not exist and one that is somebody else's are passed over")
    func failover() async throws {
        try await withRig { rig in
            let stranger = try AccountRig(flaw: .wrongName)
            let closed = try LoopbackPort()
            let names = try DNSServer([
                Self.secureName: [
                    service(closed.number, priority: 1), service(5223, priority: 2, host: "missing.test"),
                    service(stranger.server.directTLSPort, priority: 3),
                    service(rig.server.directTLSPort, priority: 4),
                ],
                "xmpp.test": [.address("127.0.0.1")],
            ])
            let first = try account(rig, names)
            try await first.connect()
            await first.close()
            #expect(stranger.server.log.entries.contains { $0.event == .connected })
            #expect(!stranger.server.log.entries.contains { $0.event == .received })

            names.set(
                Self.secureName,
                [service(closed.number), service(stranger.server.directTLSPort, priority: 2)])
            let other = try account(rig, names)
            let error = await errorOf { try await other.connect() } as? TransportError
            #expect(
                error?.code != .refused,
                "what a user must know is that a server was there and was not believed")
            #expect([.certificateNameMismatch, .certificateUntrusted].contains(error?.code))
            await stranger.close()
        }
    }

    @Test("X4 a first address that never answers does not keep the account from the second one")
    func deadFirstAddress() async throws {
        try await withRig { rig in
            let dead = try SilentAddress("127.0.0.99", port: rig.server.directTLSPort)
            let names = try DNSServer([
                Self.secureName: [service(rig.server.directTLSPort)],
                "xmpp.test": [.address(dead.host), .address("::1"), .address("127.0.0.1")],
            ])
            // A caller that waits for the first one uses up all of its time.
            try await account(rig, names, timeout: .seconds(86400)).connect()
            #expect(dead.isSilent)
        }
    }

    @Test("X4 a silent host gets its share of the time, and the next one the rest")
    func silentHost() async throws {
        try await withRig { rig in
            let proxy = try LoopbackProxy(to: rig.server.directTLSPort)
            proxy.silence()
            let names = try DNSServer([
                Self.secureName: [service(proxy.port), service(rig.server.directTLSPort, priority: 2)],
                "xmpp.test": [.address("127.0.0.1")],
            ])
            try await account(rig, names, timeout: .seconds(6)).connect()
        }
    }

    @Test("X4 a connection that comes to nothing ends at the deadline with a sentence")
    func deadline() async throws {
        try await withRig { rig in
            let proxy = try LoopbackProxy(to: rig.server.directTLSPort)
            proxy.silence()
            let account = try rig.account {
                $0.server = .init(host: "127.0.0.1", port: proxy.port, security: .directTLS)
                $0.connectTimeout = .milliseconds(300)
            }
            let error = await errorOf { try await account.connect() } as? TransportError
            #expect(error?.code == .timedOut)
        }
    }

    @Test("X4 an override of host and port asks no name server about the service")
    func override() async throws {
        try await withRig { rig in
            let names = try DNSServer(["xmpp.test": [.address("127.0.0.1")]])
            let account = try rig.account {
                $0.server = .init(host: "xmpp.test", port: rig.server.directTLSPort, security: .directTLS)
                $0.nameServers = [names.address]
            }
            try await account.connect()
            #expect(!names.questions.isEmpty && !names.questions.contains { $0.hasPrefix("SRV") })
        }
    }

    @Test("X4 a lookup that fails for one name, for a moment, stops no account")
    func lookupFails() async throws {
        try await withRig { rig in
            let names = try DNSServer([
                Self.secureName: [.service(priority: 0, weight: 0, port: 0, host: ".")],
                Self.plainName: [service(rig.server.startTLSPort)], "xmpp.test": [.address("127.0.0.1")],
            ])
            let account = try account(rig, names)
            let events = account.events
            try await account.connect()
            names.set(.failing, for: Self.plainName)
            let before = names.questions.count
            rig.server.dropConnections()
            try await eventually("two more lookups") { names.questions.count >= before + 4 }
            names.set(.truthful, for: Self.plainName)
            for await event in events {
                if case .stopped(let error) = event { Issue.record("\(error)") }
                if ["resumed", "stopped"].contains(event.name.prefix(7)) { break }
            }
        }
    }

    // MARK: see-other-host (RFC 6120 section 4.9.3.19)

    /// Sends who logs in somewhere else.
    private func redirect(_ rig: AccountRig, to place: String, at name: String = "auth") {
        rig.server.setScript { element, _ in
            guard element.name == name else { return .pass }
            let condition = Element("see-other-host", namespace: Namespaces.streams, text: place)
            return .answer([Element("error", namespace: Namespaces.stream, children: [condition])])
        }
    }

    @Test("X4 a server may send the client to another one, whose certificate must be for the domain too")
    func seeOtherHost() async throws {
        try await withRig { rig in
            let other = try ScriptedServer(
                .init(
                    accounts: ["alice": "secret"],
                    certificate: try rig.certificates.makeServerCertificate(for: ["localhost"], name: "other")
                ))
            try other.start()
            defer { other.stop(.reset) }
            redirect(rig, to: "127.0.0.1:\(other.directTLSPort)")
            let account = try rig.account()
            try await account.connect()
            #expect(other.log.entries.contains { $0.event == .bound })
            #expect(!rig.server.log.entries.contains { $0.event == .bound })
            await account.close()

            let stranger = try AccountRig()
            redirect(rig, to: "127.0.0.1:\(stranger.server.directTLSPort)")
            let error = await errorOf { try await rig.account().connect() } as? TransportError
            #expect(error?.code == .certificateUntrusted)
            #expect(!stranger.server.log.entries.contains { $0.event == .received })
            await stranger.close()
        }
    }

    @Test(
        "X22 see-other-host before TLS leads only to TLS with a certificate for the domain (RFC 6120 4.9.3.19)"
    )
    func seeOtherHostBeforeTLS() async throws {
        try await withRig(reconnects: false) { rig in
            func account() throws -> Account {
                try rig.account {
                    $0.server = .init(host: "127.0.0.1", port: rig.server.startTLSPort, security: .startTLS)
                }
            }
            let other = try ScriptedServer(
                .init(
                    accounts: ["alice": "secret"],
                    certificate: try rig.certificates.makeServerCertificate(for: ["localhost"], name: "other")
                ))
            try other.start()
            defer { other.stop(.reset) }
            redirect(rig, to: "127.0.0.1:\(other.startTLSPort)", at: "starttls")
            let honest = try account()
            try await honest.connect()
            #expect(other.log.entries.contains { $0.event == .bound })
            await honest.close()

            let stranger = try AccountRig()
            redirect(rig, to: "127.0.0.1:\(stranger.server.startTLSPort)", at: "starttls")
            let error = await errorOf { try await account().connect() } as? TransportError
            #expect(error?.code == .certificateUntrusted, "\(String(describing: error))")
            #expect(!stranger.server.log.entries.contains { $0.event == .received && $0.name == "auth" })
            await stranger.close()
        }
    }

    @Test("X4 servers that send the client round in a circle end the attempt")
    func circle() async throws {
        try await withRig(reconnects: false) { rig in
            redirect(rig, to: "127.0.0.1:\(rig.server.directTLSPort)")
            let account = try rig.account()
            let error = await errorOf { try await account.connect() } as? AccountError
            #expect(error?.code == .streamError)
            #expect((error?.cause as? StreamError)?.condition == .seeOtherHost)
            #expect(rig.server.log.entries.count { $0.event == .connected } == 2)
        }
    }

    @Test("X4 a place that is none is not gone to")
    func nonsense() async throws {
        try await withRig(reconnects: false) { rig in
            redirect(rig, to: "127.0.0.1:none")
            let account = try rig.account()
            let error = await errorOf { try await account.connect() } as? AccountError
            #expect(error?.code == .streamError)
            #expect(rig.server.log.entries.count { $0.event == .connected } == 1)
        }
    }
}

/// An address that neither answers nor refuses: the queue of its listener is full, so the kernel drops what comes.
private final class SilentAddress {
    let host: String
    private let port: UInt16
    private let listener: Int32
    private var waiting: [Int32] = []

    init(_ host: String, port: UInt16) throws {
        (self.host, self.port) = (host, port)
        listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        try #require(call(listener, bind) == 0 && listen(listener, 0) == 0)
        // One that is not answered at once shows that the queue is full.
        while waiting.count < 16, !isSilent {}
        try #require(waiting.count < 16)
    }

    deinit { for descriptor in waiting + [listener] { close(descriptor) } }

    /// Whether one more connection is left without an answer.
    var isSilent: Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue), 0)
        waiting.append(descriptor)
        guard call(descriptor, connect) != 0, errno == EINPROGRESS else { return false }
        // On the loopback interface the answer is there before the call returns.
        var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        return poll(&entry, 1, 0) == 0
    }

    private func call(
        _ descriptor: Int32, _ action: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Int32
    ) -> Int32 {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = inet_addr(host)
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                action(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }
}
