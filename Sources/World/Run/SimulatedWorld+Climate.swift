import CWorld

extension SimulatedWorld {
    /// The probabilities of faults of the processes and their machine.
    package struct Climate: Sendable {
        /// Faults of a call to the disk or the network. Each probability is one in this number; 0 for never.
        package var killsInCall = 0, freezesInCall = 0, diskErrors = 0, memoryErrors = 0
        /// Faults between two events. Each probability is one in this number; 0 for never.
        package var kills = 0, freezes = 0, workers = 0, powerLosses = 0
        package var resets = 0, blocks = 0, outages = 0, expiries = 0, restarts = 0, clockJumps = 0
        package var wrongCounts = 0, strangers = 0, lists = 0
        /// The disk fills up for a while between two events. The probability is one in this number.
        package var fullDisks = 0
        /// The peer sends a message between two events. The probability is one in this number.
        package var messages = 60

        /// Chooses a mixture at random. Some runs lack some faults, so that the effect of the other faults can be seen alone.
        package init(using random: inout some RandomNumberGenerator) {
            func rate(_ often: ClosedRange<Int>) -> Int {
                Bool.random(using: &random) ? Int.random(in: often, using: &random) : 0
            }
            killsInCall = Int.random(in: 400...3000, using: &random)
            freezesInCall = rate(500...3000)
            diskErrors = rate(400...3000)
            memoryErrors = rate(400...3000)
            kills = Int.random(in: 100...600, using: &random)
            freezes = rate(150...800)
            workers = rate(60...300)
            powerLosses = rate(100...800)
            resets = rate(100...1000)
            blocks = rate(200...1000)
            outages = rate(300...1500)
            expiries = rate(300...1500)
            restarts = rate(500...2000)
            clockJumps = rate(300...1500)
            wrongCounts = rate(200...1000)
            strangers = rate(30...300)
            fullDisks = rate(300...1500)
        }

        /// A climate without faults, in which only the peer's messages arrive.
        package init() {}
    }

    // MARK: Faults inside of calls

    func called(_ call: SimulatedDisk.Call) -> SimulatedDisk.Fault? {
        guard !isCalm, let process = running else { return nil }
        if process.diesNext {
            kill(process)
            return nil
        }
        if strikes(climate.killsInCall) {
            strike(process, "in \(call.kind.rawValue)")
            return nil
        }
        if nesting < 2, strikes(climate.freezesInCall) { freezeInside(process) }
        if strikes(climate.memoryErrors) {
            let number = Int32.random(in: 1...40, using: &incidents.details)
            let isOne = Int.random(in: 0..<3, using: &incidents.details) > 0
            mark(.memory, "allocation \(number) of \(process.name)\(isOne ? "" : " and all after it") fails")
            _ = dh_fail_allocation(isOne ? number : -number)
        }
        if strikes(climate.diskErrors) { return fault(in: call, of: process) }
        guard call.kind == .sync, let fate = process.syncFault else { return nil }
        process.syncFault = nil
        process.diesNext = fate == .deadly
        return .ioError
    }

    /// Chooses a fault of the disk: now, or at the next sync, as the system writes later than a program.
    private func fault(in call: SimulatedDisk.Call, of process: SimulatedProcess) -> SimulatedDisk.Fault? {
        let fault = SimulatedDisk.Fault.allCases.randomElement(using: &incidents.details) ?? .ioError
        if Bool.random(using: &incidents.details) {
            let isDeadly = Bool.random(using: &incidents.details)
            mark(.disk, "the next sync of \(process.name) fails\(isDeadly ? ", and it dies of that" : "")")
            process.syncFault = isDeadly ? .deadly : .reported
            return nil
        }
        mark(.disk, "\(fault.rawValue) in \(call.kind.rawValue) of \(process.name)")
        return fault
    }

    func sent(_ process: SimulatedDisk.Process) {
        guard !isCalm, let owner = processes.first(where: { $0.disk === process }) else { return }
        if strikes(climate.killsInCall / 10) {
            strike(owner, "after sending")
        } else if nesting < 2, strikes(climate.freezesInCall / 10) {
            freezeInside(owner)
        }
    }

    /// Kills a process during a call, or all processes through a power loss.
    private func strike(_ process: SimulatedProcess, _ place: String) {
        guard climate.powerLosses > 0, Int.random(in: 0..<4, using: &incidents.details) == 0 else {
            mark(.kill, "\(process.name) \(place)")
            return kill(process)
        }
        mark(.powerLoss, "power fails \(place) of \(process.name)")
        isPowerLost = true
        for process in processes { kill(process) }
    }

