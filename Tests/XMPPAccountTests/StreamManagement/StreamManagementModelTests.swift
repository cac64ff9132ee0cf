import HandlersTestKit
import TestThreads
import Testing

@testable import XMPPAccount

/// Random lives of a session against a server that is nothing but two lists.
///
/// The model keeps whole stanzas, the value keeps counts: whatever the model says was handled, lost or repeated must be
/// what the counts say. Sessions start near 2^32.
@Suite(.ownThread) struct StreamManagementModelTests {
    /// What may happen to a session.
    enum Event: CaseIterable, Sendable {
        /// We send a stanza; it is stored and, on a stream, written.
        case send
        /// The server reads one more stanza of ours.
        case serverReads
        /// The server tells its count.
        case serverAcknowledges
        /// The server sends a stanza.
        case serverSends
        /// We take one in and handle it.
        case handle
        /// We take one in and leave it to be handled later.
        case postpone
        /// We handle one that was left.
        case mark
        /// We tell our count, and the server hears of it.
        case acknowledge
        /// The stream breaks. What was on its way is gone.
        case drop
        /// The process is killed: only what is stored is left.
        case kill
        case resume
        /// The server keeps the session no longer.
        case failResumption
    }

    /// One process's view, its store and the server, with whole stanzas in place of counts.
    struct World {
        var generator: SeededGenerator
        let start: UInt32
        // What is stored.
        var received: UInt32
        var postponed: [UInt32] = []
        var acknowledged: UInt32
        var outbox: [Int] = []
        // The process and its stream.
        var management: StreamManagement?
        var written: [Int] = []
        // The server.
        var serverReceived: UInt32
        var serverQueue: [Int] = []
        var serverAcknowledged: UInt32
        /// What is on its way to us.
        var wire: [Int] = []
        /// What is on its way to the server.
        var wireOut: [Int] = []
        // What the application and the peer have seen.
        var nextSent = 0
        var nextServed = 0
        var handledStanzas: [Int: Int] = [:]
        var readStanzas: [Int: Int] = [:]
        var confirmed: [Int: Int] = [:]
        var lostSessions = 0
        var postponedStanzas: [UInt32: Int] = [:]

        init(seed: UInt64) {
            generator = SeededGenerator(seed: seed)
            start = UInt32.max - UInt32(generator.next() % 5)
            (received, acknowledged, serverReceived, serverAcknowledged) = (start, start, start, start)
            management = StreamManagement(
                received: HandledCount(rawValue: start), acknowledged: HandledCount(rawValue: start))
        }
    }

    /// What went wrong, with the events that lead to it.
    struct Failure: Error, CustomStringConvertible {
        let seed: UInt64
        let events: [Event]
        let reason: String
        var description: String { "seed \(seed): \(reason) after \(events)" }
    }

    @Test("S8 S10 S13 random lives of a session lose nothing and repeat nothing; a failure is shrunk")
    func model() throws {
        for seed in 0..<UInt64(TestScale.of(100_000, part: 20_000)) {
            var generator = SeededGenerator(seed: seed ^ 0xabcdef)
            let events = (0..<40).map { _ in Event.allCases.randomElement(using: &generator)! }
            if let reason = Self.run(events, seed) {
                throw Self.shrink(Failure(seed: seed, events: events, reason: reason))
            }
        }
    }

    @Test(
        "S13 the model notices rules that are wrong: a count that is sent too early, one that is off by one")
    func modelCanFail() {
        var isNoticed = [false, false]
        for seed in UInt64(0)..<2000 {
            var generator = SeededGenerator(seed: seed ^ 0xabcdef)
            let events = (0..<40).map { _ in Event.allCases.randomElement(using: &generator)! }
            if Self.run(events, seed, fault: .tellsReceived) != nil { isNoticed[0] = true }
            if Self.run(events, seed, fault: .offByOne) != nil { isNoticed[1] = true }
        }
        #expect(isNoticed == [true, true])
    }

    enum Fault { case tellsReceived, offByOne }

    /// Leaves out whatever is not needed for the failure.
    private static func shrink(_ failure: Failure) -> Failure {
        var smallest = failure
        var index = 0
        while index < smallest.events.count {
            var events = smallest.events
            events.remove(at: index)
            if let reason = run(events, failure.seed) {
                smallest = Failure(seed: failure.seed, events: events, reason: reason)
            } else {
                index += 1
            }
        }
        return smallest
    }

    /// - Returns: What went wrong.
    private static func run(_ events: [Event], _ seed: UInt64, fault: Fault? = nil) -> String? {
        var world = World(seed: seed)
        do {
            for event in events { try world.play(event, fault) }
            try world.settle(fault)
        } catch {
            return "\(error)"
        }
        return world.verdict
    }
}

private typealias World = StreamManagementModelTests.World

extension World {
    typealias Event = StreamManagementModelTests.Event
    typealias Fault = StreamManagementModelTests.Fault

