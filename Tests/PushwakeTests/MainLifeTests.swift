import Foundation
import HandlersTestKit
import TestThreads
import Testing

@testable import Simulation

/// The order in which main's states follow each other, without processes.
@Suite(.ownThread) struct MainLifeTests {
    @Test(
        "W5 from every state of main there is a way to every other, and SIGKILL from each that has a process")
    func reachable() {
        for state in MainLife.State.allCases {
            let moves = MainLife.all.filter { $0.from == state }
            #expect(moves.contains { $0.move != .kill }, "\(state) is a dead end when nobody is killed")
            #expect(state == .gone || moves.contains { $0.move == .kill && $0.to == .gone }, "\(state)")
            #expect(MainLife.all.contains { $0.to == state }, "nothing leads to \(state)")
        }
        #expect(Set(MainLife.all).count == MainLife.all.count)
    }

    @Test(
        "W5 W6 whatever the seed, all of main's transitions are taken within a run of the usual length, with a kill a round",
        arguments: 0..<200)
    func everyTransition(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var life = MainLife()
        // 20 rounds of 4 moves, of which one may kill.
        for _ in 0..<20 {
            var mayKill = true
            for _ in 0..<4 {
                let passage = life.next(mayKill: mayKill, using: &random)
                #expect(passage.from == life.state && (mayKill || passage.move != .kill))
                if passage.move == .kill { mayKill = false }
                life.make(passage)
            }
        }
        #expect(life.missing.isEmpty, "never taken: \(life.missing)")
    }

    @Test("W6 a seed repeats the order of the transitions, and another one gives another order")
    func seeded() {
        func order(_ seed: UInt64) -> [MainLife.Passage] {
            var random = SeededGenerator(seed: seed)
            var life = MainLife()
            return (0..<100).map { _ in
                let passage = life.next(mayKill: true, using: &random)
                life.make(passage)
                return passage
            }
        }
        #expect(order(1) == order(1))
        #expect(order(1) != order(2))
    }

    @Test("W5 the plain way leads from every state to every settled one, and kills nobody")
    func ways() {
        for start in MainLife.State.allCases {
            for goal in [MainLife.State.gone, .foreground, .background] {
                var life = MainLife()
                // To the start, by whatever leads there.
                var random = SeededGenerator(seed: 1)
                while life.state != start { life.make(life.next(mayKill: true, using: &random)) }
                let way = life.way(to: goal)
                #expect(!way.contains { $0.move == .kill })
                for passage in way { life.make(passage) }
                #expect(life.state == goal, "from \(start) to \(goal)")
            }
        }
    }

    @Test("W6 moves that a server does not stand are never chosen, and not missed")
    func forbidden() {
        var random = SeededGenerator(seed: 3)
        var life = MainLife(forbidden: [.overtaken, .startBesideWorker, .callBesideWorker])
        for _ in 0..<500 { life.make(life.next(mayKill: true, using: &random)) }
        #expect(!life.counts.keys.contains { $0.move == .overtaken || $0.move == .callBesideWorker })
        #expect(life.missing.isEmpty && life.allowed.count == MainLife.all.count - 5)
    }

    @Test(
        "W6 what came of a move otherwise than by the rules is no transition, and the life goes on from there"
    )
    func otherEnd() {
        var life = MainLife()
        life.make(.init(from: .gone, move: .start, to: .opening))
        life.make(.init(from: .opening, move: .arrive, to: .foreground), endingIn: .background)
        #expect(life.state == .background && life.counts.count == 1)
    }

    @Test(
        "W6 the summary and the JSON name every transition with its count, also those that were never taken")
    func told() throws {
        var life = MainLife()
        life.make(.init(from: .gone, move: .start, to: .opening))
        let transitions = Verdict.transitions(life)
        #expect(transitions.count == MainLife.all.count && transitions.reduce(0) { $0 + $1.count } == 1)
        let text = Verdict.text(transitions)
        #expect(text.contains("Main changed its state 1 times, in 1 of the \(MainLife.all.count) ways"))
        #expect(text.contains("gone: start 1, start-beside-worker 0"))
        let json = String(decoding: try JSONEncoder().encode(transitions[0]), as: UTF8.self)
        #expect(json.contains("\"from\":\"gone\"") && json.contains("\"move\":\"start\""))
    }
}
