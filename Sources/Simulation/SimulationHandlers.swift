package import Handlers
import HandlerMacrosSupport
package import XMPPAccount
package import XMPPCore

/// The application of the simulation: the work of main and worker when a stanza arrives.
///
/// Its tables have no unique keys on purpose: a handler that ran twice leaves two rows, and the verdict counts them.
package enum SimulationApp {
    package static let namespace = "urn:durable-handlers:sim:0"

    package static let schema = Schema(
        module: "simulation",
        migrations: [
            """
            CREATE TABLE sim_message(n INTEGER PRIMARY KEY, stanza_id TEXT NOT NULL);
            CREATE TABLE sim_request(n INTEGER PRIMARY KEY, stanza_id TEXT NOT NULL, handler INTEGER NOT NULL, want TEXT NOT NULL);
            CREATE TABLE sim_received(row INTEGER PRIMARY KEY, stanza_id TEXT NOT NULL, sender TEXT NOT NULL, body TEXT NOT NULL, role TEXT NOT NULL);
            CREATE TABLE sim_ending(row INTEGER PRIMARY KEY, n INTEGER NOT NULL, outcome TEXT NOT NULL, role TEXT NOT NULL);
            CREATE TABLE sim_acknowledged(row INTEGER PRIMARY KEY, n INTEGER NOT NULL);
            CREATE TABLE sim_news(row INTEGER PRIMARY KEY, n INTEGER NOT NULL, session INTEGER NOT NULL, role TEXT NOT NULL);
            CREATE TABLE sim_timer(row INTEGER PRIMARY KEY, handler INTEGER NOT NULL);
            CREATE TABLE sim_filing(row INTEGER PRIMARY KEY, timer INTEGER NOT NULL);
            CREATE TABLE sim_filed(row INTEGER PRIMARY KEY, timer INTEGER NOT NULL, key TEXT NOT NULL);
            """,
            // Records which process raised the owner's epoch (`took`), and which process committed under it; see Witness.
            """
            CREATE TABLE sim_owner(epoch INTEGER NOT NULL, process INTEGER NOT NULL, took INTEGER NOT NULL,
                PRIMARY KEY(epoch, process, took)) WITHOUT ROWID;
            """,
        ])

    /// Stores every message. Some messages make it send a request to the sender in the same step.
    @Handler("simulation.received")
    package static func received(_ call: borrowing Call<MessageReceived>) throws {
        try call.step.execute(
            "INSERT INTO sim_received(stanza_id, sender, body, role) VALUES (?, ?, ?, ?)",
            call.message.id ?? "", call.message.from?.description ?? "", call.message.body ?? "",
            call.account.configuration.role.rawValue)
        guard let peer = call.message.from, let number = Int(call.message.body ?? "") else { return }
        if number % 5 == 0 {
            try ask(try next("sim_request", in: call.step), of: peer, from: call.account, in: call.step)
        }
        if number % 3 == 0 { try setTimer(number, in: call.step) }
    }

    /// Stores the outcome of a numbered request.
    @Handler("simulation.answered")
    package static func answered(_ call: borrowing Call<IQReply>, n: Int) throws {
        let outcome =
            switch call.outcome {
            case .result: "result"
            case .error: "error"
            case .timeout: "timeout"
            }
        try note(n, outcome, call.account, in: call.step)
    }

    /// Records that a numbered request can never be answered.
    @Handler("simulation.abandoned")
    package static func abandoned(_ call: borrowing Call<Invalidation>, n: Int) throws {
        try note(n, "invalidated", call.context.account, in: call.step)
    }

    /// Records that the server took responsibility for a numbered message.
    @Handler("simulation.acknowledged")
    package static func acknowledged(_ call: borrowing Call<StanzaAcknowledged>, n: Int) throws {
        try call.step.execute("INSERT INTO sim_acknowledged(n) VALUES (?)", n)
    }

    private static func note(_ n: Int, _ outcome: String, _ account: Account, in step: borrowing Step) throws
    {
        try step.execute(
            "INSERT INTO sim_ending(n, outcome, role) VALUES (?, ?, ?)", n, outcome,
            account.configuration.role.rawValue)
    }

    // MARK: Sending

    /// Sends the next numbered message and the next numbered request. The numbers are rows of the same step, so a killed process
    /// neither skips nor repeats a number.
    package static func sendNext(to peer: JID, from account: Account, in step: borrowing Step) throws {
        let n = try next("sim_message", in: step)
        // The random part distinguishes a committed message from one that was sent and rolled back.
        let id = "m-\(n)-\(StanzaID.random())"
        let message = Message(to: peer, id: id, body: String(n))
        try account.send(message, acknowledged: acknowledged(n: n), in: step)
        try step.execute("INSERT INTO sim_message(n, stanza_id) VALUES (?, ?)", n, id)
        try ask(try next("sim_request", in: step), of: peer, from: account, in: step)
    }

    /// Sends a request that the peer answers only on command.
    package static func askForLater(of peer: JID, from account: Account, in step: borrowing Step) throws {
        try ask(try next("sim_request", in: step), of: peer, from: account, wanting: "later", in: step)
    }

    private static func ask(_ n: Int, of peer: JID, from account: Account, in step: borrowing Step) throws {
        // Most requests get a result; some get an error, and some get no answer.
        let want = n % 7 == 3 ? "silence" : n % 5 == 0 ? "error" : "result"
        try ask(n, of: peer, from: account, wanting: want, in: step)
    }

    private static func ask(
        _ n: Int, of peer: JID, from account: Account, wanting want: String, in step: borrowing Step
    ) throws {
        let question = Element("question", namespace: namespace, attributes: ["n": String(n), "want": want])
        let iq = IQ(type: .get, to: peer, id: "q-\(n)-\(StanzaID.random())", payload: question)
        let handler = try account.send(
            .iq(iq), then: answered(n: n), orElse: abandoned(n: n),
            timeout: .milliseconds(want == "silence" ? 40 : want == "later" ? 600_000 : 60_000), in: step)
        try step.execute(
            "INSERT INTO sim_request(n, stanza_id, handler, want) VALUES (?, ?, ?, ?)", n, iq.id, handler,
            want == "later" ? "result" : want)
    }

    private static func next(_ table: String, in step: borrowing Step) throws(HandlerError) -> Int {
        try step.first("SELECT coalesce(max(n), 0) + 1 FROM \(table)") { Int($0.integer(0)) } ?? 1
    }

    /// Returns the number of waiting handlers and of unacknowledged stanzas.
    package static func waiting(in step: borrowing Step) throws(HandlerError) -> Int {
        try step.first(
            """
            SELECT (SELECT count(*) FROM handler WHERE kind = \(Transaction.Kind.once.sql)
                AND state IN (\(Transaction.State.pending.sql), \(Transaction.State.leased.sql)))
                + (SELECT count(*) FROM outbox)
            """
        ) { Int($0.integer(0)) } ?? 0
    }
}
