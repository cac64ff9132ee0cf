import Handlers
import XMPPCore
import XMPPTransport

/// The facts that an account learned in its logins, one row, and the login token, at most one; read and written only
/// inside steps.
struct LoginTable {
    let account: Int64

    static let schema = Schema(
        module: "xmpp-login",
        migrations: [
            """
            -- `agent` names this installation to the server. `pinned` is the best mechanism that has logged in and
            -- `iterations` the highest count of its hash; `offer` is what the server offered last, as XML.
            CREATE TABLE login(
                account INTEGER PRIMARY KEY,
                agent TEXT NOT NULL,
                pinned TEXT,
                iterations INTEGER NOT NULL DEFAULT 0,
                offer TEXT,
                managing INTEGER NOT NULL DEFAULT 0,
                client_state INTEGER NOT NULL DEFAULT 0);

            -- XEP-0484. `count` is that of the last use: it is raised and committed before it is sent.
            CREATE TABLE fast_token(
                account INTEGER PRIMARY KEY,
                mechanism TEXT NOT NULL,
                token TEXT NOT NULL,
                expiry TEXT,
                count INTEGER NOT NULL DEFAULT 0);
            """,
            """
            -- How many bytes a stanza may have (XEP-0478); 0 when the server does not say.
            ALTER TABLE login ADD COLUMN stanza_limit INTEGER NOT NULL DEFAULT 0;
            """,
        ])

    func recall(in step: borrowing Step) throws(HandlerError) -> KnownLogin {
        try step.write(
            "INSERT INTO login(account, agent) VALUES (?, ?) ON CONFLICT DO NOTHING", account,
            Self.makeAgent())
        return try known(in: step, now: step.now) ?? KnownLogin(agent: Self.makeAgent())
    }

    /// Returns what is stored; nil before the first login.
    func known(in source: borrowing some Readable, now: Timestamp) throws(HandlerError) -> KnownLogin? {
        let known = try source.first(
            """
            SELECT agent, pinned, iterations, offer, managing, session.location
            FROM login LEFT JOIN session ON session.account = login.account WHERE login.account = ?
            """, account
        ) { row in
            KnownLogin(
                agent: row.text(0), pinned: row.optionalText(1).flatMap { SCRAMMechanism(name: $0) },
                iterations: Int(row.quantity(2)),
                offer: row.optionalText(3).flatMap { ServerOffer(stored: $0) },
                isManaging: row.integer(4) != 0, location: row.optionalText(5))
        }
        guard var login = known else { return nil }
        login.tokenMechanism = try tokenMechanism(in: source, now: now)
        return login
    }

    /// Returns whether the server offered stream management at the last login.
    func isManaging(in source: borrowing some Readable) throws(HandlerError) -> Bool {
        try source.first("SELECT managing FROM login WHERE account = ?", account) {
            $0.integer(0) != 0
        } ?? false
    }

    private func tokenMechanism(
        in source: borrowing some Readable, now: Timestamp
    ) throws(HandlerError) -> HashedTokenMechanism? {
        let row = try source.first("SELECT mechanism, expiry FROM fast_token WHERE account = ?", account) {
            ($0.text(0), $0.optionalText(1))
        }
        guard let (name, expiry) = row,
            !FastToken.isOver(expiry.map { ForeignText($0) }, now: now.description)
        else { return nil }
        return HashedTokenMechanism(name: name)
    }

    /// Raises the count; what it returns may be used once the step is committed.
    func spendToken(in step: borrowing Step) throws(HandlerError) -> SpentToken? {
        try step.first(
            "UPDATE fast_token SET count = count + 1 WHERE account = ? RETURNING mechanism, token, count",
            account
        ) { row in
            HashedTokenMechanism(name: row.text(0)).map {
                SpentToken(mechanism: $0, secret: SecretBytes(row.text(1)), count: row.integer(2))
            }
        } ?? nil
    }

    /// Returns whether the server wants to know if the client is looked at (XEP-0352).
    func hasClientState(in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.first("SELECT client_state FROM login WHERE account = ?", account) {
            $0.integer(0) != 0
        } ?? false
    }

    /// Returns the maximum size of a stanza in bytes; 0 if unknown.
    func stanzaLimit(in step: borrowing Step) throws(HandlerError) -> Int {
        try step.first("SELECT stanza_limit FROM login WHERE account = ?", account) {
            Int($0.quantity(0))
        } ?? 0
    }

    /// Removes that token; a newer one stays.
    func discard(_ token: SpentToken, in step: borrowing Step) throws(HandlerError) {
        let text = token.secret.withBytes { String(decoding: $0, as: UTF8.self) }
        try step.write("DELETE FROM fast_token WHERE account = ? AND token = ?", account, text)
    }

    func forgetOffer(in step: borrowing Step) throws(HandlerError) {
        try step.write("UPDATE login SET offer = NULL WHERE account = ?", account)
    }

    func forgetToken(in step: borrowing Step) throws(HandlerError) {
        try step.write("DELETE FROM fast_token WHERE account = ?", account)
    }

    /// Forgets the token, which the original uses on, and takes another name beside it.
    func forgetInstallation(in step: borrowing Step) throws(HandlerError) {
        try forgetToken(in: step)
        try step.write("UPDATE login SET agent = ? WHERE account = ?", Self.makeAgent(), account)
    }

    /// Forgets all but the name of this installation.
    func forget(in step: borrowing Step) throws(HandlerError) {
        try forgetToken(in: step)
        try step.write(
            """
            UPDATE login SET pinned = NULL, iterations = 0, offer = NULL, managing = 0, stanza_limit = 0
            WHERE account = ?
            """, account)
    }

    func learn(_ learned: LearnedLogin, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            """
            UPDATE login SET offer = ?, managing = ?, client_state = coalesce(?, client_state),
                stanza_limit = coalesce(?, stanza_limit)
            WHERE account = ?
            """, learned.offer, learned.isManaging, learned.hasClientState, learned.stanzaLimit, account)
        if let scram = learned.scram { try pin(scram.mechanism, scram.iterations, in: step) }
        guard let (mechanism, token) = learned.token else { return }
        let text = token.secret.withBytes { String(decoding: $0, as: UTF8.self) }
        try step.write(
            """
            INSERT INTO fast_token(account, mechanism, token, expiry) VALUES (?, ?, ?, ?)
            ON CONFLICT(account) DO UPDATE SET mechanism = excluded.mechanism, token = excluded.token,
                expiry = excluded.expiry, count = 0
            """, account, mechanism.name, text, token.expiry)
    }

    /// The mechanism was accepted, so it is no weaker than the one before; another hash begins another count.
    private func pin(
        _ mechanism: SCRAMMechanism, _ iterations: Int, in step: borrowing Step
    ) throws(HandlerError) {
        try step.write(
            """
            UPDATE login SET
                iterations = CASE WHEN replace(pinned, '-PLUS', '') = ?1 AND iterations > ?2 THEN iterations ELSE ?2 END,
                pinned = ?3
            WHERE account = ?4
            """, SCRAMMechanism(mechanism.hash).name, iterations, mechanism.name, account)
    }

    /// A random UUID, version 4.
    private static func makeAgent() -> String {
        var bytes = Crypto.randomBytes(16)
        bytes[6] = bytes[6] & 0x0F | 0x40
        bytes[8] = bytes[8] & 0x3F | 0x80
        let digits = bytes.hexadecimal
        let groups = [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map { range in String(Array(digits)[range]) }
        return groups.joined(separator: "-")
    }
}
