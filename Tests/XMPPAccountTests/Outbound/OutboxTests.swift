import Handlers
import HandlersTestKit
import TestThreads
import Testing
import XMPPCore

@testable import XMPPAccount

/// The rows of stanzas to be sent, without account and stream.
@Suite("The outbox", .ownThread) struct OutboxTests {
    static let outbox = Outbox(account: 1)

    /// Runs `body` in one step of a store with one account.
    static func withStep(_ body: @escaping (borrowing Step) throws -> Void) async throws {
        try await withTestStore(registry: HandlerRegistry([]), schemas: Account.coreSchemas) { test in
            try test.store.step { step in
                try step.execute("INSERT INTO account(id, jid) VALUES (1, 'a@b'), (2, 'c@d')")
                for account in [Int64(1), 2] { try SessionTable(account: account).create(in: step) }
                try body(step)
            }
        }
    }

    static func append(
        _ names: String..., kind: Outbox.Kind = .message, session: Int64? = 1, account: Int64 = 1,
        in step: borrowing Step
    ) throws {
        try step.execute("UPDATE session SET open_number = ? WHERE account = ?", session, account)
        for name in names {
            try Outbox(account: account).append(
                kind, id: ForeignText(name), xml: Array("<\(name)/>".utf8), in: step)
        }
    }

    static func names(_ stanzas: [Outbox.Stanza]) -> [String] {
        stanzas.map { String(decoding: $0.xml, as: UTF8.self) }
    }

    @Test(
        "S8 stanzas leave in order, after the flush mark, up to the limit, for their own session and account only"
    )
    func next() async throws {
        try await Self.withStep { step in
            try Self.append("a", "b", in: step)
            try Self.append("other", account: 2, in: step)
            try Self.append("later", session: nil, in: step)
            try Self.append("c", in: step)
            let first = try Self.outbox.next(session: 1, after: 0, limit: 2, in: step)
            #expect(Self.names(first) == ["<a/>", "<b/>"])
            let rest = try Self.outbox.next(session: 1, after: first[1].seq, limit: 9, in: step)
            #expect(Self.names(rest) == ["<c/>"])
            try Self.outbox.adopt(session: 1, in: step)
            let all = try Self.outbox.next(session: 1, after: 0, limit: 9, in: step)
            #expect(Self.names(all) == ["<a/>", "<b/>", "<later/>", "<c/>"])
        }
    }

    @Test("S8 an ack removes the oldest stanzas that were written, and no other") func acknowledge()
        async throws
    {
        try await Self.withStep { step in
            try Self.append("a", "b", "c", in: step)
            let rows = try Self.outbox.next(session: 1, after: 0, limit: 9, in: step)
            var management = StreamManagement()
            let removed = try Self.outbox.acknowledge(
                HandledCount(rawValue: 2), session: 1, upTo: rows[1].seq, &management, in: step)
            #expect(removed.map(\.stanza.id) == ["a", "b"])
            #expect(management.acknowledged == HandledCount(rawValue: 2))
            let left = try Self.outbox.next(session: 1, after: 0, limit: 9, in: step)
            #expect(Self.names(left) == ["<c/>"])
        }
    }

    @Test("S10 an ack of more than was written is refused, and removes nothing") func tooMuch() async throws {
        try await Self.withStep { step in
            try Self.append("a", "b", in: step)
            let rows = try Self.outbox.next(session: 1, after: 0, limit: 9, in: step)
            var management = StreamManagement()
            var error: HandledCountError?
            do {
                _ = try Self.outbox.acknowledge(
                    HandledCount(rawValue: 2), session: 1, upTo: rows[0].seq, &management, in: step)
            } catch let refused as HandledCountError {
                error = refused
            }
            #expect(error != nil)
            checkStep(try Self.outbox.next(session: 1, after: 0, limit: 9, in: step).count == 2)
        }
    }

    @Test("S9 of a lost session messages wait for the next one, stamped, and everything else is void")
    func lostSession() async throws {
        try await Self.withStep { step in
            try Self.append("message", in: step)
            try Self.append("presence", kind: .presence, in: step)
            try Self.append("request", kind: .request, in: step)
            try Self.append("typing", kind: .fleeting, in: step)
            try Self.append("unsent", kind: .request, session: nil, in: step)
            let void = try Self.outbox.claimVoid(after: 0, limit: 9, in: step)
            #expect(void.map(\.stanza.id) == ["presence", "request", "typing"])
            let last = try Self.outbox.requeueMessages(after: 0, limit: 9, in: step)
            #expect(last != nil)
            try Self.outbox.adopt(session: 2, in: step)
            let next = Self.names(try Self.outbox.next(session: 2, after: 0, limit: 9, in: step))
            #expect(next.count == 2)
            #expect(next[0].contains("urn:xmpp:delay"))
            #expect(next[1] == "<unsent/>")
        }
    }

    @Test("S11 there is room for fewer stanzas than the limit, of this account") func room() async throws {
        try await Self.withStep { step in
            try Self.append("x", "y", "z", account: 2, in: step)
            try Self.append("a", "b", in: step)
            checkStep(try Self.outbox.hasRoom(3, in: step))
            checkStep(try !Self.outbox.hasRoom(2, in: step))
        }
    }

    @Test("X13 the stanza of a canceled request is withdrawn while no session carries it") func withdraw()
        async throws
    {
        try await Self.withStep { step in
            try Self.append("carried", kind: .request, in: step)
            try Self.append("waiting", kind: .request, session: nil, in: step)
            try Self.outbox.withdraw(requestID: "carried", in: step)
            try Self.outbox.withdraw(requestID: "waiting", in: step)
            try Self.outbox.adopt(session: 1, in: step)
            let left = try Self.outbox.next(session: 1, after: 0, limit: 9, in: step)
            #expect(Self.names(left) == ["<carried/>"])
        }
    }
}

/// `#expect` for a value that was read from a step, which the macro cannot take.
func checkStep(_ isTrue: Bool, sourceLocation: SourceLocation = #_sourceLocation) {
    #expect(isTrue, sourceLocation: sourceLocation)
}
