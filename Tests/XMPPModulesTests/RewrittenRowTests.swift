import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore

@testable import XMPPAccount
@testable import XMPPModules

/// What is left of a row that is written again under its key.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct RewrittenRowTests {
    private static let room = try! JID("room@localhost")  // A constant that is an address.

    private func withStore(_ body: (borrowing Step) throws -> Void) throws {
        let folder = try TemporaryFolder()
        let store = try HandlerStore(
            path: folder.path + "/store.db", registry: HandlerRegistry(), schemas: Account.schemas,
            synchronous: .normal)
        try store.step { step in
            try step.execute("INSERT INTO account(id, jid) VALUES (1, 'alice@localhost')")
            try body(step)
        }
    }

    @Test("S17 a push registration that is made again is pending, without the error of the first one")
    func push() throws {
        try withStore { step in
            let table = PushTable(account: 1)
            let registration = PushRegistration(service: Self.room, node: "n")
            try table.set(registration, asked: "1", in: step)
            try table.setState(.refused(StanzaError(.conflict)), asked: "1", in: step)
            try table.set(registration, asked: "2", in: step)
            let all = try table.all(in: step)
            #expect(all.map(\.state) == [.pending])
            #expect(all.map(\.asked) == ["2"])
            let errors = try step.first("SELECT count(error) FROM push_registration") {
                (row) throws(HandlerError) in row.integer(0)
            }
            #expect(errors == 0)
        }
    }

    @Test("S17 presence that is sent again is not late any more")
    func presence() throws {
        try withStore { step in
            let table = OwnPresenceTable(account: 1)
            try table.set(Presence().element, in: step)
            try table.setLate(in: step)
            let isLate = try table.isLate(in: step)
            try table.set(Presence(type: .unavailable).element, in: step)
            let isLateStill = try table.isLate(in: step)
            #expect(isLate && !isLateStill)
            let type = try table.current(in: step)?.type
            #expect(type == .unavailable)
        }
    }

    @Test(
        "S17 an occupant that takes the nick of another one takes its place; one that is not known changes nothing",
        arguments: [
            ("a", "b", ["b a@localhost"]), ("a", "c", ["b b@localhost", "c a@localhost"]),
            ("a", "a", ["a a@localhost", "b b@localhost"]), ("x", "b", ["a a@localhost", "b b@localhost"]),
        ])
    func rename(old: String, new: String, left: [String]) throws {
        try withStore { step in
            let table = RoomTable(account: 1)
            for nick in ["a", "b"] {
                let occupant = RoomOccupant(
                    nick: ForeignText(nick), jid: try JID("\(nick)@localhost"), affiliation: .member,
                    role: .participant)
                try table.set(occupant, of: Self.room, in: step)
            }
            try table.rename(ForeignText(old), to: ForeignText(new), of: Self.room, in: step)
            let occupants = try table.occupants(of: Self.room, in: step)
            #expect(occupants.map { "\($0.nick) \($0.jid?.description ?? "")" } == left)
        }
    }

    @Test("S17 the cursor of a room never goes back but to the first message that is handled later")
    func roomTimes() throws {
        try withStore { step in
            let table = RoomTable(account: 1)
            try step.execute(
                """
                INSERT INTO room(account, jid, nick, state, history, ticket)
                VALUES (1, 'room@localhost', 'a', 'joined', x'', '')
                """)
            func times() throws -> [Int64?] {
                try step.first("SELECT last_time, kept_time FROM room") { (row) throws(HandlerError) in
                    [row.optionalInteger(0), row.optionalInteger(1)]
                } ?? []
            }
            var seen: [[Int64?]] = []
            for time in [20, 30, 10] as [Int64] {
                try table.advance(
                    Self.room, archiveID: nil, time: Timestamp(milliseconds: time), connectedTime: 0, in: step
                )
                seen.append(try times())
            }
            for time in [25, 15, 18] as [Int64] {
                try table.keepTime(Timestamp(milliseconds: time), of: Self.room, in: step)
                seen.append(try times())
            }
            try table.goBack(in: step)
            seen.append(try times())
            try table.keepTime(Timestamp(milliseconds: 40), of: Self.room, in: step)
            try table.goBack(in: step)
            seen.append(try times())
            #expect(
                seen == [
                    [20, nil], [30, nil], [30, nil], [30, 25], [30, 15], [30, 15], [15, nil], [15, nil],
                ])
        }
    }

    @Test("S17 the place in an archive moves by its own catch-up only, and its time never goes back or ahead")
    func archiveTimes() throws {
        try withStore { step in
            let table = ArchiveTable(account: 1)
            try table.enqueue(Self.room, since: nil, in: step)
            try table.add("up", of: Self.room, asked: nil, isCatchUp: true, in: step)
            try table.add("history", of: Self.room, asked: nil, isCatchUp: false, in: step)
            func advance(_ query: ForeignText, _ id: ForeignText, _ time: Int64?) throws -> Bool {
                try table.advance(
                    Self.room, by: query, to: id, at: time.map(Timestamp.init(milliseconds:)), in: step)
            }
            let moved = [
                try advance("up", "1", nil), try advance("history", "2", 5), try advance("none", "3", 5),
            ]
            #expect(moved == [true, false, false])
            var times: [Int64?] = [try table.lastTime(in: Self.room, in: step)?.milliseconds]
            for time in [20, 10, .max] as [Int64] {
                _ = try advance("up", "4", time)
                times.append(try table.lastTime(in: Self.room, in: step)?.milliseconds)
            }
            #expect(times == [0, 20, 20, step.now.milliseconds])
            try table.keepPlace(in: Self.room, isNamed: true, at: Timestamp(milliseconds: 7), in: step)
            try table.keepPlace(in: Self.room, isNamed: true, at: Timestamp(milliseconds: 9), in: step)
            try table.goBack(in: step)
            let back = try table.lastTime(in: Self.room, in: step)
            #expect(back?.milliseconds == 7)
        }
    }
}
