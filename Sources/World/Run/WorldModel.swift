import XMPPTestKit

/// What must be true of a world, from outside: it knows what the server saw, what callers were told and what the application's
/// tables say, and none of the library's code.
final class WorldModel {
    /// A sentence about what is wrong.
    private(set) var violation: String?

    /// How each thing that the application waits for ended.
    private var ended: [Int: String] = [:]
    /// What the application waits for, and the id of its stanza.
    private var bound: [Int: String] = [:]
    private var boundIDs: Set<String> = []
    private var lastEnded = 0
    private var lastBound = 0
    private var lastReceived = 0
    /// The messages of the peer that were stored, in order.
    private(set) var received: [String] = []
    private var receivedIDs: Set<String> = []
    /// What callers were told to be committed.
    private var confirmed: Set<Int> = []

    /// A session as the server sees it.
    private struct Session {
        /// The ids of the counted stanzas in the order in which they were handed over; nil for those without a meaning here.
        var delivered: [String?] = []
        var acknowledged = 0
        /// The ids of counted stanzas of the client.
        var arrived: Set<String> = []
        var lastNumber = 0
    }

    private var sessions: [Int32: Session] = [:]
    private var resuming: [Int32: UInt32] = [:]
    /// What arrived at the server, over all sessions.
    private(set) var arrivals: Set<String> = []

    func fail(_ sentence: @autoclosure () -> String) { if violation == nil { violation = sentence() } }

    // MARK: The database

    /// The rows of the application since the last look.
    struct Look {
        var bound: [(n: Int, kind: String, stanza: String?, process: String)] = []
        var ended: [(row: Int, n: Int, outcome: String, process: String)] = []
        var received: [(row: Int, stanza: String, process: String)] = []
        /// The handlers in the table that end once and whose end is noted.
        var waiting = 0
    }

    var marks: (bound: Int, ended: Int, received: Int) { (lastBound, lastEnded, lastReceived) }

    func see(_ look: Look) {
        for row in look.bound {
            bound[row.n] = row.kind
            if let stanza = row.stanza { boundIDs.insert(stanza) }
            lastBound = max(lastBound, row.n)
        }
        for row in look.ended {
            lastEnded = max(lastEnded, row.row)
            if row.outcome == "forged" { fail("\(row.n) ended with what a stranger sent") }
            if bound[row.n] == nil { fail("\(row.n) ended (\(row.outcome)) and was never bound") }
            if let before = ended.updateValue(row.outcome, forKey: row.n) {
                fail(
                    "\(row.n) (\(bound[row.n] ?? "-")) ended twice: \(before), and \(row.outcome) in \(row.process)"
                )
            }
        }
        for row in look.received {
            lastReceived = max(lastReceived, row.row)
            received.append(row.stanza)
            if !receivedIDs.insert(row.stanza).inserted {
                fail("\(row.stanza) was stored twice, in \(row.process)")
            }
        }
        if bound.count != ended.count + look.waiting {
            fail("\(bound.count) were bound, \(ended.count) ended, and \(look.waiting) wait")
        }
    }

    // MARK: Callers

    /// A caller was told that this is committed.
    func confirm(_ n: Int) { confirmed.insert(n) }

    /// Checks that everything confirmed is there.
    func checkConfirmed() {
        for n in confirmed.sorted() where bound[n] == nil {
            return fail("\(n) was confirmed to its caller and is not in the store")
        }
    }

    // MARK: The server

    func see(_ row: ServerLogRow) {
        switch row.event {
        case .delivered where row.isCounted && !row.isResent:
            sessions[row.session, default: Session()].delivered.append(
                row.name == "message" && row.peer == WorldServer.peerText ? row.id.map { "\($0)" } : nil)
        case .received where row.name == "a" && row.hasH: acknowledge(row.h, row.session)
        case .received where row.name == "resume" && row.hasH: resuming[row.connection] = row.h
        case .resumed:
            if let h = resuming.removeValue(forKey: row.connection) { acknowledge(h, row.session) }
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
        for id in session.delivered[min(session.acknowledged, Int(h))..<Int(h)] {
            if let id, !receivedIDs.contains(id) {
                fail("\(id) was acknowledged to the server (h=\(h)) and is not stored")
            }
        }
        sessions[number]?.acknowledged = max(session.acknowledged, Int(h))
    }

    private func arrive(_ id: String, _ number: Int32) {
        guard id.hasPrefix("m-") || id.hasPrefix("q-") else { return }
        if !boundIDs.contains(id) { fail("\(id) reached the server and is not committed") }
        if !sessions[number, default: Session()].arrived.insert(id).inserted {
            fail("\(id) was sent twice in session \(number)")
        }
        arrivals.insert(id)
    }

    // MARK: The end

    /// Whether everything has ended.
    var isSettled: Bool { ended.count == bound.count }

    /// What must hold once everything has come to rest.
    func checkEnd(messages: Int) {
        checkConfirmed()
        for n in bound.keys.sorted() where ended[n] == nil {
            return fail("\(n) (\(bound[n] ?? "-")) never ended")
        }
        for number in 1...max(1, messages) where messages > 0 && !receivedIDs.contains("p-\(number)") {
            return fail("p-\(number) of the peer was never stored")
        }
        for id in boundIDs.sorted() where id.hasPrefix("m-") && !arrivals.contains(id) {
            return fail("\(id) never reached the server")
        }
    }

    var endedCount: Int { ended.count }

    /// The counts, for the report.
    var summary: String {
        "\(bound.count) bound, \(ended.count) ended, \(received.count) received, \(arrivals.count) sent"
    }
}
