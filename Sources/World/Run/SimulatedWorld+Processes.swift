import Handlers
import PubSub
import XMPPAccount
import XMPPModules

extension SimulatedWorld {
    // MARK: Processes

    func start(_ role: SimulatedProcess.Role) {
        lives += 1
        let disk = disk.startProcess("\(role)-\(lives)")
        let process = SimulatedProcess(
            disk, role,
            WorldDriver(
                now: { [clock] in clock.now + disk.ghostTime },
                events: { [network] in network.events(at: $0) },
                wait: { [unowned self] loop in finish(loop) }))
        note("started \(process.name)")
        if wantsTrace { timeline.started(process.name, role, at: clock.now) }
        processes.append(process)
        run(process) {
            nonisolated(unsafe) let process = process
            process.task = Task { [unowned self] in
                do {
                    try await live(process)
                    process.ending = "done"
                } catch {
                    process.ending = "\(error)"
                    if isFlipped { return checkNamed(error, process) }
                    if let error = error as? HandlerError, Self.wrongEndings.contains(error.code) {
                        model.fail("\(process.name) ended: \(error)")
                    }
                }
            }
        }
    }

    /// Errors with which no fault of the disk, the memory or the power may end a process.
    private static let wrongEndings: [ErrorCode<HandlerError>] = [
        .sql, .databaseCorrupt, .databaseForeign, .databaseNewer,
    ]

    /// After a bit flip a process may end only with a named error.
    private func checkNamed(_ error: any Error, _ process: SimulatedProcess) {
        if error is HandlerError || error is AccountError || error is CancellationError { return }
        model.fail("\(process.name) ended: \(error)")
    }

    func system(of process: SimulatedProcess) -> SystemServices {
        nonisolated(unsafe) let process = process
        return SystemServices(
            driver: process.driver, files: files,
            boot: { [unowned self] in "boot-\(self.disk.boot)" },
            sleep: { [unowned self] in try await sleep($0, in: process) }, asyncHandlers: nil,
            presence: machine.presence(of: process.disk))
    }

    func time(of process: SimulatedProcess) -> TimeSource {
        nonisolated(unsafe) let process = process
        return TimeSource(
            monotonic: { [clock] in .nanoseconds(clock.now + process.disk.ghostTime) },
            wall: { [clock] in Timestamp(milliseconds: clock.wall + process.disk.ghostTime / 1_000_000) })
    }

    /// Runs the program of a process.
    func live(_ process: SimulatedProcess) async throws {
        let store = try HandlerStore(
            path: Self.path, registry: HandlerRegistry(WorldApp.handlers + (addition?.handlers ?? [])),
            schemas: Account.schemas + [WorldApp.schema] + (options.hasPubSub ? PubSubEvents.schemas : [])
                + (addition?.schemas ?? []),
            role: process.role == .main ? .main : .worker, synchronous: synchronous, busyTimeout: .seconds(5),
            time: time(of: process), log: nil, system: system(of: process))
        process.store = store
        if options.hasLimits { try store.step { try WorldLimits.make(in: $0) } }
        var configuration = AccountConfiguration(jid: WorldServer.account, password: WorldServer.password)
        configuration.server = .init(host: WorldServer.domain, port: 5223, security: .directTLS)
        configuration.allowsPlain = true
        configuration.role = store.role
        configuration.time = time(of: process)
        nonisolated(unsafe) let own = process
        configuration.network = network.network(of: process.disk) { [clock] in clock.now + own.disk.ghostTime
        }
        configuration.ownerPlaces = places.places(of: process.disk)
        if options.hasArchive { configuration.modules.append(ArchiveModule(pageSize: 3)) }
        if options.hasLists { configuration.modules += [RosterModule(), BlockingModule()] }
        if options.hasPubSub { configuration.modules += [DiscoModule(), PubSubEvents()] }
        configuration.modules += addition?.modules ?? []
        configuration.bindsInline = recipe.seed % 2 == 0
        // All suspended workflows stay, each is dropped, or all but one or two.
        configuration.runner.workflowMemory = [64 << 20, 0, 8192][Int(recipe.seed / 48 % 3)]
        let account = try Account(configuration, store: store)
        process.account = account
        try await account.listen(as: "world", WorldApp.Received().durable)
        if options.hasLanes { try await account.perform { try WorldApp.setLane(in: $0) } }
        if options.hasPubSub {
            try await account.perform {
                try account.pubsub.listen(
                    to: WorldServer.node, of: WorldServer.peer.bare, as: "world", WorldApp.Noticed().durable,
                    in: $0)
            }
        }
        try await addition?.prepare(account, isMain: process.role == .main)
        switch process.role {
        case .main: try await liveAsMain(account, process)
        case .worker: try await liveAsWorker(account, process)
        }
        await account.close()
    }

