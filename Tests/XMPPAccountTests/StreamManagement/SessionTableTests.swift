import Handlers
import TestThreads
import Testing
import XMPPCore

@testable import XMPPAccount

/// The stored state of a session, without account and stream.
@Suite("The session row", .ownThread) struct SessionTableTests {
    static let table = SessionTable(account: 1)

    static func bound(resumptionID: String? = "id", window: Int64? = nil) throws -> BoundSession {
        BoundSession(
            fullJID: try JID("a@b/c"), isManaged: true, resumptionID: resumptionID, location: "there",
            window: window.map { .seconds($0) })
    }

    @Test("S2 a bound session starts at zero under the next number and can be resumed") func bind()
        async throws
    {
        try await OutboxTests.withStep { step in
            checkStep(try Self.table.load(in: step).number == 0)
            checkStep(try Self.table.openNumber(in: step) == nil)
            try Self.table.start(Self.bound(), in: step)
            try Self.table.advance(
                received: HandledCount(rawValue: 7), connectedTime: .milliseconds(50), in: step)
            try Self.table.setAcknowledged(HandledCount(rawValue: 3), in: step)
            var state = try Self.table.load(in: step)
            #expect(
                state.received == HandledCount(rawValue: 7) && state.acknowledged == HandledCount(rawValue: 3)
            )
            checkStep(try Self.table.openNumber(in: step) == 1)
            try Self.table.start(Self.bound(), in: step)
            state = try Self.table.load(in: step)
            #expect(state.number == 2 && state.isManaged && state.resumptionID == "id" && state.wasResumable)
            #expect(
                state.received == HandledCount(rawValue: 0) && state.acknowledged == HandledCount(rawValue: 0)
            )
            #expect(state.connectedTime == .milliseconds(50))
        }
    }

    @Test("S2 a suspended session keeps its counts and goes on under its number") func suspend() async throws
    {
        try await OutboxTests.withStep { step in
            try Self.table.start(Self.bound(), in: step)
            try Self.table.advance(
                received: HandledCount(rawValue: 7), connectedTime: .milliseconds(1), in: step)
            try Self.table.suspend(connectedTime: .milliseconds(90), in: step)
            checkStep(try Self.table.openNumber(in: step) == nil)
            try Self.table.resume(in: step)
            let state = try Self.table.load(in: step)
            checkStep(try Self.table.openNumber(in: step) == 1)
            #expect(state.received == HandledCount(rawValue: 7) && state.connectedTime == .milliseconds(90))
        }
    }

    @Test("S9 a session that is lost cannot be resumed and carries nothing more") func lose() async throws {
        try await OutboxTests.withStep { step in
            try Self.table.start(Self.bound(), in: step)
            try Self.table.lose(in: step)
            let state = try Self.table.load(in: step)
            #expect(state.resumptionID == nil && !state.isManaged && state.wasResumable)
            checkStep(try Self.table.openNumber(in: step) == nil)
            #expect(!state.canResume(now: Timestamp(milliseconds: 0)))
        }
    }

    @Test("S5 deferred stanzas hold the count back until each is settled, once") func deferred() async throws
    {
        try await OutboxTests.withStep { step in
            try Self.table.start(Self.bound(), in: step)
            try Self.table.advance(
                received: HandledCount(rawValue: 5), connectedTime: .milliseconds(0), in: step)
            let stanza = DeferredStanza(session: 1, number: 3)
            try Self.table.defer(stanza, in: step)
            try Self.table.defer(stanza, in: step)
            var management = try Self.table.load(in: step).management(AcknowledgementPolicy())
            #expect(management.h == HandledCount(rawValue: 2))
            checkStep(try Self.table.settle(stanza, in: step))
            checkStep(try !Self.table.settle(stanza, in: step))
            management = try Self.table.load(in: step).management(AcknowledgementPolicy())
            #expect(management.h == HandledCount(rawValue: 5))
        }
    }

    @Test("X18 the same damage at the same place is recognized; other damage, or another place, is new")
    func damage() async throws {
        try await OutboxTests.withStep { step in
            let error = try #require(Self.parserError("<stream><a></b>"))
            func damage(at position: UInt32) -> SessionTable.Damage {
                .init(position: HandledCount(rawValue: position), error)
            }
            checkStep(try !Self.table.meet(damage(at: 1), in: step))
            checkStep(try Self.table.meet(damage(at: 1), in: step))
            checkStep(try !Self.table.meet(damage(at: 2), in: step))
            checkStep(try !Self.table.meet(damage(at: 1), in: step))
        }
    }

    private static func parserError(_ xml: String) -> StreamParserError? {
        do throws(StreamParserError) {
            _ = try StreamParser().parse(Array(xml.utf8))
            return nil
        } catch {
            return error
        }
    }

    static let idleTimes: [(window: Int64?, idle: Int64, isKept: Bool)] = [
        (10, 9_999, true), (10, 11_000, false), (10, -5, true), (nil, 1_000_000, true),
    ]

    @Test(
        "S2 a session is likely kept within the server's window, and after a clock that was set back",
        arguments: idleTimes)
    func likelyKept(window: Int64?, idle: Int64, isKept: Bool) async throws {
        try await OutboxTests.withStep { step in
            try Self.table.start(Self.bound(window: window), in: step)
            checkStep(try Self.table.load(in: step).canResume(now: step.now + .milliseconds(idle)) == isKept)
        }
    }
}
