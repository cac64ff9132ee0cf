import Handlers
import Simulation
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import TestServers

/// Real processes, real kills, and a peer with a log of its own as the oracle.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(30)))
struct KillTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func simulation(
        _ world: any SimulationWorld, rounds: Int = 1, kills: Int = 0, seed: UInt64,
        variables: [String: String] = [:]
    ) throws -> SimulationRun {
        SimulationRun(
            .init(rounds: rounds, kills: kills, seed: seed), world: world, folder: folder.path,
            program: try BuiltProduct.path("pushwake"), environment: variables, complain: { print($0) })
    }

    private func expectGood(_ verdict: Verdict, sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(verdict.handlers.lost == 0, "handlers lost: \(verdict)", sourceLocation: sourceLocation)
        #expect(
            verdict.handlers.repeated == 0, "handlers repeated: \(verdict)", sourceLocation: sourceLocation)
        #expect(verdict.handlers.pending == 0, "handlers pending: \(verdict)", sourceLocation: sourceLocation)
        #expect(verdict.messages.lost == 0, "messages lost: \(verdict)", sourceLocation: sourceLocation)
        #expect(
            verdict.messages.repeated == 0, "messages repeated: \(verdict)", sourceLocation: sourceLocation)
        #expect(verdict.events.lost == 0, "events lost: \(verdict)", sourceLocation: sourceLocation)
        #expect(verdict.events.repeated == 0, "events repeated: \(verdict)", sourceLocation: sourceLocation)
        // A verdict over nothing proves nothing.
        #expect(verdict.handlers.result > 0 && verdict.messages.sent > 0, sourceLocation: sourceLocation)
        #expect(verdict.events.published > 0, sourceLocation: sourceLocation)
        #expect(
            verdict.owners.epochs > 1 && verdict.owners.staleCommits == 0, "\(verdict.owners)",
            sourceLocation: sourceLocation)
        #expect(
            verdict.owners.staleStanzas ?? 0 == 0, "two on one stream: \(verdict.owners)",
            sourceLocation: sourceLocation)
    }

    static func targets(_ role: AccountRole) -> [SimulationRun.Target] {
        // Nobody repairs handlers here; the tests of the runtime kill a program that does.
        Failpoint.allCases.filter { $0 != .beforeRequeue }.map { .init(role: role, failpoint: $0) }
    }

    // MARK: Named places

    @Test(
        "W6 SIGKILL at every failpoint loses and repeats nothing: embedded server",
        arguments: [AccountRole.main, .worker])
    func everyFailpoint(role: AccountRole) throws {
        let world = try EmbeddedWorld(folder: folder.path)
        defer { world.close() }
        let (verdict, unreached) = try simulation(world, seed: 1).run(killingAt: Self.targets(role))
        #expect(unreached.isEmpty, "never reached: \(unreached)")
        #expect(verdict.rebound > 0, "no session was lost, so nothing was shown about that")
        expectGood(verdict)
    }

    @Test(
        "W6 SIGKILL at every failpoint loses and repeats nothing: Prosody",
        arguments: [AccountRole.main, .worker])
    func everyFailpointOnProsody(role: AccountRole) throws {
        // Short, so that Prosody forgets sessions while the test waits.
        let world = try RealServerWorld(.prosody, folder: folder.path, hibernation: .seconds(2))
        defer { world.close() }
        let (verdict, unreached) = try simulation(world, seed: 2).run(killingAt: Self.targets(role))
        #expect(unreached.isEmpty, "never reached: \(unreached)")
        #expect(verdict.rebound > 0, "no session was lost, so nothing was shown about that")
        expectGood(verdict)
    }

    // MARK: Random moments

    @Test("W6 random kills of main and worker lose and repeat nothing: embedded server")
    func randomKills() throws {
        let world = try EmbeddedWorld(folder: folder.path)
        defer { world.close() }
        let verdict = try simulation(world, rounds: 25, kills: 100, seed: 3).run { _, _ in }
        #expect(verdict.kills.main + verdict.kills.worker == 100)
        expectGood(verdict)
    }

    @Test(
        "W5 W6 main goes through every transition of its life in a run of the usual length, and nothing is lost or repeated"
    )
    func everyTransition() throws {
        let world = try EmbeddedWorld(folder: folder.path)
        defer { world.close() }
        let verdict = try simulation(world, rounds: 20, kills: 20, seed: 21).run { _, _ in }
        let missing = verdict.transitions.filter { $0.count == 0 }
        #expect(verdict.transitions.count == MainLife.all.count && missing.isEmpty, "never: \(missing)")
        #expect(verdict.handedOver > 0, "no worker gave the stream to main")
        #expect(verdict.owners.staleStanzas == 0)
        expectGood(verdict)
    }

    @Test("W6 a peer is held back while too much of it is not stored, and all that it sends is counted")
    func flowControl() throws {
        let world = try EmbeddedWorld(folder: folder.path)
        defer { world.close() }
        let simulation = try simulation(world, rounds: 14, kills: 28, seed: 12)
        // What some kills in a row leave unstored is more.
        simulation.flow.most = 10
        simulation.flow.few = 5
        let verdict = try simulation.run { _, _ in }
        #expect(verdict.heldBack > 1, "a peer that was held back once goes on and is held back again")
        expectGood(verdict)
    }

    @Test("W6 random kills of main and worker lose and repeat nothing: Prosody")
    func randomKillsOnProsody() throws {
        let world = try RealServerWorld(.prosody, folder: folder.path)
        defer { world.close() }
        let verdict = try simulation(world, rounds: 10, kills: 30, seed: 4).run { _, _ in }
        #expect(verdict.kills.main + verdict.kills.worker == 30)
        expectGood(verdict)
    }

    @Test("W6 random kills of main and worker lose and repeat nothing: ejabberd")
    func randomKillsOnEjabberd() throws {
        let world = try RealServerWorld(.ejabberd, folder: folder.path)
        defer { world.close() }
        let verdict = try simulation(world, rounds: 6, kills: 16, seed: 11).run { _, _ in }
        #expect(verdict.kills.main + verdict.kills.worker == 16)
        expectGood(verdict)
    }

    @Test(
        "W6 S13 kills while lines break, main freezes, sessions expire and the server restarts: nothing lost, nothing repeated"
    )
    func faults() throws {
        let world = try RealServerWorld(.prosody, folder: folder.path, hibernation: .seconds(2))
        defer { world.close() }
        let simulation = SimulationRun(
            .init(rounds: 20, kills: 35, seed: 10, hasFaults: true), world: world, folder: folder.path,
            program: try BuiltProduct.path("pushwake"), complain: { print($0) })
        let verdict = try simulation.run { _, _ in }
        #expect(verdict.kills.main + verdict.kills.worker >= 35)
        let faults = verdict.faults
        #expect(faults.resets > 0 && faults.halfOpen > 0 && faults.frozen > 0, "\(faults)")
        #expect(faults.expired > 0 && faults.restarts > 0 && verdict.rebound > 0, "\(faults)")
        expectGood(verdict)
    }

    // MARK: A frozen owner

    /// Places outside a transaction: arrived but not committed, committed but not written, written, about to
    /// acknowledge.
    static let frozenPlaces: [Failpoint] = [.afterRead, .afterCommit, .afterWrite, .beforeAcknowledge]

    @Test(
        "W4 a frozen main is passed over, and thawed it can neither commit nor acknowledge: embedded server",
        arguments: frozenPlaces)
    func frozenOwner(place: Failpoint) throws {
        let world = try EmbeddedWorld(folder: folder.path)
        defer { world.close() }
        let (verdict, status) = try simulation(world, seed: 5).run(freezingAt: place)
        #expect(status == 3, "main did not notice that it had lost the stream")
        expectGood(verdict)
        #expect(world.staleStanzas() == 0)
    }

    @Test(
        "W4 a frozen main is passed over, and thawed it can neither commit nor acknowledge: Prosody",
        arguments: [Failpoint.afterRead, .afterCommit])
    func frozenOwnerOnProsody(place: Failpoint) throws {
        let world = try RealServerWorld(.prosody, folder: folder.path)
        defer { world.close() }
        let (verdict, status) = try simulation(world, seed: 6).run(freezingAt: place)
        #expect(status == 3, "main did not notice that it had lost the stream")
        expectGood(verdict)
    }

    @Test(
        "W4 a main that is frozen inside a transaction blocks with a clear error and loses nothing when it is killed"
    )
    func frozenInTransaction() throws {
        let world = try EmbeddedWorld(folder: folder.path)
        defer { world.close() }
        let (verdict, complaint) = try simulation(world, seed: 9).runFreezingInTransaction()
        #expect(complaint.contains("is locked by another process; wait for it"))
        expectGood(verdict)
    }

    // MARK: The harness itself

    @Test("W6 the harness can fail: with the count committed apart from the handlers it reports a loss")
    func splitCommitIsCaught() throws {
        let world = try EmbeddedWorld(folder: folder.path)
        defer { world.close() }
        let simulation = try simulation(
            world, seed: 7, variables: ["HANDLERS_MUTATION": BuiltInFault.splitCommit.rawValue])
        // What is lost never arrives: there is no use in waiting long for it.
        simulation.settleLimit = .seconds(3)
        let (verdict, _) = try simulation.run(
            killingAt: Array(repeating: .init(role: .worker, failpoint: .beforeHandler), count: 6))
        #expect(!verdict.isGood, "the fault built in on purpose was not noticed: \(verdict)")
        #expect(verdict.messages.lost + verdict.handlers.lost + verdict.handlers.pending > 0)
    }

    /// What is committed and not acknowledged when a session expires comes again in the next one.
    static let beforeAcknowledging = Array(
        repeating: SimulationRun.Target(role: .main, failpoint: .beforeAcknowledge), count: 6)

    @Test("W6 the harness can fail: with copies taken for new messages it reports repeats")
    func forgottenDuplicatesAreCaught() throws {
        let world = try EmbeddedWorld(folder: folder.path)
        defer { world.close() }
        let (verdict, _) = try simulation(
            world, seed: 13, variables: ["HANDLERS_MUTATION": BuiltInFault.forgetDuplicates.rawValue]
        ).run(killingAt: Self.beforeAcknowledging, expiring: true)
        #expect(verdict.rebound > 0)
        #expect(
            verdict.messages.repeated > 0, "the fault built in on purpose was not noticed: \(verdict)")
    }

    @Test("W6 copies of what was handled in a session that expired are recognized")
    func duplicatesAreRecognized() throws {
        let world = try EmbeddedWorld(folder: folder.path)
        defer { world.close() }
        let (verdict, unreached) = try simulation(world, seed: 13).run(
            killingAt: Self.beforeAcknowledging, expiring: true)
        #expect(unreached.isEmpty, "never reached: \(unreached)")
        #expect(verdict.rebound >= Self.beforeAcknowledging.count)
        expectGood(verdict)
    }

    @Test("W4 the harness can fail: without the fence a main that was passed over goes on")
    func missingFenceIsCaught() throws {
        let world = try EmbeddedWorld(folder: folder.path)
        defer { world.close() }
        let simulation = try simulation(
            world, seed: 5, variables: ["HANDLERS_MUTATION": BuiltInFault.noFence.rawValue])
        simulation.settleLimit = .seconds(3)
        let (verdict, status) = try simulation.run(freezingAt: .afterRead)
        // What it then loses or repeats depends on what had arrived; that it goes on does not.
        #expect(status == nil, "main ended although nothing told it to: \(verdict)")
        #expect(!verdict.isGood && verdict.owners.staleCommits > 0, "nobody saw it commit: \(verdict.owners)")
    }
}

@Suite(.ownThread, .timeLimit(.minutes(30)))
struct SystemCallKillTests {
    /// The calls are shared out, so that the shares run side by side.
    static let parts = 2

    @Test("W6 SIGKILL before every system call of a worker loses and repeats nothing", arguments: 0..<parts)
    func everySystemCall(part: Int) throws {
        let folder = try TemporaryFolder()
        let world = try EmbeddedWorld(folder: folder.path)
        defer { world.close() }
        let simulation = SimulationRun(
            .init(rounds: 1, kills: 0, seed: 8), world: world, folder: folder.path,
            program: try BuiltProduct.path("pushwake"), complain: { print($0) })
        let (verdict, calls, killed) = try simulation.runKillingBeforeSystemCalls(part: part, of: Self.parts)
        #expect(verdict.isGood, "\(verdict)")
        #expect(calls > 100, "a worker makes more system calls than that; was it traced at all?")
        // Runs differ a little in their waits and wakes; nearly every call must have been reached all the same.
        #expect(killed * 10 > calls * 8, "only \(killed) of \(calls) calls were reached")
    }
}
