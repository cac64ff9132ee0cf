import CSQLite
import CWorld
import Handlers
import HandlersTestKit
import Platform
import XMPPAccount
import XMPPCore
import XMPPTestKit
import XMPPTransport

/// A machine, a network and a server that run the library's code, with every event chosen by a seed.
///
/// ```text
///   seed ──▶ schedule ──▶ a job of a task · a turn of a loop · a packet · the server's clock · a fault
///                              │
///            model ◀── rows, log of the server, confirmations to callers
/// ```
/// One thread runs everything, and time passes only when nothing else can happen. A process can die or freeze between two events,
/// and inside any call to the disk or the network.
///
/// `@unchecked Sendable`: one thread uses it.
package final class SimulatedWorld: @unchecked Sendable {
    static let path = "/app.db"

    package let recipe: WorldRecipe
    /// Chooses the order of events.
    var random: SeededGenerator
    var incidents: Incidents
    private(set) var climate: Climate
    /// The features of the account and its server in a run.
    struct Options {
        /// Whether the account has an archive, and catches up with it.
        var hasArchive: Bool
        /// Whether it has a roster and a block list.
        var hasLists: Bool
        /// Whether the peer publishes items that the account listens to, and the account also publishes items (XEP-0060).
        var hasPubSub: Bool
        /// Whether handlers are bound with keys and called by signals.
        var hasSignals: Bool
        /// Whether the application starts workflows.
        var hasErrands: Bool
        /// Whether handlers run in a lane, with limits and by calendars, and async ones after joins.
        var hasLanes: Bool
        /// Whether the stores have limits of PostgreSQL, and strangers send what is longer.
        var hasLimits: Bool
        /// Whether a resumed session continues with the parser of its broken connection.
        var keepsParsers: Bool
    }
    let options: Options
    /// The durability that the stores wait for at a commit.
    let synchronous: HandlerStore.Synchronous
    let disk: SimulatedDisk
    let files: SQLiteFileSystem
    let machine = SimulatedMachine()
    let places = SimulatedPlaces()
    let network: SimulatedNetwork
    package let server: WorldServer
    package let model = WorldModel()
    /// The additional modules of the account; nil for none.
    private(set) var addition: (any WorldExtension)?
    package typealias MakeAddition = (SimulatedWorld, _ seed: UInt64) throws -> any WorldExtension
    let observer: Observer
    let tasks = WorldTasks.shared
    var processes: [SimulatedProcess] = []
    final class Clock: @unchecked Sendable {
        /// Nanoseconds since the world started.
        var now: Int64 = 1_000_000_000
        /// The machine's wall clock minus the true time, in nanoseconds.
        var wallOffset: Int64 = 0
        var wall: Int64 { 1_800_000_000_000 + (now + wallOffset) / 1_000_000 }
        /// The wall clock of the peer, which is always right.
        var peerWall: Int64 { 1_800_000_000_000 + now / 1_000_000 }
    }
    let clock: Clock
    /// The time when the next main process starts; nil while none is planned.
    var startsAt: Int64? = 0
    var outageUntil: Int64?
    /// The time until which the disk is full.
    var fullUntil: Int64?
    var lastSleeper = 0
    /// How many nested schedules are running inside of calls.
    var nesting = 0
    var isCalm = false
    /// Whether power was lost during a call. The disk loses it after that call and all calls around it have returned.
    var isPowerLost = false
    /// Whether a bit of the database has flipped, so that the model is no longer right.
    package var isFlipped = false
    let wantsTrace: Bool

    /// The number of events so far.
    package private(set) var events = 0
    /// The number of processes that were started.
    package var lives = 0
    /// The number of power losses.
    package var powerLosses = 0
    /// Whether commits must survive a power loss.
    package var isFull: Bool { synchronous == .full }
    /// The number of loops of dead processes that never ended.
    package var leaks = 0
    /// The digest of all events.
    package private(set) var digest: UInt64 = 0xcbf2_9ce4_8422_2325
    /// The number of the last incident.
    package var lastIncident: Int { incidents.last }
    /// One line for each event, if wanted.
    package var trace: [String] = []
    /// The lives of processes and handlers, if wanted.
    package var timeline = WorldTimeline()
    /// The first violation; nil while there is none.
    package var violation: String? { model.violation }
    package var summary: String { model.summary }
    /// The number of handlers that ended.
    package var endedHandlers: Int { model.endedCount }

    /// Replaces SQLite's allocator. Call it once, before SQLite is used.
    package static func prepareProcess() { dh_take_memory() }

    /// - Parameters:
    ///   - trace: Whether to keep one line for each event, and the lives of processes and handlers.
    ///   - makeAddition: Makes the additional modules of the account from a seed; nil for none.
    package init(
        _ recipe: WorldRecipe, trace: Bool = false, addition makeAddition: MakeAddition? = nil
    ) {
        self.recipe = recipe
        wantsTrace = trace
        var random = SeededGenerator(seed: recipe.seed)
        climate = Climate(using: &random)
        let clock = Clock()
        self.clock = clock
        disk = SimulatedDisk(seed: random.next())
        // All processes wait for the one that waits in SQLite, so nothing changes meanwhile.
        files = SQLiteFileSystem(
            disk, clock: { clock.wall }, wait: { clock.now += Int64($0) * 1000 })
        network = SimulatedNetwork(seed: random.next(), now: { clock.now })
        synchronous = Int.random(in: 0..<4, using: &random) == 0 ? .normal : .full
        var behavior = ServerBehavior()
        behavior.mechanisms = ["PLAIN"]
        behavior.extensibleMechanisms = Bool.random(using: &random) ? ["PLAIN"] : []
        behavior.offersInlineBinding = Bool.random(using: &random)
        behavior.tokenMechanisms = Bool.random(using: &random) ? ["HT-SHA-256-NONE"] : []
        behavior.resumptionWindow = .seconds([5, 60, 600].randomElement(using: &random) ?? 60)
        behavior.reportsLostCount = Bool.random(using: &random)
        behavior.acknowledgements =
            Bool.random(using: &random)
            ? .prompt : .delayed(.milliseconds(Int64.random(in: 1...2000, using: &random)))
        // These options are not random, so that earlier seeds keep their meaning.
        options = Options(
            hasArchive: Bool.random(using: &random), hasLists: recipe.seed / 32 % 2 == 0,
            hasPubSub: makeAddition == nil && [0, 3].contains(recipe.seed / 64 % 4),
            hasSignals: recipe.seed / 2 % 5 == 3, hasErrands: recipe.seed / 8 % 6 == 4,
            hasLanes: recipe.seed / 16 % 7 == 3, hasLimits: recipe.seed / 4 % 7 == 5,
            keepsParsers: recipe.seed / 8 % 4 == 1)
        behavior.offersRosterVersions = options.hasLists
        climate.lists = options.hasLists ? 100 : 0
        server = WorldServer(
            seed: random.next(), network: network, behavior: behavior, options: options)
        model.hasArchive = options.hasArchive
        observer = Observer(files)
        incidents = Incidents(seed: random.next(), chosen: recipe.incidents)
        self.random = random
        connectParts()
        // This handler of the library holds the handler of a publication.
        if options.hasPubSub { observer.endingHandlers.append("pubsub.answered") }
        guard let makeAddition else { return }
        do {
            let addition = try makeAddition(self, self.random.next())
            (self.addition, server.addition) = (addition, addition)
            observer.endingHandlers += addition.endingHandlers
            observer.countOfWaiting = addition.countOfWaiting
            model.isTooOld = { [unowned addition] in addition.isTooOld($0) }
        } catch {
            model.fail("the world's addition cannot be made: \(error)")
        }
    }

    func connectParts() {
        let ids = SeededBox(seed: random.next())
        Randomness.replace { ids.next() }
        sqlite3_randomness(0, nil)
        network.note = { [unowned self] line in note(line()) }
        server.onRow = { [unowned self] row in
            note("server \(row.event.rawValue) \(row.session) \(row.name.map { "\($0)" } ?? "") \(row.h)")
            // A process that is frozen in a call may have committed more since the last event.
            if isFlipped { return }
            if row.event == .received { look() }
            let link = Int(row.connection)
            model.see(
                row, of: network.processes[link] ?? "", sent: network.lastSent(on: link), now: clock.now)
        }
        machine.deliver = { [unowned self] process, body in
            guard let process, !process.isDead, let owner = processes.first(where: { $0.disk === process })
            else {
                return
            }
            run(owner, body)
        }
        places.run = { [unowned self] process, decide in
            guard let owner = processes.first(where: { $0.disk === process }) else { return .keeping }
            var answer = OwnerAnswer.keeping
            run(owner) { answer = decide() }
            return answer
        }
        WorldApp.report = { [unowned self] sight in
            guard let process = tasks.current, !process.isDead, !isFlipped else { return }
            model.see(sight, in: process.name) { name in
                processes.contains { $0.name == name && !$0.disk.isDead }
            }
        }
        WorldApp.sleep = { [unowned self] duration in
            if let running { try await sleep(duration, in: running) }
        }
        disk.onCall = { [unowned self] call in called(call) }
        network.onSend = { [unowned self] process in sent(process) }
    }

    final class SeededBox: @unchecked Sendable {
        var generator: SeededGenerator
        init(seed: UInt64) { generator = SeededGenerator(seed: seed) }
        func next() -> UInt64 { generator.next() }
    }

    // MARK: The record

    package func note(_ line: @autoclosure () -> String) {
        if tasks.current?.isDead == true { return }
        let text = line()
        for byte in text.utf8 { digest = (digest ^ UInt64(byte)) &* 0x100_0000_01b3 }
        digest = (digest ^ UInt64(bitPattern: clock.now)) &* 0x100_0000_01b3
        if wantsTrace { trace.append("\(events) \(clock.now / 1000) \(text)") }
    }

    /// Logs an incident, also for the timeline.
    func mark(_ kind: WorldTimeline.Kind, _ text: @autoclosure () -> String) {
        let text = "\(kind.rawValue) \(incidents.last): \(text())"
        note(text)
        if wantsTrace { timeline.marks.append((clock.now, kind, text)) }
    }

    func strikes(_ oneIn: Int) -> Bool { incidents.strikes(oneIn) }

    // MARK: Running the code of a process

    /// Runs code of a process. Its effects after the process's death are dropped.
    func run(_ process: SimulatedProcess, _ body: () -> Void) {
        let before = (disk.current, tasks.current)
        (disk.current, tasks.current) = (process.disk, process.disk)
        process.depth += 1
        body()
        process.depth -= 1
        _ = dh_fail_allocation(0)
        (disk.current, tasks.current) = before
        if process.isDying && process.depth == 0 { putAway(process) }
    }

    // MARK: The schedule

    enum Choice {
        case job(SimulatedProcess, WorldTasks.Job)
        case loop(SimulatedProcess, WorldDriver.Run)
        case sleeper(SimulatedProcess, Int)
        case link(SimulatedLink)
        case server
    }

    /// Performs one event.
    ///
    /// - Parameter limit: The time advances to this at most.
    /// - Returns: False when nothing can happen any more.
    func step(until limit: Int64) -> Bool {
        events += 1
        if isPowerLost && nesting == 0 { losePower() }
        if events % 200 == 0, observer.isUsed {
            // A process that is frozen in a call may have committed more since the last event.
            look()
            checkBounds(isAtRest: false)
        }
        if !isCalm { disturb() }
        for process in processes where process.ending != nil && process.depth == 0 {
            note("ended \(process.name): \(process.ending ?? "")")
            kill(process, "ended: \(process.ending ?? "")")
        }
        if let until = fullUntil, until <= clock.now {
            (fullUntil, disk.capacity) = (nil, nil)
            note("room on the disk")
        }
        if let until = outageUntil, until <= clock.now {
            outageUntil = nil
            (network.weather.refuses, network.weather.isSilent) = (false, false)
        }
        for process in processes {
            guard let thaw = process.thawsAt, thaw <= clock.now else { continue }
            process.thawsAt = nil
            process.disk.isFrozen = false
            note("thawed \(process.name)")
        }
        startMain()
        let choices = self.choices()
        guard let choice = choices.randomElement(using: &random) else { return advance(until: limit) }
        perform(choice)
        look()
        return true
    }

    func startMain() {
        if isPowerLost { return }
        if processes.contains(where: { $0.role == .main }) { return }
        guard let due = startsAt else {
            startsAt = clock.now + Int64.random(in: 0...2000, using: &random) * 1_000_000
            return
        }
        guard due <= clock.now else { return }
        startsAt = nil
        start(.main)
    }

    func choices() -> [Choice] {
        var choices: [Choice] = []
        for process in processes where !process.disk.isDead && !process.disk.isFrozen {
            // A process with a call in progress waits further down on this stack.
            if process.depth > 0 { continue }
            for job in tasks.jobs(of: process.disk) { choices.append(.job(process, job)) }
            for loop in process.driver.runs where loop.isReady(clock.now) {
                choices.append(.loop(process, loop))
            }
            for (number, sleeper) in process.sleepers.sorted(by: { $0.key < $1.key })
            where sleeper.due <= clock.now {
                choices.append(.sleeper(process, number))
            }
        }
        for link in network.due() { choices.append(.link(link)) }
        if let due = server.nextDue, due <= clock.now { choices.append(.server) }
        return choices
    }

    func perform(_ choice: Choice) {
        switch choice {
        case .job(let process, let job):
            note("job of \(process.name)")
            run(process) { tasks.run(job) }
        case .loop(let process, let loop):
            note("turn of \(loop.name) of \(process.name)")
            run(process) { loop.turn(clock.now) }
        case .sleeper(let process, let number):
            let continuation = process.sleepers.removeValue(forKey: number)?.continuation
            run(process) { continuation?.resume(returning: true) }
        case .link(let link): network.arrive(link)
        case .server: server.advance(to: clock.now)
        }
    }

    /// Lets time pass until something can happen.
    func advance(until limit: Int64) -> Bool {
        var due: [Int64] = [network.nextDue, server.nextDue, startsAt, outageUntil, fullUntil].compactMap(
            \.self)
        for process in processes {
            if let thaw = process.thawsAt { due.append(thaw) }
            if process.disk.isFrozen || process.depth > 0 { continue }
            if let next = process.driver.nextDeadline { due.append(next) }
            due += process.sleepers.values.map(\.due)
        }
        guard let next = due.min(), next < .max else {
            guard limit < .max else { return false }
            clock.now = limit
            return true
        }
        clock.now = max(clock.now, min(next, limit))
        server.advance(to: clock.now)
        return true
    }

    func look() {
        if isFlipped { return }
        guard let look = observer.look(after: model.marks) else { return }
        model.see(look)
        if wantsTrace { timeline.see(look, at: clock.now) }
    }
}
