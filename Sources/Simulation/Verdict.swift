import Handlers

/// The result of a run, counted in the store and compared with the peer's log.
package struct Verdict: Codable {
    package struct Kills: Codable {
        package var main = 0
        package var worker = 0
    }

    /// The faults other than kills.
    package struct Faults: Codable {
        package var resets = 0
        package var halfOpen = 0
        package var frozen = 0
        package var expired = 0
        package var restarts = 0
    }

    /// Workers that were killed at a limit.
    package struct LimitCounts: Codable {
        package var memory = 0
        package var time = 0
    }

    package struct HandlerCounts: Codable {
        package var bound = 0
        package var result = 0
        package var error = 0
        package var timeout = 0
        package var invalidated = 0
        package var pending = 0
        package var lost = 0
        package var repeated = 0
    }

    package struct MessageCounts: Codable {
        package var sent = 0
        package var stored = 0
        package var lost = 0
        package var repeated = 0
        package var resentAfterLoss = 0
    }

    /// Items that the peer published on its node. Each replaces the previous one.
    package struct EventCounts: Codable {
        package var published = 0
        package var stored = 0
        /// The number of items that a worker stored.
        package var byWorker = 0
        /// Missing items, although the account had a session and the server knew its interest.
        package var lost = 0
        package var repeated = 0
        /// Missing items that were replaced while there was no session.
        package var replaced = 0
    }

    package struct Percentiles: Codable {
        package var p50 = 0.0
        package var p99 = 0.0
    }

    package var server: String
    package var seed: UInt64
    package var rounds: Int
    package var kills = Kills()
    package var faults = Faults()
    package var limits = LimitCounts()
    /// The means that kept workers within their limits; nil if there were no limits.
    package var limitsKeptBy: String?
    /// Every transition between two states of main, with its count.
    package var transitions: [Transition] = []
    package var owners = OwnerCounts()
    /// How often a worker handed the stream over to main.
    package var handedOver = 0
    /// How often a worker ended with work left because its time was nearly over.
    package var shortOfTime = 0
    package var handlers = HandlerCounts()
    package var messages = MessageCounts()
    package var events = EventCounts()
    /// How often the peer was stopped because too many of its messages were not stored yet.
    package var heldBack = 0
    /// The number of workers started by pushes.
    package var pushes = 0
    package var resumed = 0
    package var rebound = 0
    package var wakeMs = Percentiles()
    package var workerPeakRssMib = 0.0

    package init(server: String, seed: UInt64, rounds: Int) {
        (self.server, self.seed, self.rounds) = (server, seed, rounds)
    }

    /// Whether nothing was lost, repeated or left waiting, and there was enough traffic for a test.
    package var isGood: Bool {
        handlers.bound > 0 && handlers.result > 0 && messages.sent > 0 && handlers.lost == 0
            && handlers.repeated == 0 && handlers.pending == 0 && messages.lost == 0
            && messages.repeated == 0 && owners.staleCommits == 0 && (owners.staleStanzas ?? 0) == 0
            && events.published > 0 && events.lost == 0 && events.repeated == 0
    }
}

/// Compares the store with the peer's log.
struct Judge {
    private struct Sent {
        let n: Int64
        let stanzaID: String
        let handler: Int64
        /// The requested answer of the peer: result, error or silence.
        let want: String
    }

    let store: HandlerStore
    let sightings: PeerSightings

    func judge(_ verdict: inout Verdict) throws {
        verdict = try store.step { step in
            var verdict = verdict
            try countHandlers(&verdict, in: step)
            try countMessages(&verdict, in: step)
            try countEvents(&verdict, in: step)
            let sessions = try step.first("SELECT sum(resumed_count), sum(bound_count) FROM session") {
                (Int($0.integer(0)), Int($0.integer(1)))
            }
            verdict.owners.staleCommits = try Witness.staleCommits(in: step)
            verdict.owners.epochs = try count("SELECT max(epoch) FROM ownership", in: step)
            verdict.resumed = sessions?.0 ?? 0
            verdict.rebound = max(0, (sessions?.1 ?? 0) - 1)
            return verdict
        }
    }

    // MARK: Handlers

    /// Checks that every request and every message bound one handler, in the step that wrote its row.
    private func countHandlers(_ verdict: inout Verdict, in step: borrowing Step) throws {
        var counts = Verdict.HandlerCounts()
        let requests = try step.all("SELECT n, stanza_id, handler, want FROM sim_request") {
            Sent(n: $0.integer(0), stanzaID: $0.text(1), handler: $0.integer(2), want: $0.text(3))
        }
        let messages = try numbers("SELECT n FROM sim_message", in: step)
        let timers = try numbers("SELECT handler FROM sim_timer", in: step)
        let filings = try numbers("SELECT timer FROM sim_filing", in: step)
        counts.bound = requests.count + messages.count + timers.count + filings.count
        counts.result = try ended(.result, in: step)
        counts.error = try ended(.error, in: step)
        counts.timeout = try ended(.timeout, in: step)
        counts.invalidated = try ended(.invalidated, in: step)
        // Parked and quarantined rows have not ended, so they count as pending, including those of modules. Modules bind as many
        // handlers as they need.
        counts.pending = try count(
            "SELECT count(*) FROM handler WHERE kind = \(Transaction.Kind.once.sql)", in: step)
        let ends = counts.result + counts.error + counts.timeout + counts.invalidated
        let own = try count(
            "SELECT count(*) FROM handler WHERE kind = \(Transaction.Kind.once.sql) AND name LIKE 'simulation.%'",
            in: step)
        counts.lost = max(0, counts.bound - ends - own)
        counts.repeated = max(0, ends + own - counts.bound)
        try compareEffects(requests, messages, &counts, in: step)
        try compareTimers(timers, filings, &counts, in: step)
        counts.repeated += repeatedInOneSession(sightings.requests)
        // A request that the peer received and the store lacks was sent before its commit.
        let known = Set(requests.map(\.stanzaID))
        counts.repeated += sightings.requests.count { !known.contains($0.id) }
        // Nothing may be invalidated if every session was resumed.
        if try numbers("SELECT max(number) FROM session", in: step) == [1] {
            counts.lost += counts.invalidated
        }
        verdict.handlers = counts
    }

