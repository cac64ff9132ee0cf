import AccountTestSupport
import Handlers
import HandlersTestKit
import TestSupport
import TestThreads
import Testing
import XMPPCore
import XMPPTestKit

@testable import XMPPAccount

/// Handlers that an account has to end and that cannot end, because a row of the program refers to theirs or the store refuses it.
@Suite(.ownThread, .timeLimit(.minutes(2)), .engines(.sqlite, .postgres)) struct ReferredHandlerTests {
    /// Why the account ends a handler.
    enum Ending: String, CaseIterable, Sendable {
        case answered, timedOut, sessionLost, loggedOut, acknowledged
    }

    /// Why a handler cannot end.
    enum Obstacle: String, CaseIterable, Sendable {
        case referredToAtOnce, referredToAtCommit, refused
    }

    private static let schema = Schema(
        module: "referring",
        migrations: [
            """
            CREATE TABLE refers_at_once(handler INTEGER NOT NULL REFERENCES handler(id));
            CREATE TABLE refers_at_commit(
                handler INTEGER NOT NULL REFERENCES handler(id) DEFERRABLE INITIALLY DEFERRED);
            """
        ])

    /// Sends what has a handler.
    private func send(
        _ id: String, _ ending: Ending, _ rig: AccountRig, _ account: Account, in step: borrowing Step
    ) throws -> AnyHandlerID {
        let table: String
        if ending == .acknowledged {
            table = "outbox"
            _ = try account.send(
                Message(to: AccountRig.peer, id: id, body: "hello"),
                acknowledged: TestApp.Acknowledged(name: id).durable, in: step)
        } else {
            table = "request"
            let question = rig.question(id, want: ending == .answered ? "result" : "nothing")
            _ = try account.send(
                .iq(question), then: TestApp.Answered(name: id).durable,
                orElse: TestApp.Abandoned(name: id).durable, timeout: .seconds(30), in: step)
        }
        let handler = try step.first("SELECT handler FROM \(table) WHERE stanza_id = ?", id) {
            AnyHandlerID(rawValue: $0.integer(0))
        }
        return try #require(handler)
    }

    private func hinder(_ id: AnyHandlerID, _ obstacle: Obstacle, in step: borrowing Step) throws {
        switch obstacle {
        case .referredToAtOnce: try step.execute("INSERT INTO refers_at_once VALUES (?)", id)
        case .referredToAtCommit: try step.execute("INSERT INTO refers_at_commit VALUES (?)", id)
        case .refused: break
        }
    }

    /// Refuses to store how a handler ends or goes on.
    private func refuse(_ id: Kept<AnyHandlerID>, in store: HandlerStore) {
        store.refuseRows { sql, values in
            let id = SQLValue.integer(id.withLock { $0.rawValue })
            return sql.hasPrefix("DELETE FROM handler ") && values == [id]
                || sql.hasPrefix("UPDATE handler ") && values.last == id
                || sql.hasPrefix("INSERT INTO ending(") && values.first == id
        }
    }

    private func end(_ ending: Ending, _ rig: AccountRig, _ account: Account) async throws {
        let events = EventReader(account)
        switch ending {
        case .answered, .acknowledged: break
        case .timedOut: rig.clock?.advance(by: .seconds(31))
        case .sessionLost:
            rig.server.refuseNextResumption()
            rig.server.dropConnections()
            await events.until("suspended")
            try await account.connect()
        case .loggedOut:
            try await account.logOut()
            try await account.connect()
        }
    }

    @Test(
        "R1 a handler that cannot end costs only itself, however the account would end it",
        arguments: Ending.allCases, Obstacle.allCases)
    func costsOnlyItself(ending: Ending, obstacle: Obstacle) async throws {
        try await withRig(schemas: Account.coreSchemas + [Self.schema], clock: VirtualClock()) { rig in
            let account = try await rig.connected()
            try await account.caughtUp()
            let hindered = Kept(AnyHandlerID(rawValue: 0))
            if obstacle == .refused { refuse(hindered, in: account.store) }
            try await account.perform { step in
                _ = try send("before", ending, rig, account, in: step)
                let id = try send("hindered", ending, rig, account, in: step)
                _ = try send("after", ending, rig, account, in: step)
                try hinder(id, obstacle, in: step)
                hindered.withLock { $0 = id }
            }
            try await end(ending, rig, account)
            let what =
                switch ending {
                case .answered, .timedOut: "ended"
                case .sessionLost, .loggedOut: "abandoned"
                case .acknowledged: "acknowledged"
                }
            try await eventually("the others have ended") {
                try account.store.notes(what).count == 2
            }
            // The stream goes on.
            try await account.tell("last")
            try await eventually { try account.store.notes("acknowledged").contains("last: last") }
            #expect(
                rig.server.log.entries.count { $0.event == .bound }
                    == ([.sessionLost, .loggedOut].contains(ending) ? 2 : 1))
            #expect(rig.server.log.entries.count { $0.event == .resumed } == 0)
            try await rig.expectAllCounted(account)
            account.store.refuseRows(nil)
            #expect(try account.store.notes(what).allSatisfy { !$0.hasPrefix("hindered") })
            let id = hindered.withLock { $0 }
            let status = try #require(try account.store.read { try $0.status(of: id) })
            guard obstacle != .refused else { return #expect(status.state == .pending) }
            #expect(status.state == .quarantined)
            #expect(status.reason?.contains("another row refers to this handler") == true)
        }
    }
}
