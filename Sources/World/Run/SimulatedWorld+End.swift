import Platform

// A run, and the checks at its end.
extension SimulatedWorld {
    /// Runs with faults until the processes of the recipe have been started, then without faults until everything has ended.
    package func run() {
        while lives < recipe.lives, violation == nil, step(until: .max) {}
        if violation == nil { settle() }
        if violation == nil, endsWithFlip { flipBit() }
        isCalm = true
        for process in processes { kill(process) }
        if leaks > 0 { model.fail("\(leaks) loops of dead processes never ended") }
        observer.close()
        addition?.close()
        Randomness.replace(by: nil)
    }

    /// The limits of events and of time until everything has ended, once the faults have stopped.
    static let settleLimits = (events: 200_000, seconds: 4000 as Int64)

    func settle() {
        if isPowerLost { losePower() }
        note("calm")
        isCalm = true
        network.weather = .init()
        outageUntil = nil
        (fullUntil, disk.capacity) = (nil, nil)
        server.behave()
        for link in network.open { network.reset(link) }
        for process in processes {
            process.thawsAt = nil
            process.disk.isFrozen = false
        }
        comeToRest()
        if violation == nil, recipe.seed % 4 == 0 {
            // Only the keep-alive shows a process that its connection is lost.
            for link in network.open { network.forget(link) }
            server.sendMessage()
            comeToRest()
        }
        if violation == nil, addition != nil {
            for _ in 0..<2 { server.sendMessage(isPlain: false) }
            comeToRest()
        }
        model.checkEnd(messages: server.lastMessage)
        checkStored()
        checkIntegrity(isReadable: true)
        checkBounds(isAtRest: true)
    }

    func comeToRest() {
        let (lastEvent, lastTime) = (
            events + Self.settleLimits.events, clock.now + Self.settleLimits.seconds * 1_000_000_000
        )
        while violation == nil, !isAtRest {
            guard events < lastEvent, clock.now < lastTime, step(until: .max) else {
                model.checkEnd(messages: server.lastMessage)
                return model.fail("the store did not come to rest: \(rest)")
            }
        }
    }

    /// Compares the rows of the application with the model.
    func checkStored() {
        guard violation == nil else { return }
        // A missing table has no rows.
        model.check(observer.stored() ?? .init())
    }

    /// Checks the database for damage.
    ///
    /// - Parameter isReadable: Whether no process can prevent the read.
    func checkIntegrity(isReadable: Bool = false) {
        guard violation == nil, !isFlipped else { return }
        guard let sentences = observer.integrity() else {
            if isReadable && disk.size(of: Self.path) > 0 { model.fail("the database cannot be read") }
            return
        }
        if sentences != ["ok"] { model.fail("the database is damaged: \(sentences)") }
    }

    func checkBounds(isAtRest: Bool) {
        guard violation == nil, !isFlipped else { return }
        let bounds = WorldBounds(
            bound: model.boundCount, messages: server.lastMessage, sent: server.sent,
            lives: lives, powerLosses: powerLosses,
            alive: machine.alive.count, isAtRest: isAtRest, hasArchive: options.hasArchive,
            hasErrands: options.hasErrands, hasLanes: options.hasLanes, addition: addition)
        if let sentence = bounds.violation(of: observer.counts()) { model.fail(sentence) }
    }

    var isAtRest: Bool {
        model.isSettled(messages: server.lastMessage) && observer.number(Self.leftovers) == 0
            && observer.number(slotsOfDead) == 0
            && (server.lists == nil || server.lists?.text == observer.lists())
    }

    /// Counts the rows that every run must remove in the end.
    static let leftovers =
        "SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM request) + (SELECT count(*) FROM handler WHERE state = 3)"

    /// Counts the slots of dead processes, which the next process frees.
    var slotsOfDead: String {
        let alive = machine.alive.map(String.init).joined(separator: ", ")
        return "SELECT count(*) FROM connected_slot WHERE slot NOT IN (\(alive))"
    }

    var rest: String {
        "\(model.summary), \(server.lastMessage) messages of the peer, \(server.offlineCount) stored at the server, outbox \(observer.number("SELECT count(*) FROM outbox") ?? -1), requests \(observer.number("SELECT count(*) FROM request") ?? -1), handlers \(observer.number("SELECT count(*) FROM handler") ?? -1), quarantined \(observer.number("SELECT count(*) FROM handler WHERE state = 2") ?? -1), slots of dead processes \(observer.number(slotsOfDead) ?? -1), lists \(observer.lists()) at the account, \(server.lists?.text ?? "none") at the server"
    }
}