    /// Checks that each handler's effect exists exactly as often as its ending, and agrees with the peer's log.
    private func compareEffects(
        _ requests: [Sent], _ messages: [Int64], _ counts: inout Verdict.HandlerCounts,
        in step: borrowing Step
    ) throws {
        let endings = try step.all("SELECT n, outcome FROM sim_ending") {
            (n: $0.integer(0), outcome: $0.text(1))
        }
        let outcomes = Dictionary(grouping: endings, by: \.n)
        for request in requests {
            let found = outcomes[request.n] ?? []
            let isEnded = try step.ending(of: AnyHandlerID(rawValue: request.handler)) != nil
            if isEnded && found.isEmpty { counts.lost += 1 }
            counts.repeated += max(0, found.count - 1)
            // Only silence may end in a timeout, and an answer must be the requested one.
            switch found.first?.outcome {
            case "timeout" where request.want != "silence": counts.lost += 1
            case "result" where request.want != "result", "error" where request.want != "error":
                counts.lost += 1
            default: break
            }
            // An outcome with an answer needs an answer of the peer.
            if let outcome = found.first?.outcome, outcome == "result" || outcome == "error",
                !sightings.answered.contains(request.stanzaID)
            {
                counts.repeated += 1
            }
        }
        let acknowledged = Dictionary(
            grouping: try numbers("SELECT n FROM sim_acknowledged", in: step), by: { $0 })
        for n in messages {
            let count = acknowledged[n]?.count ?? 0
            if count == 0 && counts.pending == 0 { counts.lost += 1 }
            counts.repeated += max(0, count - 1)
        }
    }

    /// Checks that each timer files once, and that each filing is done once.
    private func compareTimers(
        _ timers: [Int64], _ filings: [Int64], _ counts: inout Verdict.HandlerCounts, in step: borrowing Step
    ) throws {
        let filed = Dictionary(grouping: try numbers("SELECT timer FROM sim_filed", in: step), by: { $0 })
        let asked = Dictionary(grouping: filings, by: { $0 })
        for timer in timers {
            let isFired = try step.ending(of: AnyHandlerID(rawValue: timer)) != nil
            if isFired && asked[timer] == nil { counts.lost += 1 }
            counts.repeated += max(0, (asked[timer]?.count ?? 0) - 1)
            counts.repeated += max(0, (filed[timer]?.count ?? 0) - 1)
            if counts.pending == 0 && filed[timer] == nil { counts.lost += 1 }
        }
        // A filing without a request belongs to a step that was rolled back.
        counts.repeated += filed.keys.count { asked[$0] == nil }
    }

    private func ended(_ outcome: Outcome, in step: borrowing Step) throws(HandlerError) -> Int {
        try step.first(
            "SELECT count(*) FROM ending WHERE outcome = ? AND name LIKE 'simulation.%'", outcome.rawValue
        ) { Int($0.integer(0)) } ?? 0
    }

    // MARK: Messages

    private func countMessages(_ verdict: inout Verdict, in step: borrowing Step) throws {
        var counts = Verdict.MessageCounts()
        let ours = try step.all("SELECT stanza_id FROM sim_message") { $0.text(0) }
        let stored = try step.all("SELECT stanza_id FROM sim_received ORDER BY row") { $0.text(0) }
        let atPeer = Set(sightings.messages.map(\.id))
        let atUs = Set(stored)
        counts.sent = ours.count + sightings.sent.count
        counts.stored = atUs.count + atPeer.count
        counts.lost = ours.count { !atPeer.contains($0) } + sightings.sent.count { !atUs.contains($0) }
        let known = Set(ours)
        counts.repeated =
            stored.count - atUs.count + repeatedInOneSession(sightings.messages)
            + sightings.messages.count { !known.contains($0.id) }
        counts.resentAfterLoss =
            sightings.messages.count - atPeer.count - repeatedInOneSession(sightings.messages)
        verdict.messages = counts
    }

    // MARK: Events

    private func countEvents(_ verdict: inout Verdict, in step: borrowing Step) throws {
        let rows = try step.all("SELECT n, session, role FROM sim_news ORDER BY row") {
            EventAudit.Row(n: Int($0.integer(0)), session: $0.integer(1), role: $0.text(2))
        }
        let session = try numbers("SELECT max(number) FROM session", in: step).first
        verdict.events = EventAudit(rows: rows, published: sightings.published, session: session ?? 0).counts
    }

    /// Counts the duplicates that the peer received from one full address, which stands for one session.
    private func repeatedInOneSession(_ arrivals: [PeerSightings.Arrival]) -> Int {
        arrivals.count - Set(arrivals).count
    }

    private func count(_ sql: String, in step: borrowing Step) throws(HandlerError) -> Int {
        try step.first(sql) { Int($0.integer(0)) } ?? 0
    }

    private func numbers(_ sql: String, in step: borrowing Step) throws(HandlerError) -> [Int64] {
        try step.all(sql) { $0.integer(0) }
    }
}
