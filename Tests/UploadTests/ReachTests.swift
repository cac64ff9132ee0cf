import Glibc
import TestSupport
import TestThreads
import Testing
import XMPPCore

@testable import Platform
@testable import Upload

/// Where slots of services and links of strangers may lead.
@Suite(.ownThread, .timeLimit(.minutes(3))) struct ReachTests {
    private func request(_ address: String, _ reach: HTTPReach = HTTPReach()) -> HTTPRequest {
        HTTPRequest(
            address: ForeignText(address), trust: .system,
            limits: .init(connecting: .seconds(5), stalled: .seconds(5), total: .seconds(5)), reach: reach)
    }

    /// The code of the error of a PUT or a GET; nil when it succeeds.
    private func error(_ body: @escaping @Sendable () throws -> Void) async -> ErrorCode<UploadError>? {
        do {
            try await onThread(HTTPControl(), body)
            return nil
        } catch { return (error as? UploadError)?.code }
    }

    @Test(
        "X27 neither PUT nor GET connects to this machine, however its address is written",
        arguments: [
            "127.0.0.1", "localhost", "files.localhost", "2130706433", "0x7f000001", "0177.0.0.1", "127.1",
            "127.8.7.6", "0.0.0.0", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
            "%6cocalhost",
        ])
    func ownMachine(_ host: String) async throws {
        let listeners = [try Listener(), try Listener(isIPv6: true)]
        for listener in listeners {
            let address = "https://\(host):\(listener.port)/f"
            _ = try UploadSlot.address(ForeignText(address))
            let get = request(address)
            #expect(
                await error { _ = try HTTPExchange.get(get, HTTPControl()) { _ in } } == .privateAddress)
            var put = get
            put.size = 1
            let sending = put
            #expect(
                await error { _ = try HTTPExchange.put(sending, HTTPControl()) { _ in 0 } } == .privateAddress
            )
            #expect(throws: (any Error).self, "nothing was connected") {
                try listener.accept(within: .zero)
            }
        }
    }

    @Test("X27 a private network is not connected to either, and the sentence names the address")
    func privateNetwork() async throws {
        // Nobody is there: a connection would take its five seconds, and be another error.
        for host in [
            "10.255.255.1", "192.168.255.1", "169.254.169.254", "100.64.0.1", "[fd00::1]", "[fe80::1]",
        ] {
            let get = request("https://\(host):9/")
            do {
                _ = try await onThread(HTTPControl()) { try HTTPExchange.get(get, HTTPControl()) { _ in } }
                Issue.record("\(host) was reached")
            } catch let error as UploadError {
                let text = host.filter { $0 != "[" && $0 != "]" }
                #expect(error.code == .privateAddress && error.message.contains(text), "\(error)")
            }
        }
    }

    @Test("X27 hosts that the program names may be on this machine, with the names below them and no others")
    func named() throws {
        let address = try #require(
            try NameLookup.addresses(of: "127.0.0.1", port: 1, isNumeric: true).first)
        let reach = HTTPReach(privateHosts: ["Chat.lan", "10.0.0.7", "fd00::7", ""])
        for host in ["chat.lan", "CHAT.lan", "up.chat.lan", "a.b.chat.lan", "10.0.0.7", "[fd00::7]"] {
            for rest in ["/f", ":8443/f", "?a", ""] {
                #expect(reach.allows("https://\(host)\(rest)", at: address), "\(host)\(rest)")
            }
        }
        for host in [
            "lan", "evilchat.lan", "chat.lan.evil.test", "127.0.0.1", "10.0.0.71", "evil.test/chat.lan",
            "chat%2elan",
        ] {
            #expect(!reach.allows("https://\(host)/f", at: address), "\(host)")
        }
        #expect(!HTTPReach(proxy: "").allows("https://localhost/f", at: address), "an empty proxy is none")
    }

    @Test("X27 no proxy of the environment is used, but the one that the program names")
    func proxies() async throws {
        await #expect(processExitsWith: .success) {
            let closed = try Listener(backlog: 1)
            let place = "http://127.0.0.1:\(closed.port)"
            for name in ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] { setenv(name, place, 1) }
            try await closing(WebServer()) { server in
                _ = try server.file(pattern(10), as: "f")
                func get(_ reach: HTTPReach) -> HTTPRequest {
                    HTTPRequest(
                        address: ForeignText(server.address("take/f")),
                        trust: .file(path: server.certificates.authorityFile),
                        limits: .init(connecting: .seconds(2), stalled: .seconds(20), total: .seconds(40)),
                        reach: reach)
                }
                let direct = get(.local)
                let status = try await onThread(HTTPControl()) {
                    try HTTPExchange.get(direct, HTTPControl()) { _ in }
                }
                try #require(status == 200)
                try #require(try server.requests.count == 1)
                // What the environment excepts from its proxy is not excepted from this one.
                setenv("no_proxy", "localhost", 1)
                let through = get(HTTPReach(proxy: place))
                let error = await #expect(throws: UploadError.self) {
                    try await onThread(HTTPControl()) {
                        _ = try HTTPExchange.get(through, HTTPControl()) { _ in }
                    }
                }
                try #require(error?.code == .connection)
                try #require(try server.requests.count == 1)
                _ = try closed.accept(within: .seconds(5))
            }
        }
    }

    // MARK: Addresses

    private func isPublic(_ text: String) throws -> Bool {
        try #require(try NameLookup.addresses(of: text, port: 443, isNumeric: true).first).isPublic
    }

    @Test(
        "X27 the first and the last address of every special network is not public, and their neighbors are",
        arguments: [
            ("0.0.0.0", "0.255.255.255", nil, "1.0.0.0"),
            ("10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"),
            ("100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"),
            ("127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"),
            ("168.63.129.16", "168.63.129.16", "168.63.129.15", "168.63.129.17"),
            ("169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"),
            ("172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"),
            ("192.0.0.0", "192.0.0.255", "191.255.255.255", "192.0.1.0"),
            ("192.0.2.0", "192.0.2.255", "192.0.1.255", "192.0.3.0"),
            ("192.88.99.0", "192.88.99.255", "192.88.98.255", "192.88.100.0"),
            ("192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"),
            ("198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"),
            ("198.51.100.0", "198.51.100.255", "198.51.99.255", "198.51.101.0"),
            ("203.0.113.0", "203.0.113.255", "203.0.112.255", "203.0.114.0"),
            ("224.0.0.0", "255.255.255.255", "223.255.255.255", nil),
            ("::", "1fff:ffff::", nil, "2000::"),
            ("4000::", "ffff:ffff::", "3fff:ffff::", nil),
            ("2001::", "2001:1ff:ffff::", "2000:ffff::", "2001:200::"),
            ("2001:db8::", "2001:db8:ffff::", "2001:db7:ffff::", "2001:db9::"),
            ("3fff::", "3fff:fff:ffff::", "3ffe:ffff::", "3fff:1000::"),
        ] as [(String, String, String?, String?)])
    func networks(first: String, last: String, before: String?, after: String?) throws {
        #expect(try !isPublic(first) && !isPublic(last))
        for neighbor in [before, after].compactMap(\.self) { #expect(try isPublic(neighbor), "\(neighbor)") }
    }

    @Test(
        "X27 an address of IPv6 that stands for one of IPv4 is public if that is",
        arguments: ["::ffff:", "64:ff9b::", "2002:"])
    func embedded(prefix: String) throws {
        for (v4, words, expected) in [
            ("8.8.8.8", "808:808", true), ("127.0.0.1", "7f00:1", false), ("10.1.2.3", "a01:203", false),
            ("169.254.169.254", "a9fe:a9fe", false),
        ] {
            let text = prefix == "2002:" ? "2002:\(words)::1" : prefix + words
            #expect(try isPublic(text) == expected, "\(text)")
            #expect(try isPublic(v4) == expected, "\(v4)")
        }
        // A carrier's own translation (RFC 8215), addresses compatible with IPv4, and none.
        for text in ["64:ff9b:1::808:808", "::808:808", "::1", "fc00::1", "fec0::1", "ff02::1"] {
            #expect(try !isPublic(text), "\(text)")
        }
        let noAddress = [UInt8](repeating: 0, count: 2).withUnsafeBytes { SocketAddress($0) }
        #expect(!noAddress.isPublic)
    }
}
