import XMPPCore
import XMPPTestKit

/// Checks what must be true of a world. It knows the server's log, the confirmations to callers and the application's tables, and
/// none of the library's code.
package final class WorldModel {
    /// The description of the first violation.
    private(set) var violation: String?

    /// The outcome of each entry that has ended.
    private var ended: [Int: String] = [:]
    /// The entries that the application has bound, with their processes.
    private var bound: [Int: (kind: String, process: String)] = [:]
    /// The ids of all stanzas that were ever committed.
    private var boundIDs: Set<String> = []
    /// The stanzas of the entries that are still committed.
    private var stanzas: [Int: String] = [:]
    /// The stored messages of the peer, in order.
    private(set) var received: [String] = []
    private var receivedIDs: Set<String> = []
    /// The lowest number of a message of the peer that is not stored, or a lower one.
    private var firstMissing = 1
    /// The entries that were confirmed to callers as committed, with the callers' processes.
    private var confirmed: [Int: String] = [:]
    /// The messages of the peer that were acknowledged to the server.
    private var acknowledgedIDs: Set<String> = []
    /// The requests whose answers were acknowledged to the server, by their numbers.
    private var answered: Set<Int> = []
    private var epoch = 0
    /// The process that stored stanzas from the stream since the last takeover.
    private var owner: String?
    /// How often each timer was called, rolled-back calls included.
    private var calls: [Int: Int] = [:]
    /// The running async handlers: the number of the run, and its process.
    private var runs: [Int: (run: Int, process: String, inLane: Bool)] = [:]
    private static let callLimit = 30

    private var sessions: [Int32: Session] = [:]
    private var resuming: [Int32: UInt32] = [:]
    /// The ids of all stanzas that arrived at the server, over all sessions.
    private(set) var arrivals: Set<String> = []
    /// The sessions and places at which each message of the peer was delivered, oldest first.
    private var places: [String: [(session: Int32, place: Int)]] = [:]
    /// The messages that contain an item of a node. They are in no archive.
    private var items: Set<String> = []
    /// Whether messages also come from an archive, in the order in which the peer sent them.
    var hasArchive = false
    /// The process of the stream that was opened last, the time when it sent the request, and the time when that arrived.
    private var stream: (process: String, sent: Int64, since: Int64) = ("", 0, 0)

    package func fail(_ sentence: @autoclosure () -> String) {
        if violation == nil { violation = sentence() }
    }

    // MARK: The database

    private(set) var marks = Marks()
    /// The marks after each look.
    private var history = [Marks()]
    /// The ended entries and the stored messages, in the order of their rows.
    private var endedNumbers: [Int] = []
    /// Whether the store has lost commits with the power, as it may without FULL.
    private var mayBeOlder = false
    /// Stored messages and ended handlers that a permitted power loss has removed.
    private var lost: Set<String> = []
    private var lostEnds: Set<Int> = []

    /// Updates the model after a power loss.
    ///
    /// A store may lose the newest commits that were seen. A process that was killed before its sync leaves a commit that other
    /// processes can read, and the next power loss can remove it. With FULL, no such commit may have been confirmed to anyone.
    ///
    /// - Parameters:
    ///   - found: The newest rows of the store after the power loss.
    ///   - isFull: Whether a finished commit must survive.
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
        firstMissing = 1
        received.removeSubrange(found.received...)
        bound = bound.filter { $0.key <= found.bound }
        if isFull { boundIDs.subtract(stanzas.lazy.filter { $0.key > found.bound }.map(\.value)) }
        stanzas = stanzas.filter { $0.key <= found.bound }
        confirmed = confirmed.filter { $0.key <= found.bound }
        calls = calls.filter { $0.key <= found.bound }
        runs = runs.filter { $0.key <= found.bound }
        (marks, epoch, owner) = (found, 0, nil)
        for number in sessions.keys {
            sessions[number]?.lastStored = [(-1, 0)]
            sessions[number]?.lastItem = (-1, 0)
        }
        guard !isFull else { return }
        lost.formUnion(forgotten)
        // The client counts acknowledged stanzas again, from an older state.
        for number in sessions.keys { sessions[number]?.acknowledged = 0 }
        answered = answered.filter { ended[$0] != nil }
        mayBeOlder = true
        // A store that has forgotten a message may send it again, also one that is in transit.
        inTransit.formUnion(boundIDs.filter { $0.hasPrefix("s-") }.subtracting(read))
        (read, lastRead) = ([], 0)
    }

    /// Checks that a FULL store has kept what it must keep, before the model forgets the lost rows.
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

    /// Compares the rows of the application with those seen earlier, and with the confirmations to others.
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
            if kind(of: row.n) == "lane", let key = WorldApp.orderKey(row.n),
                let other = endedNumbers.dropLast().last(where: {
                    kind(of: $0) == "lane" && WorldApp.orderKey($0) == key
                }), other > row.n
            {
                fail("\(row.n) ended after \(other), which came later in its lane with the same order key")
            }
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
            // A store that has lost a key cannot read messages that were encrypted with it.
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

    /// Checks that messages are stored in the order of their delivery in a session.
    ///
    /// A page of an archive may bring messages earlier, in the order in which the peer sent them. If the two orders differ, both
    /// are right. They differ when the server delivers again the stanzas that an older session has left. Nothing shows which of the
    /// two brought a message, so one order that explains all of them is enough. A page brings a message only after all earlier ones.
    /// A message with an item is in no page, so a message that was sent after it may be stored before it.
    private func checkOrder(_ id: String) {
        guard let places = places[id], let number = places.last?.session, let session = sessions[number]
        else { return }
        let n = Self.number(in: id)
        let own = places.filter { $0.session == number }.map(\.place)
        let isItem = items.contains(id) && hasArchive
        let mayBeInPage = hasArchive && !isItem && hasAll(before: n)
        var next: [(place: Int, number: Int)] = []
        for last in isItem ? [session.lastItem] : session.lastStored {
            let place = own.first { $0 > last.place }
            if let place { next.append((place, n)) }
            if mayBeInPage || (place == nil && hasArchive && n >= last.number) { next.append(last) }
        }
        guard let first = next.first else {
            let last = isItem ? session.lastItem : session.lastStored[0]
            return fail("\(id) was stored after p-\(last.number), which session \(number) delivered later")
        }
        if isItem {
            sessions[number]!.lastItem = first
            next = session.lastStored.map { $0.place < first.place ? first : $0 }
        }
        // What is possible after a later place and a higher number is also possible after these.
        sessions[number]!.lastStored = next.enumerated().filter { index, last in
            !next.enumerated().contains {
                $1.place <= last.place && $1.number <= last.number
                    && ($1 != last || $0 < index)
            }
        }.map(\.element)
    }

    /// Whether all messages of the peer with lower numbers are stored, but for those that are in no archive.
    private func hasAll(before n: Int) -> Bool {
        while case let id = "p-\(firstMissing)", receivedIDs.contains(id) || items.contains(id) {
            firstMissing += 1
        }
        return firstMissing >= n
    }

    private func checkOwner(_ process: String, _ what: String) {
        if let owner, owner != process {
            fail("\(process) stored \(what) on the stream that \(owner) has taken over")
        }
        owner = process
    }

    // MARK: Callers

    private func kind(of n: Int) -> String { bound[n]?.kind ?? "-" }

    /// Records that a caller received the confirmation of a commit.
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
        case .started(let n, let run, let inLane):
            if let other = runs.updateValue((run, process, inLane), forKey: n), isAlive(other.process) {
                fail("\(n) runs in \(other.process) and in \(process) at the same time")
            }
            let count = inLane ? runs.values.count { $0.inLane && isAlive($0.process) } : 0
            if count > WorldApp.lane.concurrency { fail("\(count) handlers of a lane run at the same time") }
        case .stopped(let n, let run): if runs[n]?.run == run { runs[n] = nil }
        }
    }

    // MARK: The server

    /// - Parameters:
    ///   - process: The process of the connection.
    ///   - sent: The time when the process had sent the bytes that arrived last.
    func see(_ row: ServerLogRow, of process: String, sent: Int64, now: Int64) {
        switch row.event {
        // A request that was sent before the last takeover arrives late, and opens no lasting stream.
        case .bound, .resumed: if sent >= stream.sent { stream = (process, sent, now) }
        case .received where row.session > 0 && (row.isCounted || row.name == "a"):
            // Stanzas that were in transit at that time may still arrive.
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

    /// Checks a count that the client acknowledges.
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
    /// The messages that the peer has read since the last loss of commits, and the number of the last one.
    private var read: Set<String> = []
    private var lastRead = 0
    /// The messages that the peer had not read at the last loss of commits: they may have been sent, and be sent again.
    private var inTransit: Set<String> = []

    /// Records that the peer has read a message of the application, sent through an addition's modules.
    ///
    /// - Parameter id: `s-`, the number in `world_bound`, `-`, and a suffix.
    package func peerRead(_ id: String) {
        let n = Self.number(in: id)
        if !boundIDs.contains(id) { fail("\(id) was read by the peer and is not committed") }
        arrivals.insert(id)
        if inTransit.remove(id) != nil { return }
        if !read.insert(id).inserted { fail("\(id) was read twice by the peer") }
        // With NORMAL, the message may have been in transit at a power loss that removed its row. Its number is then used again.
        guard stanzas[n] == id else { return }
        if n < lastRead { fail("\(id) was read by the peer after \(lastRead)") }
        lastRead = n
    }

    // MARK: The end

    /// Whether everything has ended, and this number of messages of the peer is stored.
    func isSettled(messages: Int) -> Bool {
        ended.count == bound.count && received.count + lost.count == messages
    }

    /// Checks what must be true once everything has come to rest.
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
