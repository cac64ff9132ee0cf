import HandlersTestKit
import TestThreads
import Testing

@testable import Handlers

/// The token bucket and the places of a lane, without a store.
@Suite(.ownThread) struct LaneGateTests {
    private static let start = Timestamp(milliseconds: 1_750_000_000_000)

    private func gate(_ rule: LaneRule) -> LaneGate {
        var gate = LaneGate()
        gate.set(rule, Self.start)
        return gate
    }

    /// Starts entries as soon as they may, and returns when each started, in milliseconds.
    private func starts(_ gate: inout LaneGate, _ count: Int) -> [Int64] {
        var (now, found) = (Self.start, [Int64]())
        for id in 1...count {
            guard let start = gate.nextStart(now) else { break }
            gate.admit(AnyHandlerID(rawValue: Int64(id)), at: start, now)
            now = max(now, start)
            gate.started(AnyHandlerID(rawValue: Int64(id)), now)
            found.append(now - Self.start == .zero ? 0 : (now - Self.start).milliseconds)
        }
        return found
    }

    @Test("H27 a rate lets its number start at once, then one for each part of the period")
    func bucket() {
        var gate = gate(LaneRule("r", rate: LaneRate(3, per: .seconds(1))))
        #expect(starts(&gate, 7) == [0, 0, 0, 334, 667, 1000, 1334])
    }

    @Test("H27 no stretch of time has more starts than the rate and one bucket", arguments: [1, 7, 100])
    func bound(count: Int) {
        var random = SeededGenerator(seed: UInt64(count))
        let period: Int64 = 1000
        var gate = gate(LaneRule("r", rate: LaneRate(count, per: .milliseconds(period))))
        var (now, times) = (Self.start, [Timestamp]())
        for id in 1...400 {
            if Bool.random(using: &random) {
                let pause = Int64.random(in: 0...(3 * period / Int64(count)), using: &random)
                now = now + .milliseconds(pause)
            }
            guard let start = gate.nextStart(now) else { continue }
            let entry = AnyHandlerID(rawValue: Int64(id))
            gate.admit(entry, at: start, now)
            now = max(now, start)
            gate.started(entry, now)
            times.append(now)
        }
        var tooMany = 0
        for (index, first) in times.enumerated() {
            for (length, last) in times[index...].enumerated() where length > 0 {
                let stretch = (last - first).milliseconds
                let most = Int64(count) + (stretch * Int64(count) + period - 1) / period
                if length + 1 > most { tooMany += 1 }
            }
        }
        #expect(tooMany == 0 && times.count > 100)
    }

    @Test("H27 a clock that is set back holds a lane up for a period at most")
    func setBack() {
        for count in [1, 5] {
            var gate = gate(LaneRule("r", rate: LaneRate(count, per: .seconds(60))))
            _ = starts(&gate, count)
            let earlier = Timestamp(milliseconds: Self.start.milliseconds - 86_400_000)
            let next = gate.nextStart(earlier)
            #expect(next.map { $0 <= earlier + .seconds(60) } == true, "\(next as Any)")
        }
    }

    @Test("H27 one entry waits for the next token; when it goes before that, the token is free again")
    func waits() {
        var gate = gate(LaneRule("r", rate: LaneRate(1, per: .seconds(10))))
        gate.admit(AnyHandlerID(rawValue: 1), at: Self.start, Self.start)
        let next = gate.nextStart(Self.start)
        #expect(next == Self.start + .seconds(10))
        gate.admit(AnyHandlerID(rawValue: 2), at: Self.start + .seconds(10), Self.start)
        #expect(gate.nextStart(Self.start) == nil)
        gate.leave(AnyHandlerID(rawValue: 2))
        #expect(gate.nextStart(Self.start) == next)
        #expect(gate.running == 1)
    }

    @Test("H27 a new rate counts what the old one spent")
    func changed() {
        var gate = gate(LaneRule("r", rate: LaneRate(2, per: .seconds(10))))
        _ = starts(&gate, 2)
        gate.set(LaneRule("r", rate: LaneRate(10, per: .seconds(10))), Self.start)
        #expect(gate.nextStart(Self.start) == Self.start + .seconds(1))
        gate.set(LaneRule("r", concurrency: 3), Self.start)
        #expect(gate.nextStart(Self.start) == Self.start)
    }

    @Test("H27 with a new rate, the entry that waits for its token has it when the new rate has one")
    func changedWhileWaiting() {
        let hourly = LaneRule("r", rate: LaneRate(1, per: .seconds(3600)))
        for (rule, wait) in [
            (LaneRule("r", rate: LaneRate(100, per: .seconds(3600))), Int64(36)),
            (LaneRule("r", rate: LaneRate(1, per: .seconds(60))), 60),
            (LaneRule("r", rate: LaneRate(1, per: .seconds(86_400))), 86_400),
        ] {
            var gate = gate(hourly)
            for id in 1...2 {
                gate.admit(AnyHandlerID(rawValue: Int64(id)), at: gate.nextStart(Self.start)!, Self.start)
            }
            gate.set(rule, Self.start)
            #expect(gate.tokenWaiter == 2 && gate.tokenAt == Self.start + .seconds(wait), "\(rule)")
            // The next entry has the token after that.
            let start = Self.start + .seconds(wait)
            gate.started(AnyHandlerID(rawValue: 2), Self.start)
            let period = rule.rate!.period / rule.rate!.count
            #expect(gate.nextStart(start) == start + period, "\(rule)")
        }
        var gate = gate(hourly)
        for id in 1...2 {
            gate.admit(AnyHandlerID(rawValue: Int64(id)), at: gate.nextStart(Self.start)!, Self.start)
        }
        gate.set(LaneRule("r", concurrency: 9), Self.start)
        #expect(gate.tokenWaiter == nil && gate.running == 2)
    }
}