    mutating func play(_ event: Event, _ fault: Fault?) throws {
        switch event {
        case .send:
            outbox.append(nextSent)
            nextSent += 1
            flush()
        case .serverReads:
            guard !wireOut.isEmpty else { return }
            readStanzas[wireOut.removeFirst(), default: 0] += 1
            serverReceived &+= 1
        case .serverAcknowledges:
            guard management != nil else { return }
            try takeCount(
                fault == .offByOne && serverReceived != acknowledged ? serverReceived &- 1 : serverReceived)
        case .serverSends:
            serverQueue.append(nextServed)
            if management != nil { wire.append(nextServed) }
            nextServed += 1
        case .handle: try take(postponing: false)
        case .postpone: try take(postponing: true)
        case .mark:
            guard let number = postponed.randomElement(using: &generator) else { return }
            postponed.removeAll { $0 == number }
            if let stanza = postponedStanzas.removeValue(forKey: number) {
                handledStanzas[stanza, default: 0] += 1
            }
            management?.setDeferred(postponed.map(HandledCount.init(rawValue:)), now: .zero)
        case .acknowledge:
            guard let management else { return }
            let count = fault == .tellsReceived ? management.received : management.h
            self.management?.didAcknowledge()
            try serverTakesCount(count.rawValue)
        case .drop, .kill:
            // A kill forgets the counters, a broken stream what was on it; the rest is stored either way.
            (management, wire, wireOut, written) = (nil, [], [], [])
        case .resume:
            guard management == nil else { return }
            try resume(fault)
        case .failResumption:
            guard management == nil else { return }
            startAgain()
        }
    }

    private mutating func flush() {
        guard management != nil else { return }
        for stanza in outbox where !written.contains(stanza) {
            written.append(stanza)
            wireOut.append(stanza)
        }
        management?.didWrite(1, now: .zero)
    }

    private mutating func take(postponing: Bool) throws {
        guard management != nil, !wire.isEmpty else { return }
        let stanza = wire.removeFirst()
        switch management!.arrive(now: .zero) {
        case .duplicate: break
        case .new(let number), .again(let number):
            postponed.removeAll { $0 == number.rawValue }
            postponedStanzas[number.rawValue] = nil
            if postponing {
                management!.postpone(number)
                postponed.append(number.rawValue)
                postponedStanzas[number.rawValue] = stanza
            } else {
                handledStanzas[stanza, default: 0] += 1
            }
        }
        received = management!.received.rawValue
    }

    /// The server's count, on an open stream or in `<resumed/>`.
    private mutating func takeCount(_ count: UInt32, resuming: Bool = false) throws {
        let waiting = resuming ? outbox.count : written.count
        let covered = try management!.acknowledge(HandledCount(rawValue: count), waiting: waiting)
        for stanza in outbox.prefix(covered) { confirmed[stanza, default: 0] += 1 }
        let gone = Set(outbox.prefix(covered))
        outbox.removeFirst(covered)
        written.removeAll { gone.contains($0) }
        acknowledged = count
    }

    private mutating func serverTakesCount(_ count: UInt32) throws {
        let covered = Int(count &- serverAcknowledged)
        guard covered <= serverQueue.count else {
            throw ModelError(reason: "the server was told \(count), more than it sent")
        }
        serverQueue.removeFirst(covered)
        serverAcknowledged = count
    }

    private mutating func resume(_ fault: Fault?) throws {
        management = StreamManagement(
            received: HandledCount(rawValue: received), deferred: postponed.map(HandledCount.init(rawValue:)),
            acknowledged: HandledCount(rawValue: acknowledged))
        let told = fault == .tellsReceived ? received : management!.h.rawValue
        try serverTakesCount(told)
        wire = serverQueue
        try takeCount(fault == .offByOne ? serverReceived &- 1 : serverReceived, resuming: true)
        written = []
        flush()
    }

    /// A new session: the server delivers what was not acknowledged by other means, and we send again what it may lack.
    /// What was handled then comes twice, which ids must tell apart; the model has them.
    private mutating func startAgain() {
        lostSessions += 1
        (received, acknowledged, serverReceived, serverAcknowledged) = (0, 0, 0, 0)
        serverQueue = serverQueue.filter { handledStanzas[$0] == nil }
        (postponed, postponedStanzas) = ([], [:])
        // Sent, read and not confirmed: sent again in the new session, and told apart by its id.
        for stanza in outbox where readStanzas[stanza] != nil { readStanzas[stanza] = nil }
        management = StreamManagement()
        (wire, written) = (serverQueue, [])
        flush()
    }

    /// Lets everything arrive.
    mutating func settle(_ fault: Fault?) throws {
        if management == nil { try resume(fault) }
        for _ in 0..<3 {
            while !wireOut.isEmpty { try play(.serverReads, fault) }
            try play(.serverAcknowledges, fault)
            while !wire.isEmpty { try play(.handle, fault) }
            while !postponed.isEmpty { try play(.mark, fault) }
            try play(.acknowledge, fault)
        }
    }

    /// What is wrong when everything has arrived; nil when nothing is.
    var verdict: String? {
        if !outbox.isEmpty { return "never acknowledged: \(outbox)" }
        if !serverQueue.isEmpty { return "never told to be handled: \(serverQueue)" }
        for stanza in 0..<nextSent {
            if readStanzas[stanza] != 1 {
                return "the server read \(stanza) \(readStanzas[stanza] ?? 0) times"
            }
            if confirmed[stanza] != 1 { return "\(stanza) was confirmed \(confirmed[stanza] ?? 0) times" }
        }
        for stanza in 0..<nextServed where handledStanzas[stanza] != 1 {
            return "\(stanza) was handled \(handledStanzas[stanza] ?? 0) times"
        }
        return nil
    }
}

private struct ModelError: Error, CustomStringConvertible {
    let reason: String
    var description: String { reason }
}
