import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPModules
import TestServers

@testable import Simulation

/// A worker that finds much, small enough for every day; `pushwake backlog` is the whole one.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(5)))
struct BacklogTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func simulation(_ world: any SimulationWorld, limits: WorkerLimits) throws -> SimulationRun {
        SimulationRun(
            .init(rounds: 1, kills: 0, seed: 31, limits: limits), world: world, folder: folder.path,
            program: try BuiltProduct.path("pushwake"), complain: { print($0) })
    }

    /// A debug build may take a third more than the 24 MiB to which `make torture` holds the release build.
    private static let mebibytes = 32

    @Test(
        "W3 what waited is done over several wakes when each has little time, and so is the end of a session with thousands of requests: embedded server"
    )
    func severalWakes() throws {
        let world = try EmbeddedWorld(folder: folder.path)
        defer { world.close() }
        let result = try simulation(world, limits: WorkerLimits(mebibytes: Self.mebibytes, time: .seconds(2)))
            .run(
                .init(messages: 3000, answers: 300, pending: 25_000, losesSession: true)
            ) { _ in }
        let rest = try #require(result.rest)
        #expect(rest.isGood, "\(rest)")
        #expect(rest.limits.memory == 0, "a worker was killed for its memory")
        #expect((1...Double(Self.mebibytes)).contains(result.wakes.peakMib))
        #expect(rest.messages.sent == 3000 && rest.handlers.result >= 300)
        #expect(result.pendingLeft == 25_000)
        #expect(result.settled == 25_000)
        let settling = try #require(result.settling)
        // A machine that is very busy may let one be killed; nothing is lost by that either.
        let wakes = result.wakes.count + settling.count
        #expect(wakes > 2, "one wake had time enough, so nothing was shown about leaving something")
        let early =
            result.wakes.shortOfTime + settling.shortOfTime + result.wakes.killed + settling.killed
        // The last one of each may have been done just when its time was over.
        #expect((0...2).contains(wakes - early), "\(early) of \(wakes)")
    }

    @Test("W3 messages and answers that waited are done, and what is pending is left alone: Prosody")
    func onProsody() throws {
        let world = try RealServerWorld(.prosody, folder: folder.path)
        defer { world.close() }
        let result = try simulation(
            world, limits: WorkerLimits(mebibytes: Self.mebibytes, time: .seconds(30))
        ).run(
            .init(messages: 1000, answers: 100, pending: 1000)
        ) { _ in }
        #expect(result.isGood, "\(result)")
        #expect(result.rest?.messages.sent == 1000 && result.pendingLeft == 1000)
    }

    @Test("W3 a wake reads no more of a store in which thousands of requests are pending than of one without")
    func readsNoMore() throws {
        let world = try EmbeddedWorld(folder: folder.path)
        defer { world.close() }
        let simulation = try simulation(world, limits: WorkerLimits())
        try simulation.bring(to: .foreground)
        try simulation.bring(to: .gone)
        let empty = try simulation.readsOfWorker()
        let store = try HandlerStore(
            path: simulation.storePath, registry: HandlerRegistry(SimulationApp.handlers),
            schemas: Account.schemas + [SimulationApp.schema])
        try SimulationApp.addStrangers(20_000, to: store)
        let pages = try store.step { step in
            try step.first("PRAGMA page_count") { (row) throws(HandlerError) in Int(row.integer(0)) }
        }
        let full = try simulation.readsOfWorker()
        #expect(empty > 0 && (pages ?? 0) > 1000, "was anything read, or stored at all?")
        // Deeper trees cost some pages; the tables have more than a thousand.
        #expect(full < empty + 100, "\(full) reads, \(empty) without")
    }

    @Test(
        "W3 the verdict on a backlog can be bad: a request that is gone, a worker that was killed, a message that is lost"
    )
    func badVerdict() {
        var good = BacklogVerdict(
            server: "embedded", seed: 1, messages: 1, answers: 1, pending: 5, limitsKeptBy: "none")
        var rest = Verdict(server: "embedded", seed: 1, rounds: 1)
        (rest.handlers.bound, rest.handlers.result) = (1, 1)
        (rest.messages.sent, rest.events.published) = (1, 1)
        (good.rest, good.pendingLeft) = (rest, 5)
        #expect(good.isGood && good.summary.contains("The backlog is done."))
        var bad = good
        bad.pendingLeft = 4
        #expect(!bad.isGood && bad.summary.contains("THE PROMISE WAS BROKEN."))
        bad = good
        bad.wakes.killed = 1
        #expect(!bad.isGood)
        bad = good
        bad.rest?.messages.lost = 1
        #expect(!bad.isGood)
        bad = good
        bad.settling = .init()
        #expect(!bad.isGood, "they did not all end")
    }
}