    var running: SimulatedProcess? {
        guard let current = disk.current, !current.isDead else { return nil }
        return processes.first { $0.disk === current }
    }

    /// Freezes a process during a call while the other processes go on.
    func freezeInside(_ process: SimulatedProcess) {
        let until = clock.now + Int64.random(in: 1...20_000, using: &incidents.details) * 1_000_000
        mark(.freeze, "\(process.name) in a call")
        if wantsTrace { timeline.froze(process.name, from: clock.now, to: until) }
        let before = (disk.current, tasks.current)
        let allocations = dh_fail_allocation(0)
        process.disk.isFrozen = true
        nesting += 1
        while clock.now < until, !process.disk.isDead, violation == nil, step(until: until) {}
        nesting -= 1
        (disk.current, tasks.current) = before
        _ = dh_fail_allocation(process.disk.isDead ? 0 : allocations)
        process.disk.isFrozen = false
        if !process.disk.isDead { note("thawed \(process.name)") }
    }

    // MARK: Faults between events

    func disturb() {
        if isPowerLost { return }
        if strikes(climate.messages) {
            mark(.message, "of the peer")
            server.sendMessage(isPlain: addition == nil || Bool.random(using: &incidents.details))
        }
        if strikes(climate.powerLosses), nesting == 0 { return losePower() }
        if strikes(climate.kills), let process = processes.randomElement(using: &incidents.details) {
            mark(.kill, process.name)
            kill(process)
        }
        if strikes(climate.freezes), let process = processes.randomElement(using: &incidents.details),
            !process.disk.isFrozen, process.depth == 0
        {
            mark(.freeze, process.name)
            process.disk.isFrozen = true
            let until = clock.now + Int64.random(in: 1...30_000, using: &incidents.details) * 1_000_000
            process.thawsAt = until
            if wantsTrace { timeline.froze(process.name, from: clock.now, to: until) }
        }
        // While the main program is frozen, few other things happen, and a worker takes over the stream.
        let isAsleep = processes.contains { $0.role == .main && $0.disk.isFrozen }
        if strikes(isAsleep ? min(climate.workers, 5) : climate.workers),
            processes.count(where: { $0.role == .worker }) < 2
        {
            mark(.push, "wakes a worker")
            start(.worker)
        }
        if strikes(climate.fullDisks), fullUntil == nil {
            let pages = Int.random(in: 0...8, using: &incidents.details)
            mark(.disk, "\(pages) pages are left on it")
            disk.capacity = disk.used + pages * 4096
            fullUntil = clock.now + Int64.random(in: 1000...20_000, using: &incidents.details) * 1_000_000
        }
        disturbNetwork()
    }

    func disturbNetwork() {
        if strikes(climate.resets), let link = network.open.randomElement(using: &incidents.details) {
            mark(.reset, "link \(link)")
            network.reset(link)
        }
        if strikes(climate.blocks), let link = network.open.randomElement(using: &incidents.details) {
            if Bool.random(using: &incidents.details) {
                mark(.halfOpen, "link \(link)")
                network.forget(link)
            } else {
                mark(.block, "link \(link)")
                network.block(
                    link,
                    until: clock.now + Int64.random(in: 1...60_000, using: &incidents.details) * 1_000_000)
            }
        }
        if strikes(climate.outages), outageUntil == nil {
            mark(.outage, "no connection can be opened")
            outageUntil = clock.now + Int64.random(in: 1...60_000, using: &incidents.details) * 1_000_000
            if Bool.random(using: &incidents.details) {
                network.weather.refuses = true
            } else {
                network.weather.isSilent = true
            }
        }
        if strikes(climate.expiries) {
            mark(.expiry, "the server forgets its sessions")
            server.expireSessions()
        }
        if strikes(climate.restarts) {
            mark(.restart, "of the server")
            server.restart()
        }
        if strikes(climate.wrongCounts) {
            mark(.wrongCount, "of the server")
            server.misbehave(using: &incidents.details)
        }
        if strikes(climate.strangers) {
            mark(.stranger, "sends something")
            server.sendStrange(using: &incidents.details)
        }
        if strikes(climate.lists) {
            mark(.list, "another device changes a list")
            server.changeLists(using: &incidents.details)
        }
        if strikes(climate.clockJumps) {
            clock.wallOffset = Int64.random(in: -100_000...100_000, using: &incidents.details) * 1_000_000
            mark(.clockJump, "of the machine")
        }
    }
}
