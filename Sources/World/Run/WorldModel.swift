import XMPPCore
import XMPPTestKit

/// What must be true of a world, from outside: it knows what the server saw, what callers were told and what the application's
/// tables say, and none of the library's code.
package final class WorldModel {
    /// A sentence about what is wrong.
    private(set) var violation: String?

    /// How each thing that the application waits for ended.
    private var ended: [Int: String] = [:]
    /// What the application waits for, and the process that bound it.
    private var bound: [Int: (kind: String, process: String)] = [:]
    /// The ids of all stanzas that were ever committed.
    private var boundIDs: Set<String> = []
    /// The ids of those that still are, by what they are for.
    private var stanzas: [Int: String] = [:]
    /// The messages of the peer that were stored, in order.
    private(set) var received: [String] = []
    private var receivedIDs: Set<String> = []
    /// What callers were told to be committed, and their processes.
    private var confirmed: [Int: String] = [:]
    /// The messages of the peer that were acknowledged to the server.
    private var acknowledgedIDs: Set<String> = []
    /// The requests whose answers were acknowledged to the server, by their numbers.
    private var answered: Set<Int> = []
    private var epoch = 0
    /// The process that stored what came on the stream since the last takeover.
    private var owner: String?
    /// How often each timer was called, whatever became of that.
    private var calls: [Int: Int] = [:]
    /// The async handlers that run: the number of the run and its process.
    private var runs: [Int: (run: Int, process: String)] = [:]
    private static let callLimit = 30

    private var sessions: [Int32: Session] = [:]
    private var resuming: [Int32: UInt32] = [:]
    /// What arrived at the server, over all sessions.
    private(set) var arrivals: Set<String> = []
    /// Where the messages of the peer were delivered, oldest first.
    private var places: [String: [(session: Int32, place: Int)]] = [:]
    /// The messages that hold an item of a node, and are in no archive.
    private var items: Set<String> = []
    /// Whether messages come out of an archive, too, in the order in which the peer sent them.
    var hasArchive = false
    /// The process of the stream that was opened last, and when that was.
    private var stream: (process: String, since: Int64) = ("", 0)

    package func fail(_ sentence: @autoclosure () -> String) {
        if violation == nil { violation = sentence() }
    }

    // MARK: The database

    private(set) var marks = Marks()
    /// The marks after each look.
    private var history = [Marks()]
    /// The things that ended and the messages that were stored, in the order of their rows.
    private var endedNumbers: [Int] = []
    /// Whether the store has lost commits with the power, which it was allowed to.
    private var mayBeOlder = false
    /// Messages that were stored, and handlers that ended, and gone after a loss of power that may take them.
    private var lost: Set<String> = []
    private var lostEnds: Set<Int> = []

    /// Power was lost.
    ///
    /// A store may lose the newest commits that were seen: a process that was killed before its sync leaves a commit that another
    /// one reads, and that the next loss of power takes. With FULL nobody may have been told of it.
    ///
    /// - Parameters:
    ///   - found: What the store holds now.
    ///   - isFull: Whether a commit that was done had to survive.
    func losePower(found: Marks, isFull: Bool) {
        let index = history.indices.dropLast().last { found.isWithin(history[$0], history[$0 + 1]) }
        guard let last = index ?? history.firstIndex(of: found) else {
            return fail("after a loss of power the store holds \(found), which it never did")
        }
        history.removeSubrange((last + 1)...)
        if history[last] != found { history.append(found) }
        if isFull { checkDurable(found) }
        let unended = endedNumbers.suffix(from: found.ended)
        for n in unended { ended[n] = nil }
        if !isFull { lostEnds.formUnion(unended) }
        endedNumbers.removeSubrange(found.ended...)
        let forgotten = received.suffix(from: found.received)
        receivedIDs.subtract(forgotten)
        received.removeSubrange(found.received...)
        bound = bound.filter { $0.key <= found.bound }
        if isFull { boundIDs.subtract(stanzas.lazy.filter { $0.key > found.bound }.map(\.value)) }
        stanzas = stanzas.filter { $0.key <= found.bound }
        confirmed = confirmed.filter { $0.key <= found.bound }
        calls = calls.filter { $0.key <= found.bound }
        runs = runs.filter { $0.key <= found.bound }
        (marks, epoch, owner) = (found, 0, nil)
        for number in sessions.keys {
            sessions[number]?.lastStored = (-1, 0)
            sessions[number]?.lastItem = (-1, 0)
        }
        guard !isFull else { return }
        lost.formUnion(forgotten)
        // What was acknowledged is counted again, from an older state.
        for number in sessions.keys { sessions[number]?.acknowledged = 0 }
        answered = answered.filter { ended[$0] != nil }
        mayBeOlder = true
        // What was read may be sent again, by what does not know of it.
        (read, lastRead) = ([], 0)
    }

    /// Checks what a FULL store must have kept, before the model forgets the rest.
    private func checkDurable(_ found: Marks) {
        let lost = "before power was lost, and is not in the store"
        for (n, process) in confirmed.sorted(by: { $0.key < $1.key }) where n > found.bound {
            return fail("\(n) was confirmed to \(process) \(lost)")
        }
        for id in received.suffix(from: found.received) where acknowledgedIDs.contains(id) {
            return fail("\(id) was acknowledged to the server \(lost)")
        }
        for n in endedNumbers.suffix(from: found.ended) where answered.contains(n) {
            return fail("the answer to \(n) was acknowledged to the server \(lost)")
        }
        for (n, id) in stanzas.sorted(by: { $0.key < $1.key }) where n > found.bound && arrivals.contains(id)
        {
            return fail("\(id) reached the server \(lost)")
        }
    }

    /// Compares the rows of the application with what was seen of them, and with what others were told.
    func check(_ stored: Stored) {
        for (n, process) in confirmed.sorted(by: { $0.key < $1.key })
        where stored.bound[n]?.process != process {
            return fail("\(n) was confirmed to \(process) and is not in the store")
        }
        let ids = Set(stored.received)
        for id in acknowledgedIDs.sorted() where !ids.contains(id) && !lost.contains(id) {
            return fail("\(id) was acknowledged to the server and is not in the store")
        }
        let ends = Set(stored.ended)
        for n in answered.sorted() where !ends.contains(n) {
            return fail("the answer to \(n) was acknowledged to the server and is not in the store")
        }
        let seen = bound.reduce(into: [:]) {
            $0[$1.key] = Stored.Bound(
                kind: $1.value.kind, stanza: stanzas[$1.key] ?? "", process: $1.value.process)
        }
        if stored.bound != seen || stored.ended != endedNumbers || stored.received != received {
            fail(
                "the store has \(stored.bound.count), \(stored.ended.count) and \(stored.received.count) rows that are not the \(seen.count), \(endedNumbers.count) and \(received.count) seen"
            )
        }
    }

    func see(_ look: Look) {
        defer { if marks != history.last { history.append(marks) } }
        for row in look.bound {
            bound[row.n] = (row.kind, row.process)
            if let stanza = row.stanza {
                boundIDs.insert(stanza)
                stanzas[row.n] = stanza
            }
            marks.bound = max(marks.bound, row.n)
        }
        let isSameOwner = look.epoch == epoch
        if !isSameOwner { (epoch, owner) = (look.epoch, nil) }
        for row in look.ended where isSameOwner && Self.endsOnStream(kind(of: row.n)) {
            checkOwner(row.process, "\(row.n) (\(kind(of: row.n)))")
        }
        for row in look.received where isSameOwner { checkOwner(row.process, row.stanza) }
        for row in look.ended {
            marks.ended = max(marks.ended, row.row)
            endedNumbers.append(row.n)
            if row.outcome == "early" { fail("\(row.n) was called before its time") }
            if row.outcome == "given up" && !mayBeOlder { fail("\(row.n) was given up") }
            if row.outcome == "forged" { fail("\(row.n) ended with what a stranger sent") }
            if bound[row.n] == nil { fail("\(row.n) ended (\(row.outcome)) and was never bound") }
            if let before = ended.updateValue(row.outcome, forKey: row.n) {
                fail(
                    "\(row.n) (\(kind(of: row.n))) ended twice: \(before), and \(row.outcome) in \(row.process)"
                )
            }
        }
        for row in look.received {
            marks.received = max(marks.received, row.row)
            let id = Self.id(row.stanza)
            // What a store has forgotten, such as a key, cannot be used for what was sent with it.
            if id != row.stanza && !mayBeOlder && !isTooOld(id) { fail(row.stanza) }
            received.append(id)
            lost.remove(id)
            if !receivedIDs.insert(id).inserted { fail("\(id) was stored twice, in \(row.process)") }
            checkOrder(id)
        }
        if bound.count != ended.count + look.waiting {
            fail("\(bound.count) were bound, \(ended.count) ended, and \(look.waiting) wait")
        }
        if look.copies > 0 && !mayBeOlder { fail("the store is older than what was sent from it") }
        if look.ofLostSessions > 0 {
            fail("\(look.ofLostSessions) requests and stanzas belong to a session that was lost")
        }
    }

    /// Messages are stored in the order in which a session delivered them.
    ///
    /// A page of an archive may bring them earlier, in the order in which the peer sent them: where the two orders differ, both are
    /// right. They do when the server hands over again what an older session has left. An item comes in no page, so a message that was
    /// sent after it may be stored before.
    private func checkOrder(_ id: String) {
        guard let places = places[id], let number = places.last?.session, let session = sessions[number]
        else { return }
        let isItem = items.contains(id)
        let (n, last) = (Self.number(in: id), isItem && hasArchive ? session.lastItem : session.lastStored)
        let place = places.first { $0.session == number && $0.place > last.place }?.place
        if let place {
            if isItem { sessions[number]!.lastItem = (place, n) }
            if place > session.lastStored.place { sessions[number]!.lastStored = (place, n) }
            return
        }
        if !hasArchive || n < last.number {
            fail("\(id) was stored after p-\(last.number), which session \(number) delivered later")
        }
    }

    private func checkOwner(_ process: String, _ what: String) {
        if let owner, owner != process {
            fail("\(process) stored \(what) on the stream that \(owner) has taken over")
        }
        owner = process
    }

    // MARK: Callers

    private func kind(of n: Int) -> String { bound[n]?.kind ?? "-" }

    /// A caller was told that this is committed.
    func confirm(_ n: Int, to process: String) {
        if confirmed.updateValue(process, forKey: n) != nil { fail("\(n) was confirmed to two callers") }
        checkConfirmed(n, process)
    }

    private func checkConfirmed(_ n: Int, _ process: String) {
        guard bound[n]?.process != process else { return }
        fail("\(n) was confirmed to \(process) and is not in the store")
    }

    // MARK: Memory

    /// - Parameter isAlive: Whether a process lives.
    func see(_ sight: WorldApp.Sight, in process: String, isAlive: (String) -> Bool) {
        switch sight {
        case .called(let n):
            calls[n, default: 0] += 1
            if calls[n] ?? 0 > Self.callLimit { fail("\(n) was called \(Self.callLimit) times") }
        case .started(let n, let run):
            if let other = runs.updateValue((run, process), forKey: n), isAlive(other.process) {
                fail("\(n) runs in \(other.process) and in \(process) at the same time")
            }
        case .stopped(let n, let run): if runs[n]?.run == run { runs[n] = nil }
        }
    }

    // MARK: The server

    /// - Parameters:
    ///   - process: The process of the connection.
    ///   - sent: When it had sent what arrived last.
    func see(_ row: ServerLogRow, of process: String, sent: Int64, now: Int64) {
        switch row.event {
        // What was sent before the last takeover arrives late, and opens no stream that lasts.
        case .bound, .resumed: if sent >= stream.since { stream = (process, now) }
        case .received where row.session > 0 && (row.isCounted || row.name == "a"):
            // What was under way then may still arrive.
            if process != stream.process && sent > stream.since {
                fail(
                    "\(row.name ?? "") \(row.id ?? "") came from \(process) after \(stream.process) had opened a stream"
                )
            }
        default: break
        }
        switch row.event {
        case .delivered where row.isCounted && !row.isResent:
            let id = WorldServer.peerTexts.contains(row.peer) ? row.id.flatMap(Self.numbered) : nil
            sessions[row.session, default: Session()].delivered.append(id)
            if let id, id.hasPrefix("p-"), let place = sessions[row.session]?.delivered.count {
                places[id, default: []].append((row.session, place - 1))
                if row.peer == WorldServer.peerTexts[1] { items.insert(id) }
            }
        case .received where row.name == "a" && row.hasH: acknowledge(row.h, row.session)
        case .received where row.name == "resume" && row.hasH: resuming[row.connection] = row.h
        case .resumed:
            guard let h = resuming.removeValue(forKey: row.connection) else { return }
            if let session = sessions[row.session], h < session.acknowledged {
                fail("session \(row.session) was resumed with h=\(h) after \(session.acknowledged)")
            }
            acknowledge(h, row.session)
        case .received where row.name == "message" || row.name == "iq":
            if row.type != "result" && row.type != "error", let id = row.id.map({ "\($0)" }) {
                arrive(id, row.session)
            }
        default: break
        }
    }

    /// The client says that it has handled so many.
    private func acknowledge(_ h: UInt32, _ number: Int32) {
        guard let session = sessions[number] else {
            if h > 0 { fail("h=\(h) in session \(number), to which nothing was sent") }
            return
        }
        if h > session.delivered.count {
            return fail("h=\(h) in session \(number), to which \(session.delivered.count) were sent")
        }
        for case let id? in session.delivered[min(session.acknowledged, Int(h))..<Int(h)] {
            if id.hasPrefix("q-") {
                let n = Self.number(in: id)
                // The request was lost with its step.
                guard bound[n] != nil, stanzas[n] == id else { continue }
                if ended[n] == nil && !lostEnds.contains(n) {
                    fail("the answer to \(n) was acknowledged to the server (h=\(h)) and is not stored")
                }
                if ended[n] != nil { answered.insert(n) }
                continue
            }
            if !receivedIDs.contains(id), !lost.contains(id) {
                fail("\(id) was acknowledged to the server (h=\(h)) and is not stored")
            }
            acknowledgedIDs.insert(id)
        }
        sessions[number]?.acknowledged = max(session.acknowledged, Int(h))
    }

    private func arrive(_ id: String, _ number: Int32) {
        guard id.hasPrefix("m-") || id.hasPrefix("q-") else { return }
        if !boundIDs.contains(id) { fail("\(id) reached the server and is not committed") }
        if !sessions[number, default: Session()].arrived.insert(id).inserted {
            fail("\(id) was sent twice in session \(number)")
        }
        let (n, last) = (Self.number(in: id), sessions[number]?.lastNumber ?? 0)
        if n <= last { fail("\(id) reached the server after \(last) in session \(number)") }
        sessions[number]?.lastNumber = n
        arrivals.insert(id)
    }

    // MARK: The peer

    /// Whether a message of the peer is stored.
    package func isStored(_ id: String) -> Bool { receivedIDs.contains(id) }

    /// Whether a message of the peer is too old to be read.
    var isTooOld: (String) -> Bool = { _ in false }
    /// What the peer has read since the last loss of commits, and the number of the last.
    private var read: Set<String> = []
    private var lastRead = 0

    /// The peer has read a message of the application's, which the modules of an addition have carried.
    ///
    /// - Parameter id: `s-`, its number in `world_bound`, `-` and more.
    package func peerRead(_ id: String) {
        let n = Self.number(in: id)
        if !boundIDs.contains(id) { fail("\(id) was read by the peer and is not committed") }
        if !read.insert(id).inserted { fail("\(id) was read twice by the peer") }
        arrivals.insert(id)
        // With NORMAL it may have been under way when the power was lost, and be bound no more. Its number is used again.
        guard stanzas[n] == id else { return }
        if n < lastRead { fail("\(id) was read by the peer after \(lastRead)") }
        lastRead = n
    }

    // MARK: The end

    /// Whether everything has ended, and so many messages of the peer are stored.
    func isSettled(messages: Int) -> Bool {
        ended.count == bound.count && received.count + lost.count == messages
    }

    /// What must hold once everything has come to rest.
    func checkEnd(messages: Int) {
        for (n, process) in confirmed.sorted(by: { $0.key < $1.key }) { checkConfirmed(n, process) }
        for n in bound.keys.sorted() where ended[n] == nil {
            return fail("\(n) (\(kind(of: n))) never ended")
        }
        for number in 1...max(1, messages)
        where messages > 0 && !receivedIDs.contains("p-\(number)") && !lost.contains("p-\(number)") {
            return fail("p-\(number) of the peer was never stored")
        }
        for id in stanzas.values.sorted() where !id.hasPrefix("q-") && !arrivals.contains(id) {
            return fail("\(id) never reached the server")
        }
    }

    var endedCount: Int { ended.count }
    var boundCount: Int { bound.count }

    /// The counts, for the report.
    var summary: String {
        "\(bound.count) bound, \(ended.count) ended, \(received.count) received, \(arrivals.count) sent"
    }
}