    func liveAsMain(_ account: Account, _ process: SimulatedProcess) async throws {
        try await account.connect(retrying: true)
        while true {
            try await sleep(.milliseconds(Int64.random(in: 1...200, using: &random)), in: process)
            if isCalm {
                // A worker may have taken over the stream.
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

    /// The kinds of work of the program: 4 and 5 change lists, 6 and 7 are the addition's, 8 publishes, 9 sends signals, 10 starts
    /// workflows, 11 uses a lane or a calendar.
    private var kindsOfWork: [Int] {
        [0, 1, 2, 3] + (options.hasLists ? [4, 5] : []) + (options.hasPubSub ? [8] : [])
            + (options.hasSignals ? [9, 9] : []) + (options.hasErrands ? [10, 10] : [])
            + (options.hasLanes ? [11, 11] : [])
            + (addition == nil ? [] : [6, 7])
    }

    func work(_ account: Account, _ process: SimulatedProcess) async throws {
        let kinds = (0..<Int.random(in: 1...3, using: &random)).map { _ in
            kindsOfWork.randomElement(using: &random) ?? 0
        }
        do {
            let numbers = try await account.perform { step in
                try kinds.map { kind in
                    switch kind {
                    case 0: try WorldApp.sendMessage(from: account, in: step)
                    case 1: try WorldApp.ask(from: account, in: step)
                    case 2: try WorldApp.remind(in: step)
                    case 3: try WorldApp.work(in: step)
                    case 4, 5: try WorldApp.change(kind == 4 ? .roster : .blocking, of: account, in: step)
                    case 9: try WorldApp.signal(in: step)
                    case 10: try WorldApp.start(in: step)
                    case 11: try WorldApp.queue(in: step)
                    case 8: try WorldApp.publish(from: account, in: step)
                    default: try self.addition?.work(account, in: step) ?? WorldApp.work(in: step)
                    }
                }
            }
            if process.disk.isDead { return }
            look()
            for number in numbers { model.confirm(number, to: process.name) }
        } catch let error as AccountError where error.code == .ownershipLost {
            try await account.connect(retrying: true)
        }
    }

    func liveAsWorker(_ account: Account, _ process: SimulatedProcess) async throws {
        try await account.connect()
        try await account.caughtUp()
        _ = try await account.drain(for: .seconds(20))
    }

    func sleep(_ duration: Duration, in process: SimulatedProcess) async throws {
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

    /// - Parameter fate: The reason of its end, for the timeline.
    func kill(_ process: SimulatedProcess, _ fate: String = "killed") {
        guard !process.disk.isDead else { return }
        if wantsTrace { timeline.ended(process.name, fate, at: clock.now) }
        // Before the kill, while the observer need not reopen the database.
        if !isPowerLost { checkIntegrity() }
        disk.kill(process.disk)
        machine.kill(process.disk)
        places.processDied(process.disk)
        network.processDied(process.disk)
        process.isDying = true
        if process.depth == 0 { putAway(process) }
    }

    /// Frees the memory of a dead process. Its tasks are canceled and its loops run to their end, all without an effect.
    func putAway(_ process: SimulatedProcess) {
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

    /// Runs a loop to its end while its process waits for that.
    func finish(_ loop: WorldDriver.Run) {
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

    func finishDead(_ loop: WorldDriver.Run) {
        var rounds = 0
        while !loop.isOver, rounds < 1000 {
            rounds += 1
            loop.turn(.max)
        }
    }

    func losePower() {
        mark(.powerLoss, "power lost")
        powerLosses += 1
        isPowerLost = false
        for process in processes { kill(process) }
        // The newest state that any process can have seen.
        look()
        disk.losePower()
        machine.losePower()
        places.losePower(using: &random)
        startsAt = clock.now + 1_000_000
        model.losePower(found: observer.marks(), isFull: synchronous == .full)
        look()
        checkStored()
        checkIntegrity(isReadable: true)
        checkBounds(isAtRest: false)
    }
}
