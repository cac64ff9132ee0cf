@testable import Handlers
import HandlersTestKit
import TestSupport
import TestThreads
import Testing

/// Notes when it was due, and how many times it missed.
private struct Chime: Handler {
    static let id = "calendar.chime"
    static let retry = RetryPolicy(attempts: 2, firstDelay: .seconds(1))
    var name = ""
    func run(_ call: borrowing Call<TimerFired>) throws {
        let missed = call.context.missed
        try call.step.note("\(call.context.dueAt)" + (missed > 0 ? " +\(missed)" : ""))
        guard let timer = try call.step.status(ofKey: "chime") else { return }
        switch name {
        case "pauses": try call.step.pause(timer.id)
        case "again":
            let calls = try call.step.first("SELECT count(*) FROM note") { $0.integer(0) } ?? 0
            if calls < 2 { try call.step.runNow(timer.id) }
        case "fails": throw Failure()
        default: break
        }
    }
}

@Suite(.ownThread, .engines(.sqlite, .postgres)) struct CalendarTimerTests {
    /// A Friday at noon, UTC; clocks in Zurich go forward in the night to Sunday.
    private static let friday = Timestamp(milliseconds: 1_774_612_800_000)

    private func withChime(_ body: (Rig) throws -> Void) throws {
        try withFolder { folder in
            try withRig(folder.file(), [Chime.self], clock: VirtualClock(wall: Self.friday), body)
        }
    }

    @discardableResult
    private func schedule(
        _ rig: Rig, _ expression: String = "0 9 * * *", missed: MissedTimes = .once, name: String = ""
    ) throws -> HandlerID<TimerFired> {
        try rig.store.step {
            try $0.schedule(
                Chime(name: name).durable, on: CalendarRule(expression, in: "Europe/Zurich"), missed: missed,
                key: "chime")
        }
    }

    @Test("H26 a timer is called at nine in Zurich, also when the clocks go forward, and exists once")
    func daily() throws {
        try withChime { rig in
            let id = try schedule(rig)
            for _ in 0..<3 {
                #expect(try schedule(rig) == id)
                try rig.runWhenDue(id)
            }
            #expect(
                try rig.store.notes() == [
                    "2026-03-28T08:00:00.000Z", "2026-03-29T07:00:00.000Z", "2026-03-30T07:00:00.000Z",
                ])
        }
    }

    @Test("H26 a program that schedules with another calendar changes the timer that waits")
    func changed() throws {
        try withChime { rig in
            let id = try schedule(rig)
            #expect(try schedule(rig, "30 14 * * *") == id)
            try rig.runWhenDue(id)
            #expect(try rig.store.notes() == ["2026-03-27T13:30:00.000Z"])
        }
    }

    @Test(
        "H26 missed times are skipped, called once or called one by one, up to a number",
        arguments: [
            (MissedTimes.skip, [String]()),
            (.once, ["2026-03-27T13:00:00.000Z +3"]),
            (.all(upTo: 2), ["2026-03-27T15:00:00.000Z +2", "2026-03-27T16:00:00.000Z"]),
            (
                .all(upTo: 10),
                (13...16).map { "2026-03-27T\($0):00:00.000Z" }
            ),
        ])
    func missed(missed: MissedTimes, calls: [String]) throws {
        try withChime { rig in
            let id = try schedule(rig, "0 * * * *", missed: missed)
            rig.clock.advance(by: .seconds(4 * 3600 + 120))
            for _ in 0..<6 { try rig.runner.runDue() }
            #expect(try rig.store.notes() == calls)
            try rig.runWhenDue(id)
            #expect(try rig.store.notes() == calls + ["2026-03-27T17:00:00.000Z"])
        }
    }

    @Test("H26 what is late for less than a minute is not missed")
    func punctual() throws {
        try withChime { rig in
            let id = try schedule(rig, "0 * * * *", missed: .skip)
            rig.clock.advance(by: .seconds(3 * 3600 + 59))
            try rig.runner.runDue()
            #expect(try rig.store.notes() == ["2026-03-27T15:00:00.000Z +2"])
            #expect(try rig.status(of: id)?.dueAt?.description == "2026-03-27T16:00:00.000Z")
        }
    }

    @Test("H26 a paused timer is not called until it is resumed, unless it is run by hand")
    func paused() throws {
        try withChime { rig in
            let id = try schedule(rig, "0 * * * *")
            try rig.store.step { try $0.pause(id) }
            #expect(try schedule(rig, "0 * * * *") == id)
            rig.clock.advance(by: .seconds(5400))
            try rig.runner.runDue()
            #expect(try rig.store.notes().isEmpty)

            try rig.store.step { try $0.runNow(id) }
            try rig.runner.runDue()
            #expect(try rig.store.notes() == ["2026-03-27T13:30:00.000Z"])
            #expect(try rig.store.read { try $0.calendarTimer(id) }?.times(3) == [])

            try rig.store.step { try $0.resume(id) }
            try rig.runWhenDue(id)
            #expect(try rig.store.notes().last == "2026-03-27T14:00:00.000Z")
        }
    }

    @Test("H26 a call by hand is made however late, and a time that has come is not lost with its rule")
    func late() throws {
        try withChime { rig in
            let id = try schedule(rig, "0 * * * *", missed: .skip)
            rig.clock.advance(by: .seconds(600))
            try rig.store.step { try $0.runNow(id) }
            rig.clock.advance(by: .seconds(600))
            try rig.runner.runDue()
            #expect(try rig.store.notes() == ["2026-03-27T12:10:00.000Z"])

            rig.clock.advance(by: .seconds(2400 + 30))
            #expect(try schedule(rig, "0 * * * 1-5") == id)
            try rig.runner.runDue()
            #expect(try rig.store.notes().last == "2026-03-27T13:00:00.000Z")
        }
    }

    @Test("H26 a time that was planned by a clock that was ahead is planned again at the next start")
    func clockAhead() throws {
        try withChime { rig in
            rig.clock.setWall(Self.friday + .seconds(365 * 86_400))
            let id = try schedule(rig)
            rig.clock.setWall(Self.friday)
            #expect(try schedule(rig) == id)
            #expect(try rig.status(of: id)?.dueAt?.description == "2026-03-28T08:00:00.000Z")
        }
    }

    @Test("H26 a call by hand leaves the times as they are")
    func byHand() throws {
        try withChime { rig in
            let id = try schedule(rig, "0 * * * *")
            rig.clock.advance(by: .seconds(600))
            try rig.store.step { try $0.runNow(id) }
            try rig.runner.runDue()
            try rig.runWhenDue(id)
            #expect(try rig.store.notes() == ["2026-03-27T12:10:00.000Z", "2026-03-27T13:00:00.000Z"])
        }
    }

    @Test("H26 a handler may pause its own timer, or have it called again")
    func own() throws {
        for (name, calls) in [("pauses", 1), ("again", 2)] {
            try withChime { rig in
                let id = try schedule(rig, "0 * * * *", name: name)
                try rig.runWhenDue(id)
                rig.clock.advance(by: .seconds(1))
                try rig.runner.runDue()
                #expect(try rig.store.notes().count == calls, "\(name)")
                #expect(try rig.store.read { try $0.calendarTimer(id) }?.isPaused == (name == "pauses"))
            }
        }
    }

    @Test("H26 a call that fails is tried again by itself, and the timer goes on")
    func failing() throws {
        try withChime { rig in
            let id = try schedule(rig, "0 * * * *", name: "fails")
            try rig.runWhenDue(id)
            #expect(try rig.status(of: id)?.dueAt?.description == "2026-03-27T14:00:00.000Z")
            #expect(try rig.handlers().count == 2)
        }
    }

    @Test("H26 the next ten times can be shown")
    func nextTimes() throws {
        try withChime { rig in
            let id = try schedule(rig, "0 9 * * mon")
            let times = try rig.store.read { try $0.calendarTimer(id) }?.times(10) ?? []
            #expect(times.first?.description == "2026-03-30T07:00:00.000Z")
            #expect(times.last?.description == "2026-06-01T07:00:00.000Z")
            #expect(times.count == 10)
        }
    }

    /// A timer that is due at the next hour, in a time zone that this machine does not know, and was called for.
    private func withUnknownZone(_ body: (Rig, String, HandlerID<TimerFired>) throws -> Void) throws {
        try withFolder { folder in
            let path = folder.file()
            try withRig(path, [Chime.self], clock: VirtualClock(wall: Self.friday)) { rig in
                let id = try schedule(rig, "0 * * * *")
                try rig.store.step {
                    _ = try $0.execute(
                        "UPDATE calendar SET time_zone = 'Europe/Atlantis' WHERE handler = ?", id)
                    try $0.schedule(Chime().durable, on: CalendarRule("0 * * * *", in: "UTC"))
                }
                try rig.runWhenDue(id)
                try body(rig, path, id)
            }
        }
    }

    private func findZone(_ rig: Rig, _ id: HandlerID<TimerFired>) throws {
        _ = try rig.store.step {
            try $0.execute("UPDATE calendar SET time_zone = 'Europe/Zurich' WHERE handler = ?", id)
        }
    }

    @Test("H26 a timer whose time zone this machine does not know is parked, and the others are called")
    func unknownZone() throws {
        try withUnknownZone { rig, _, id in
            #expect(try rig.store.notes() == ["2026-03-27T13:00:00.000Z"])
            let status = try rig.status(of: id)
            #expect(status?.state == .parked)
            #expect(status?.reason == Lack.zone("Europe/Atlantis").error().message)
            #expect(throws: HandlerError.self) { try rig.store.step { try $0.resume(id) } }
        }
    }

    @Test(
        "H26 a program that starts where the zone is known calls the parked timer for its time, and goes on")
    func knownZone() throws {
        try withUnknownZone { rig, path, id in
            // A start without the zone changes nothing.
            try withRig(path, [Chime.self], clock: rig.clock) { try $0.runner.runDue() }
            #expect(try rig.status(of: id)?.state == .parked)
            try findZone(rig, id)
            rig.clock.advance(by: .seconds(5400))
            try withRig(path, [Chime.self], clock: rig.clock) { other in
                try other.runner.runDue()
                let notes = try other.store.notes()
                #expect(notes.contains("2026-03-27T13:00:00.000Z +1"))
                #expect(try other.status(of: id)?.dueAt?.description == "2026-03-27T15:00:00.000Z")
                #expect(try other.status(of: id)?.reason == nil)
                try other.runWhenDue(id)
                #expect(try other.store.notes().last == "2026-03-27T15:00:00.000Z")
            }
        }
    }

    @Test("H26 a program that knows the zone and schedules the parked timer with its key has it called")
    func scheduledAgain() throws {
        try withUnknownZone { rig, _, id in
            #expect(try schedule(rig, "0 * * * *") == id)
            try rig.runner.runDue()
            #expect(try rig.store.notes() == ["2026-03-27T13:00:00.000Z", "2026-03-27T13:00:00.000Z"])
            #expect(try rig.status(of: id)?.dueAt?.description == "2026-03-27T14:00:00.000Z")
        }
    }

    @Test("H26 a timer whose calendar nobody can read is quarantined")
    func unreadable() throws {
        try withChime { rig in
            let id = try schedule(rig, "0 * * * *")
            try rig.store.step {
                _ = try $0.execute("UPDATE calendar SET time_zone = '../etc/passwd' WHERE handler = ?", id)
            }
            try rig.runWhenDue(id)
            #expect(try rig.status(of: id)?.state == .quarantined)
        }
    }

    @Test("H26 a timer that ends leaves nothing behind")
    func ended() throws {
        try withChime { rig in
            let id = try schedule(rig)
            try rig.store.step { try $0.invalidate(id, reason: .cancelled) }
            #expect(try rig.store.integer("SELECT count(*) FROM calendar") == 0)
            #expect(throws: HandlerError.self) { try rig.store.step { try $0.runNow(id) } }
            let other = try schedule(rig)
            #expect(other != id)
        }
    }
}
