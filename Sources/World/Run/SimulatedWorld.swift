import CSQLite
import Handlers
import Platform
import XMPPAccount
import XMPPCore
import XMPPTestKit
import XMPPTransport

/// A machine, a network and a server whose every event a seed decides, with the shipped code in its processes.
///
/// ```text
///   seed ──▶ schedule ──▶ a job of a task · a turn of a loop · a packet · the server's clock · a fault
///                              │
///            model ◀── rows, log of the server, what callers were told
/// ```
/// One thread runs everything; time passes only where nothing else can happen. A process can die or freeze between two events
/// and inside any call to the disk or the network.
///
/// `@unchecked Sendable`: one thread uses it.
package final class SimulatedWorld: @unchecked Sendable {
    static let path = "/app.db"

    /// What happens to the processes and to their machine.
    package struct Climate: Sendable {
        /// How likely a fault is: of a call to the disk or the network, one in so many; 0 for never.
        package var killsInCall = 0, freezesInCall = 0, diskErrors = 0
        /// How likely a fault is between two events, one in so many.
        package var kills = 0, freezes = 0, workers = 0, powerLosses = 0
        package var resets = 0, blocks = 0, outages = 0, expiries = 0, restarts = 0, clockJumps = 0
        /// How likely a message of the peer is between two events, one in so many.
        package var messages = 60

        /// A mixture from a seed: some runs are without some faults, so that each can show what it does alone.
        package init(using random: inout some RandomNumberGenerator) {
            func rate(_ often: ClosedRange<Int>) -> Int {
                Bool.random(using: &random) ? Int.random(in: often, using: &random) : 0
            }
            killsInCall = Int.random(in: 300...1500, using: &random)
            freezesInCall = rate(500...3000)
            diskErrors = rate(400...3000)
            kills = Int.random(in: 100...400, using: &random)
            freezes = rate(150...800)
            workers = rate(60...300)
            powerLosses = rate(300...1500)
            resets = rate(100...1000)
            blocks = rate(200...1000)
            outages = rate(300...1500)
            expiries = rate(300...1500)
            restarts = rate(500...2000)
            clockJumps = rate(300...1500)
        }

        /// Nothing fails.
        package init() {}
    }

    package let seed: UInt64
    private var random: SeededGenerator
    private(set) var climate: Climate
    let disk: SimulatedDisk
    let files: SQLiteFileSystem
    let machine = SimulatedMachine()
    let places = SimulatedPlaces()
    let network: SimulatedNetwork
    let server: WorldServer
    let model = WorldModel()
    private let observer: Observer
    private let tasks = WorldTasks.shared
    private var processes: [SimulatedProcess] = []
    private final class Clock: @unchecked Sendable {
        /// Nanoseconds since the world began.
        var now: Int64 = 1_000_000_000
        /// How far the machine's wall clock is off, in nanoseconds.
        var wallOffset: Int64 = 0
        var wall: Int64 { 1_800_000_000_000 + (now + wallOffset) / 1_000_000 }
    }
    private let clock: Clock
    /// When the next process starts; nil while one runs or is not wanted.
    private var startsAt: Int64? = 0
    private var outageUntil: Int64?
    private var lastSleeper = 0
    /// The depth of schedules inside of calls.
    private var nesting = 0
    private var isCalm = false
    private let wantsTrace: Bool

    /// The number of events so far.
    package private(set) var events = 0
    /// The number of processes that were started.
    package private(set) var lives = 0
    /// The number of losses of power.
    package private(set) var powerLosses = 0
    /// The number of processes that could not be put away when they were dead.
    package private(set) var leaks = 0
    /// The digest of all events.
    package private(set) var digest: UInt64 = 0xcbf2_9ce4_8422_2325
    /// The lines of the events, if wanted.
    package private(set) var trace: [String] = []
    /// What is wrong; nil while everything is right.
    package var violation: String? { model.violation }
    package var summary: String { model.summary }

    package init(seed: UInt64, trace: Bool = false) {
        self.seed = seed
        wantsTrace = trace
        var random = SeededGenerator(seed: seed)
        climate = Climate(using: &random)
        let clock = Clock()
        self.clock = clock
        disk = SimulatedDisk(seed: random.next())
        // Everybody waits for a process that is frozen, so nothing changes meanwhile.
        files = SQLiteFileSystem(
            disk, clock: { clock.wall }, wait: { clock.now += Int64($0) * 1000 })
        network = SimulatedNetwork(seed: random.next(), now: { clock.now })
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
        server = WorldServer(seed: random.next(), network: network, behavior: behavior)
        observer = Observer(files)
        self.random = random
        connectParts()
    }

    private func connectParts() {
        let ids = SeededBox(seed: random.next())
        Randomness.replace { ids.next() }
        sqlite3_randomness(0, nil)
        network.note = { [unowned self] line in note(line()) }
        server.onRow = { [unowned self] row in
            note("server \(row.event.rawValue) \(row.session) \(row.name.map { "\($0)" } ?? "") \(row.h)")
            // A process that is frozen in a call may have committed more since the last event.
            if row.event == .received { look() }
            model.see(row)
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
        disk.onCall = { [unowned self] call in called(call) }
        network.onSend = { [unowned self] process in sent(process) }
    }

    private final class SeededBox: @unchecked Sendable {
        private var generator: SeededGenerator
        init(seed: UInt64) { generator = SeededGenerator(seed: seed) }
        func next() -> UInt64 { generator.next() }
    }

    // MARK: The record

    private func note(_ line: @autoclosure () -> String) {
        if tasks.current?.isDead == true { return }
        let text = line()
        for byte in text.utf8 { digest = (digest ^ UInt64(byte)) &* 0x100_0000_01b3 }
        digest = (digest ^ UInt64(bitPattern: clock.now)) &* 0x100_0000_01b3
        if wantsTrace { trace.append("\(events) \(clock.now / 1000) \(text)") }
    }

    private func chance(_ oneIn: Int) -> Bool {
        oneIn > 0 && Int.random(in: 0..<oneIn, using: &random) == 0
    }

    // MARK: Running the code of a process

    /// Runs code of a process. What it does after its death has no effect.
    private func run(_ process: SimulatedProcess, _ body: () -> Void) {
        let before = (disk.current, tasks.current, WorldApp.process)
        (disk.current, tasks.current, WorldApp.process) = (process.disk, process.disk, process.name)
        process.depth += 1
        body()
        process.depth -= 1
        (disk.current, tasks.current, WorldApp.process) = before
        if process.isDying && process.depth == 0 { putAway(process) }
    }

    // MARK: Faults inside of calls

    private func called(_ call: SimulatedDisk.Call) -> SimulatedDisk.Fault? {
        guard !isCalm, let process = running else { return nil }
        if chance(climate.killsInCall) {
            note("killed \(process.name) in \(call.kind.rawValue)")
            kill(process)
            return nil
        }
        if nesting < 2, chance(climate.freezesInCall) { freezeInside(process) }
        guard call.kind != .lookup, chance(climate.diskErrors) else { return nil }
        let fault = SimulatedDisk.Fault.allCases.randomElement(using: &random) ?? .ioError
        note("\(fault.rawValue) in \(call.kind.rawValue) of \(process.name)")
        return fault
    }

    private func sent(_ process: SimulatedDisk.Process) {
        guard !isCalm, let owner = processes.first(where: { $0.disk === process }) else { return }
        if chance(climate.killsInCall / 10) {
            note("killed \(owner.name) after sending")
            kill(owner)
        } else if nesting < 2, chance(climate.freezesInCall / 10) {
            freezeInside(owner)
        }
    }

    private var running: SimulatedProcess? {
        guard let current = disk.current, !current.isDead else { return nil }
        return processes.first { $0.disk === current }
    }

    /// The process stands still inside of a call, and the others go on.
    private func freezeInside(_ process: SimulatedProcess) {
        let until = clock.now + Int64.random(in: 1...20_000, using: &random) * 1_000_000
        note("frozen \(process.name) in a call")
        let before = (disk.current, tasks.current, WorldApp.process)
        process.disk.isFrozen = true
        nesting += 1
        while clock.now < until, !process.disk.isDead, violation == nil, step(until: until) {}
        nesting -= 1
        (disk.current, tasks.current, WorldApp.process) = before
        process.disk.isFrozen = false
        if !process.disk.isDead { note("thawed \(process.name)") }
    }

    // MARK: Processes

    private func start(_ role: SimulatedProcess.Role) {
        lives += 1
        let disk = disk.startProcess("\(role)-\(lives)")
        let process = SimulatedProcess(
            disk, role,
            WorldDriver(
                now: { [clock] in clock.now + disk.ghostTime },
                events: { [network] in network.events(at: $0) },
                wait: { [unowned self] loop in finish(loop) }))
        note("started \(process.name)")
        processes.append(process)
        run(process) {
            nonisolated(unsafe) let process = process
            process.task = Task { [unowned self] in
                do {
                    try await live(process)
                    process.ending = "done"
                } catch {
                    process.ending = "\(error)"
                }
            }
        }
    }

    private func system(of process: SimulatedProcess) -> SystemServices {
        nonisolated(unsafe) let process = process
        return SystemServices(
            driver: process.driver, files: files,
            sleep: { [unowned self] in try await sleep($0, in: process) },
            presence: machine.presence(of: process.disk))
    }

    private func time(of process: SimulatedProcess) -> TimeSource {
        nonisolated(unsafe) let process = process
        return TimeSource(
            monotonic: { [clock] in .nanoseconds(clock.now + process.disk.ghostTime) },
            wall: { [clock] in Timestamp(milliseconds: clock.wall + process.disk.ghostTime / 1_000_000) })
    }

    /// What a program does.
    private func live(_ process: SimulatedProcess) async throws {
        let store = try HandlerStore(
            path: Self.path, registry: WorldApp.registry, schemas: Account.coreSchemas + [WorldApp.schema],
            role: process.role == .main ? .main : .worker, synchronous: .full, busyTimeout: 5000,
            time: time(of: process), log: nil, system: system(of: process))
        process.store = store
        var configuration = AccountConfiguration(jid: WorldServer.account, password: WorldServer.password)
        configuration.server = .init(host: WorldServer.domain, port: 5223, security: .directTLS)
        configuration.allowsPlain = true
        configuration.role = store.role
        configuration.time = time(of: process)
        nonisolated(unsafe) let own = process
        configuration.network = network.network(of: process.disk) { [clock] in clock.now + own.disk.ghostTime
        }
        configuration.ownerPlaces = places.places(of: process.disk)
        configuration.bindsInline = seed % 2 == 0
        let account = try Account(configuration, store: store)
        process.account = account
        try await account.listen(as: "world", WorldApp.Received().durable)
        switch process.role {
        case .main: try await liveAsMain(account, process)
        case .worker: try await liveAsWorker(account, process)
        }
        await account.close()
    }

    private func liveAsMain(_ account: Account, _ process: SimulatedProcess) async throws {
        try await account.connect(retrying: true)
        while true {
            try await sleep(.milliseconds(Int64.random(in: 1...200, using: &random)), in: process)
            if isCalm {
                // A worker may have taken the stream over.
                try await account.connect(retrying: true)
                try await sleep(.seconds(1), in: process)
                continue
            }
            switch Int.random(in: 0..<12, using: &random) {
            case 0:
                try await account.suspend()
                try await sleep(.milliseconds(Int64.random(in: 1...3000, using: &random)), in: process)
                try await account.connect(retrying: true)
            case 1: return
            case 2: account.networkChanged()
            default: try await work(account, process)
            }
        }
    }

    private func work(_ account: Account, _ process: SimulatedProcess) async throws {
        let kinds = (0..<Int.random(in: 1...3, using: &random)).map { _ in
            Int.random(in: 0..<4, using: &random)
        }
        do {
            let numbers = try await account.perform { step in
                try kinds.map { kind in
                    switch kind {
                    case 0: try WorldApp.sendMessage(from: account, in: step)
                    case 1: try WorldApp.ask(from: account, in: step)
                    case 2: try WorldApp.remind(in: step)
                    default: try WorldApp.work(in: step)
                    }
                }
            }
            if process.disk.isDead { return }
            for number in numbers { model.confirm(number) }
        } catch let error as AccountError where error.code == .ownershipLost {
            try await account.connect(retrying: true)
        }
    }

    private func liveAsWorker(_ account: Account, _ process: SimulatedProcess) async throws {
        try await account.connect()
        try await account.caughtUp()
        _ = try await account.drain(for: .seconds(20))
    }

    private func sleep(_ duration: Duration, in process: SimulatedProcess) async throws {
        lastSleeper += 1
        let number = lastSleeper
        let due = clock.now + process.disk.ghostTime + duration.milliseconds * 1_000_000
        nonisolated(unsafe) let process = process
        let isOver = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                if Task.isCancelled { return continuation.resume(returning: false) }
                process.sleepers[number] = (due, continuation)
            }
        } onCancel: {
            process.sleepers.removeValue(forKey: number)?.continuation.resume(returning: false)
        }
        if !isOver { throw CancellationError() }
    }

    // MARK: The end of a process

    private func kill(_ process: SimulatedProcess) {
        guard !process.disk.isDead else { return }
        disk.kill(process.disk)
        machine.kill(process.disk)
        places.processDied(process.disk)
        network.processDied(process.disk)
        process.isDying = true
        if process.depth == 0 { putAway(process) }
    }

    /// Frees what a dead process has in memory: its tasks are canceled and its loops are run to their end, while nothing that they
    /// do has an effect.
    private func putAway(_ process: SimulatedProcess) {
        process.isDying = false
        processes.removeAll { $0 === process }
        process.depth += 1
        defer { process.depth -= 1 }
        run(process) {
            process.task?.cancel()
            if let account = process.account { Task { await account.close() } }
        }
        (process.account, process.store) = (nil, nil)
        var rounds = 0
        while rounds < 5000 {
            rounds += 1
            if let job = tasks.job(of: process.disk) {
                run(process) { tasks.run(job) }
            } else if let loop = process.driver.runs.first(where: {
                $0.isReady(clock.now + process.disk.ghostTime)
            }) {
                run(process) { loop.turn(clock.now + process.disk.ghostTime) }
            } else if let sleeper = process.sleepers.keys.min() {
                let continuation = process.sleepers.removeValue(forKey: sleeper)?.continuation
                run(process) { continuation?.resume(returning: false) }
            } else if let next = process.driver.nextDeadline {
                process.disk.ghostTime = max(process.disk.ghostTime, next - clock.now)
            } else {
                break
            }
        }
        for loop in process.driver.runs where !loop.isOver {
            leaks += 1
            if wantsTrace { trace.append("leak of \(loop.name) of \(process.name)") }
        }
    }

    /// Runs a loop to its end, while its process waits for that.
    private func finish(_ loop: WorldDriver.Run) {
        guard let process = processes.first(where: { $0.driver.runs.contains { $0 === loop } }) else {
            return finishDead(loop)
        }
        while !loop.isOver, !process.disk.isDead {
            if loop.isReady(clock.now) {
                run(process) { loop.turn(clock.now) }
            } else if !step(until: .max) {
                return
            }
        }
        if process.disk.isDead { finishDead(loop) }
    }

    private func finishDead(_ loop: WorldDriver.Run) {
        var rounds = 0
        while !loop.isOver, rounds < 1000 {
            rounds += 1
            loop.turn(.max)
        }
    }

    private func losePower() {
        note("power lost")
        powerLosses += 1
        observer.close()
        for process in processes { kill(process) }
        disk.losePower()
        machine.losePower()
        places.losePower(using: &random)
        startsAt = clock.now + 1_000_000
    }

    // MARK: The schedule

    private enum Choice {
        case job(SimulatedProcess, WorldTasks.Job)
        case loop(SimulatedProcess, WorldDriver.Run)
        case sleeper(SimulatedProcess, Int)
        case link(SimulatedLink)
        case server
    }

    /// Lets one thing happen.
    ///
    /// - Parameter limit: The time is advanced to this at most.
    /// - Returns: False when nothing can happen any more.
    private func step(until limit: Int64) -> Bool {
        events += 1
        if !isCalm { disturb() }
        for process in processes where process.ending != nil && process.depth == 0 {
            note("ended \(process.name): \(process.ending ?? "")")
            kill(process)
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

    private func startMain() {
        if processes.contains(where: { $0.role == .main }) { return }
        guard let due = startsAt else {
            startsAt = clock.now + Int64.random(in: 0...2000, using: &random) * 1_000_000
            return
        }
        guard due <= clock.now else { return }
        startsAt = nil
        start(.main)
    }

    private func choices() -> [Choice] {
        var choices: [Choice] = []
        for process in processes where !process.disk.isDead && !process.disk.isFrozen {
            // The one whose call is under way waits on this stack.
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

    private func perform(_ choice: Choice) {
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
    private func advance(until limit: Int64) -> Bool {
        var due: [Int64] = [network.nextDue, server.nextDue, startsAt, outageUntil].compactMap(\.self)
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

    private func look() {
        guard let look = observer.look(after: model.marks) else { return }
        model.see(look)
    }

    // MARK: Faults between events

    private func disturb() {
        if chance(climate.messages) { server.sendMessage() }
        if chance(climate.powerLosses), nesting == 0 { return losePower() }
        if chance(climate.kills), let process = processes.randomElement(using: &random) {
            note("killed \(process.name)")
            kill(process)
        }
        if chance(climate.freezes), let process = processes.randomElement(using: &random),
            !process.disk.isFrozen, process.depth == 0
        {
            note("frozen \(process.name)")
            process.disk.isFrozen = true
            process.thawsAt = clock.now + Int64.random(in: 1...30_000, using: &random) * 1_000_000
        }
        if chance(climate.workers), processes.count(where: { $0.role == .worker }) < 2 { start(.worker) }
        disturbNetwork()
    }

    private func disturbNetwork() {
        if chance(climate.resets), let link = network.open.randomElement(using: &random) {
            network.reset(link)
        }
        if chance(climate.blocks), let link = network.open.randomElement(using: &random) {
            if Bool.random(using: &random) {
                network.forget(link)
            } else {
                network.block(
                    link, until: clock.now + Int64.random(in: 1...60_000, using: &random) * 1_000_000)
            }
        }
        if chance(climate.outages), outageUntil == nil {
            note("outage")
            outageUntil = clock.now + Int64.random(in: 1...60_000, using: &random) * 1_000_000
            if Bool.random(using: &random) {
                network.weather.refuses = true
            } else {
                network.weather.isSilent = true
            }
        }
        if chance(climate.expiries) {
            note("sessions expire")
            server.expireSessions()
        }
        if chance(climate.restarts) {
            note("server restarts")
            server.restart()
        }
        if chance(climate.clockJumps) {
            clock.wallOffset = Int64.random(in: -100_000...100_000, using: &random) * 1_000_000
            note("clock jumps")
        }
    }

    // MARK: A run

    /// Runs until so many processes have been started, then without faults until everything has ended.
    ///
    /// - Parameter lives: The number of processes.
    package func run(lives wanted: Int) {
        while lives < wanted, violation == nil, step(until: .max) {}
        if violation == nil { settle() }
        isCalm = true
        for process in processes { kill(process) }
        observer.close()
        Randomness.replace(by: nil)
    }

    /// The events and the time within which everything has to end once nothing fails any more.
    private static let settleLimits = (events: 200_000, seconds: 4000 as Int64)

    private func settle() {
        note("calm")
        isCalm = true
        network.weather = .init()
        outageUntil = nil
        for link in network.open { network.reset(link) }
        for process in processes {
            process.thawsAt = nil
            process.disk.isFrozen = false
        }
        let (lastEvent, lastTime) = (
            events + Self.settleLimits.events, clock.now + Self.settleLimits.seconds * 1_000_000_000
        )
        while violation == nil, !isAtRest {
            guard events < lastEvent, clock.now < lastTime, step(until: .max) else {
                model.checkEnd(messages: server.lastMessage)
                return model.fail("the store did not come to rest: \(rest)")
            }
        }
        model.checkEnd(messages: server.lastMessage)
        if let sentences = observer.integrity(), sentences != ["ok"] {
            model.fail("the database is damaged: \(sentences)")
        }
    }

    private var isAtRest: Bool {
        model.isSettled && model.received.count == server.lastMessage && observer.number(Self.leftovers) == 0
    }

    /// What no process may leave for ever.
    private static let leftovers =
        "SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM request) + (SELECT count(*) FROM handler WHERE state = 3)"

    private var rest: String {
        "\(model.summary), \(server.lastMessage) messages of the peer, \(server.offlineCount) stored at the server, outbox \(observer.number("SELECT count(*) FROM outbox") ?? -1), requests \(observer.number("SELECT count(*) FROM request") ?? -1), handlers \(observer.number("SELECT count(*) FROM handler") ?? -1), quarantined \(observer.number("SELECT count(*) FROM handler WHERE state = 2") ?? -1)"
    }
}
