import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore

@testable import XMPPAccount
@testable import XMPPModules

/// One wrong answer to a capability query says nothing of the others with that digest.
@Suite(.ownThread) struct CapabilityQueryTests {
    private static let names = ["romeo", "nurse", "tybalt"]
    private static let info = DiscoInfo(
        identities: [.init(category: "client", type: "bot")], features: ["urn:x:one", "urn:x:two"])

    private func address(_ name: String) -> String { "\(name)@localhost/x" }

    private func presence(_ name: String, node: String? = nil) -> String {
        """
        <presence from='\(address(name))' to='\(FedAccount.full)'><c xmlns='\(Namespaces.caps)' hash='sha-1' \
        node='\(node ?? "urn:\(name)")' ver='\(Self.info.verification ?? "")'/></presence>
        """
    }

    /// The one query that was sent since.
    private func query(_ fed: FedAccount) throws -> (id: ForeignText, to: ForeignText, node: ForeignText?)? {
        let sent = try fed.takeSent().filter { $0.firstElement?.namespace == Namespaces.discoInfo }
        #expect(sent.count <= 1, "never two for one digest at once")
        return sent.first.flatMap { iq in
            guard let id = iq["id"], let to = iq["to"] else { return nil }
            return (id, to, iq.firstElement?["node"])
        }
    }

    private func answer(_ fed: FedAccount, _ id: ForeignText, _ from: ForeignText, _ info: DiscoInfo) throws {
        try fed.receive(
            "<iq type='result' id='\(id)' from='\(from)'>\(info.element().serialized())</iq>")
    }

    private static let failures = ["error", "no payload", "other payload", "wrong digest", "timeout"]

    private func fail(_ fed: FedAccount, _ failure: String, _ id: ForeignText, _ from: ForeignText) throws {
        let start = "<iq type='result' id='\(id)' from='\(from)'"
        switch failure {
        case "error":
            try fed.receive(
                """
                <iq type='error' id='\(id)' from='\(from)'><error type='cancel'>\
                <service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
                """)
        case "no payload": try fed.receive(start + "/>")
        case "other payload": try fed.receive(start + "><query xmlns='urn:other'/></iq>")
        case "wrong digest":
            try answer(fed, id, from, DiscoInfo(identities: Self.info.identities, features: []))
        default: #expect(try fed.offline.expire(requestID: id.string))
        }
    }

    private func known(_ fed: FedAccount) throws -> [String] {
        try Self.names.filter { name in
            try fed.step { try fed.account.knownInfo(of: JID(address(name)), in: $0) } == Self.info
        }
    }

    @Test(
        "X34 after a wrong answer the next entity with that digest is asked, with its own node",
        arguments: failures)
    func next(failure: String) async throws {
        try await withFed(DiscoModule()) { fed in
            for name in Self.names { try fed.receive(presence(name)) }
            var asked: [String] = []
            for _ in Self.names.dropLast() {
                let query = try #require(try query(fed))
                asked.append(query.to.string)
                #expect(query.node?.hasPrefix("urn:\(query.to.string.prefix { $0 != "@" })#") == true)
                try fail(fed, failure, query.id, query.to)
            }
            let last = try #require(try query(fed))
            asked.append(last.to.string)
            #expect(Set(asked) == Set(Self.names.map(address)))
            try answer(fed, last.id, last.to, Self.info)
            #expect(try known(fed) == Self.names)
            #expect(try query(fed) == nil)
            #expect(try fed.store.number("SELECT count(*) FROM capability_query") == 0)
        }
    }

    @Test("X34 when nobody knows better it ends, until one of them sends presence again")
    func nobody() async throws {
        try await withFed(DiscoModule()) { fed in
            for name in Self.names { try fed.receive(presence(name)) }
            for _ in Self.names {
                let query = try #require(try query(fed))
                try fail(fed, "error", query.id, query.to)
            }
            #expect(try query(fed) == nil)
            try fed.receive(presence("nurse"))
            let again = try #require(try query(fed))
            #expect(again.to.string == address("nurse"))
            try fail(fed, "error", again.id, again.to)
            #expect(try query(fed) == nil, "those that were asked are not asked for it")
        }
    }

    @Test(
        "X34 somebody who is gone, or has another digest by then, is not asked; a node that is too long is left out"
    )
    func gone() async throws {
        try await withFed(DiscoModule()) { fed in
            try fed.receive(presence("romeo"))
            let first = try #require(try query(fed))
            try fed.receive(presence("nurse"))
            try fed.receive(presence("tybalt", node: String(repeating: "n", count: 5000)))
            try fed.receive("<presence from='\(address("nurse"))' type='unavailable'/>")
            #expect(try query(fed) == nil)
            try fail(fed, "error", first.id, first.to)
            let second = try #require(try query(fed))
            #expect(second.to.string == address("tybalt") && second.node == nil)
            #expect(try fed.store.number("SELECT max(length(coalesce(node, ''))) FROM entity") < 2000)
        }
    }

