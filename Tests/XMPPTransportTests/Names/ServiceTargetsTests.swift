import Foundation
import HandlersTestKit
import TestSupport
import TestThreads
import Testing

@testable import XMPPTransport

/// Where a domain's service is, as a value and by a name server.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct ServiceTargetsTests {
    private static let domain = "chat.test"
    private static let secureName = "_xmpps-client._tcp.chat.test"
    private static let plainName = "_xmpp-client._tcp.chat.test"

    private func lookUp(
        _ names: DNSServer, domain: String = domain, deadline: Deadline = .after(.seconds(20)),
        interrupt: Int32? = nil
    ) throws(TransportError) -> [String] {
        try ServiceTargets.lookUp(
            domain, servers: [names.address], deadline: deadline, interrupt: interrupt
        ).map { "\($0.isDirectTLS ? "tls" : "starttls") \($0.host):\($0.port)" }
    }

    private func record(_ host: String, _ priority: UInt16, _ weight: UInt16, port: UInt16 = 5222)
        -> ServiceRecord
    {
        ServiceRecord(host: host, port: port, priority: priority, weight: weight)
    }

    @Test("X4 the lowest priority comes first, and both kinds of records are one set")
    func priorities() throws {
        let names = try DNSServer([
            Self.secureName: [
                .service(priority: 20, weight: 0, port: 443, host: "d.test"),
                .service(priority: 5, weight: 0, port: 5223, host: "b.test"),
            ],
            Self.plainName: [
                .service(priority: 10, weight: 0, port: 5222, host: "c.test"),
                .service(priority: 1, weight: 0, port: 5222, host: "a.test"),
            ],
        ])
        #expect(
            try lookUp(names) == [
                "starttls a.test:5222", "tls b.test:5223", "starttls c.test:5222", "tls d.test:443",
            ])
        #expect(Set(names.questions) == ["SRV \(Self.secureName)", "SRV \(Self.plainName)"])
    }

    @Test(
        "X4 within one priority the weight decides how often a host comes first, and every host is there once"
    )
    func weights() {
        let records = [record("light", 1, 10), record("heavy", 1, 30), record("none", 1, 0)]
        var generator = SeededGenerator(seed: 7)
        var firsts: [String: Int] = [:]
        for _ in 0..<4000 {
            let order = ServiceTargets.ordered(secure: [], plain: records, using: &generator).map(\.host)
            #expect(Set(order) == ["light", "heavy", "none"] && order.count == 3)
            firsts[order[0], default: 0] += 1
        }
        // A mark from 0 to 40: the heavy one wins 30 of 41, the light one 10, the one without weight 1.
        #expect((2700...3150).contains(firsts["heavy"] ?? 0), "\(firsts)")
        #expect((800...1150).contains(firsts["light"] ?? 0), "\(firsts)")
        #expect((40...180).contains(firsts["none"] ?? 0), "\(firsts)")
    }

    @Test(
        "X4 a target of . says that the service is not there; the other kind is used, or the domain has none")
    func noService() throws {
        let dot = DNSServer.Record.service(priority: 0, weight: 0, port: 0, host: ".")
        let names = try DNSServer([
            Self.secureName: [dot],
            Self.plainName: [.service(priority: 1, weight: 0, port: 5222, host: "a.test")],
        ])
        #expect(try lookUp(names) == ["starttls a.test:5222"])
        names.set(Self.plainName, [dot])
        let error = transportError { _ = try lookUp(names) }
        #expect(error?.code == .serviceNotOffered)
        #expect(error?.message.contains(Self.domain) == true)
    }

    @Test("X4 a target of . for one kind and no record of the other, or none that is known")
    func noDirectTLS() throws {
        let names = try DNSServer([
            Self.secureName: [.service(priority: 0, weight: 0, port: 0, host: ".")],
            Self.domain: [.address("127.0.0.1")],
        ])
        #expect(try lookUp(names) == ["starttls chat.test:5222"])
        names.set(.failing, for: Self.plainName)
        let error = transportError { _ = try lookUp(names) }
        #expect(error?.code == .lookupFailed, "it may be there in a moment")
    }

    /// What may be known of one kind of service.
    enum Known: String, CaseIterable, Sendable {
        case server, refused, none, failed, silent, unusable

        var answer: ServiceTargets.Answer? {
            func found(_ host: String, _ port: UInt16) -> ServiceTargets.Answer {
                .found([ServiceRecord(host: host, port: port, priority: 1, weight: 0)])
            }
            return switch self {
            case .server: found("a.test", 5222)
            case .refused: found(".", 0)
            case .none: ServiceTargets.Answer.none
            case .failed: .failed("DNS server returned general failure")
            case .silent: nil
            case .unusable: found("a.test", 0)
            }
        }
    }

    @Test(
        "X4 there is no service only where name servers say so of STARTTLS and none of direct TLS",
        arguments: Known.allCases, Known.allCases)
    func final(secure: Known, plain: Known) {
        var generator = SeededGenerator(seed: 1)
        let outcome: String
        do throws(TransportError) {
            let targets = try ServiceTargets.targets(
                of: "chat.test", "chat.test", secure: secure.answer, plain: plain.answer, using: &generator)
            outcome = targets.map { "\($0.host)" }.joined(separator: " ")
        } catch { outcome = "\(error.code)" }
        let expected =
            switch (secure, plain) {
            case (.server, .server): "a.test a.test"
            case (.server, _), (_, .server): "a.test"
            case (.none, .refused), (.refused, .refused): "serviceNotOffered"
            case (_, .refused): "lookupFailed"
            case (.refused, .none): "chat.test"
            case (.refused, _): "lookupFailed"
            default: "chat.test"
            }
        #expect(outcome == expected)
    }

    @Test("X4 a name server that is silent for one name does not hold up the answer for the other")
    func silentForOne() throws {
        let server = DNSServer.Record.service(priority: 1, weight: 0, port: 5222, host: "a.test")
        for (silent, other) in [(Self.secureName, Self.plainName), (Self.plainName, Self.secureName)] {
            let names = try DNSServer([other: [server]])
            names.set(.silent, for: silent)
            let start = ContinuousClock.now
            #expect(try lookUp(names).count == 1)
            #expect(ContinuousClock.now - start < .seconds(10))
        }
        // An answer that leads nowhere waits longer, and leaves time to connect.
        let names = try DNSServer([Self.domain: [.address("127.0.0.1")]])
        names.set(.silent, for: Self.plainName)
        #expect(
            try lookUp(names, deadline: .after(.seconds(3))) == ["starttls chat.test:5222"])
        names.set(Self.secureName, [.service(priority: 0, weight: 0, port: 0, host: ".")])
        let error = transportError { _ = try lookUp(names, deadline: .after(.seconds(3))) }
        #expect(error?.code == .lookupFailed)
    }

    @Test("X4 an answer that comes a little later counts, too")
    func late() throws {
        let names = try DNSServer([
            Self.secureName: [.service(priority: 2, weight: 0, port: 5223, host: "b.test")],
            Self.plainName: [.service(priority: 1, weight: 0, port: 5222, host: "a.test")],
        ])
        names.delay(.milliseconds(100), for: Self.plainName)
        #expect(try lookUp(names) == ["starttls a.test:5222", "tls b.test:5223"])
    }

    @Test("X4 without records, and when the name server fails, it is the domain itself on port 5222")
    func fallback() throws {
        let names = try DNSServer([:])
        #expect(try lookUp(names) == ["starttls chat.test:5222"])
        names.set(.failing)
        #expect(try lookUp(names) == ["starttls chat.test:5222"])
        #expect(try lookUp(names, domain: "münchen.test") == ["starttls xn--mnchen-3ya.test:5222"])
    }

    @Test("X4 an address in place of a domain is not looked up", arguments: ["127.0.0.1", "[::1]"])
    func addresses(domain: String) throws {
        let names = try DNSServer([:])
        #expect(try lookUp(names, domain: domain) == ["starttls \(DomainName.withoutBrackets(domain)):5222"])
        #expect(names.questions.isEmpty)
    }

    @Test("X4 a silent name server ends at the deadline, and can be interrupted")
    func silent() throws {
        let names = try DNSServer([:])
        names.set(.silent)
        #expect(
            transportError { _ = try lookUp(names, deadline: .after(.milliseconds(50))) }?.code == .timedOut)
        let asked = try AskedInterruption()
        let error = transportError { _ = try lookUp(names, interrupt: asked.fileDescriptor) }
        #expect(error?.code == .interrupted)
    }

    @Test("X4 hosts are resolved to both families by the name servers that were named")
    func hostAddresses() throws {
        let names = try DNSServer([
            "host.test": [.address("192.0.2.1"), .address("2001:db8::1"), .address("192.0.2.2")]
        ])
        let addresses = try AddressLookup.addresses(
            of: "host.test", port: 5222, servers: [names.address], deadline: .after(.seconds(20)),
            interrupt: nil)
        #expect(Set(addresses.map(\.text)) == ["192.0.2.1", "192.0.2.2", "2001:db8::1"])
        #expect(addresses[0].family != addresses[1].family, "the families take turns")
        let missing = transportError {
            _ = try AddressLookup.addresses(
                of: "no.test", port: 5222, servers: [names.address], deadline: .after(.seconds(20)),
                interrupt: nil)
        }
        #expect(missing?.code == .nameNotFound)
        names.set(.failing)
        let failing = transportError {
            _ = try AddressLookup.addresses(
                of: "host.test", port: 5222, servers: [names.address], deadline: .after(.seconds(20)),
                interrupt: nil)
        }
        #expect(failing?.code == .lookupFailed)
    }

    @Test("X4 places are read as stream errors and stream management write them")
    func places() {
        func read(_ text: String) -> String? {
            ServiceTarget(text, defaultPort: 5222, isDirectTLS: false).map { "\($0.host) \($0.port)" }
        }
        #expect(read("a.test") == "a.test 5222")
        #expect(read("a.test:9222") == "a.test 9222")
        #expect(read("192.0.2.1:443") == "192.0.2.1 443")
        #expect(read("[2001:db8::1]:443") == "2001:db8::1 443")
        #expect(read("[2001:db8::1]") == "2001:db8::1 5222")
        #expect(read("2001:db8::1") == "2001:db8::1 5222")
        for bad in [
            "", ":443", "a.test:0", "a.test:65536", "a.test:x", "a.test:", "a b", "x@y", "a/b", "[]:1",
            "a\u{0}b",
        ] {
            #expect(read(bad) == nil, "\(bad)")
        }
    }
}