    // MARK: Failures, and other hashes

    @Test("X34 those who did not tell are asked again after minutes, later and later, until one does")
    func again() async throws {
        try await withFed(DiscoModule()) { fed in
            for name in Self.names { try fed.receive(presence(name)) }
            for round in 0..<3 {
                for _ in Self.names {
                    let query = try #require(try query(fed))
                    try fail(fed, "error", query.id, query.to)
                }
                #expect(try query(fed) == nil)
                let due = "FROM handler WHERE name = 'disco.capabilities-due'"
                #expect(try fed.store.number("SELECT (due - bound_at) / 1000 \(due)") == 600 << Int64(round))
                try fed.store.change("UPDATE handler SET due = 1 WHERE name = 'disco.capabilities-due'")
                _ = try fed.account.runner.runDue()
                #expect(try fed.store.number("SELECT count(*) \(due)") == 0)
            }
            let query = try #require(try query(fed))
            try answer(fed, query.id, query.to, Self.info)
            #expect(try known(fed) == Self.names)
            #expect(try fed.store.number("SELECT count(*) FROM capability_query") == 0)
            #expect(
                try fed.store.number("SELECT count(*) FROM handler WHERE name = 'disco.capabilities-due'")
                    == 0)
        }
    }

    /// Of `info`, as another implementation has computed them.
    private static let digests: [(hash: String, digest: String)] = [
        ("sha-1", "A4Bum1irWKL/IGnaj9pFhm9Iy24="), ("sha-224", "g7PHrfw8C5PG7HUDnJ3leI5yXK3i2hkA7/u7hw=="),
        ("sha-256", "W7SMZo215QxuFFvbmgUkbxS+F/nk6SPtmJCQNJOYza0="),
        ("sha-384", "N1zxjy8DANBEUrDIt59SOW54oY5usIoIFNdueIP4wQ9R07JGRDrXqNl2CNINbz2e"),
        (
            "sha-512",
            "svYAdYf4NsSXNKsqOhWgyCJfeLlCQtXIJycauEgG4y6Far4PySDr6MwFoZoxjMypTdlKuku09EyIwUEnVuMlcg=="
        ),
    ]

    @Test(
        "X37 capabilities by each hash that is in use are asked for by their node, and checked by that hash")
    func hashes() async throws {
        try await withFed(DiscoModule()) { fed in
            for (hash, digest) in Self.digests {
                try fed.receive(
                    """
                    <presence from='\(address("romeo"))' to='\(FedAccount.full)'><c xmlns='\(Namespaces.caps)' hash='\(hash)' \
                    node='urn:romeo' ver='\(digest)'/></presence>
                    """)
                let query = try #require(try query(fed), "\(hash)")
                #expect(query.node == ForeignText("urn:romeo#\(digest)"))
                try answer(fed, query.id, query.to, Self.info)
                #expect(try known(fed) == ["romeo"], "\(hash)")
            }
            for (hash, digest) in [
                ("md5", "dEX92JPhXFx3x6CceK738Q=="), ("sha-256", Self.digests[0].digest),
                ("sha-1", Self.digests[2].digest),
            ] {
                try fed.receive(
                    """
                    <presence from='\(address("nurse"))' to='\(FedAccount.full)'><c xmlns='\(Namespaces.caps)' hash='\(hash)' \
                    node='urn:nurse' ver='\(digest)'/></presence>
                    """)
                if let query = try query(fed) { try answer(fed, query.id, query.to, Self.info) }
                #expect(try known(fed) == ["romeo"], "\(hash) is not known, or has another digest")
            }
        }
    }

    @Test(
        "X37 identities are in the order of their parts, or of their whole texts as many have it; all is by bytes"
    )
    func order() throws {
        let info = DiscoInfo(
            identities: [
                .init(category: "client-x", type: "pc", name: "Z"),
                .init(category: "client", type: "pc", name: "a"),
                .init(category: "client", type: "pc", name: "Ä", language: "de"),
                .init(category: "client", type: "pc", name: "Z"),
            ],
            features: ["urn:\u{10000}", "urn:\u{FFFD}", "urn:b", "urn:B"])
        #expect(info.isVerified(by: "MGJVufWllWmNBAXNlzm+xCLrojQ=", hash: "sha-1"))
        #expect(info.isVerified(by: "zLZyv72M3TXPztX9pYxzQDnVr1k=", hash: "sha-1"))
        #expect(info.verification == "MGJVufWllWmNBAXNlzm+xCLrojQ=")
        #expect(!info.isVerified(by: "hB7vwB5eQtEuKnm4G0e6xBpgars=", hash: "sha-1"))
    }
}
