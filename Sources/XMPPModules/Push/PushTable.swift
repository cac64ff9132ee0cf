import Handlers
import XMPPCore

/// Stored registrations, and those that the server still has to forget; read and written only inside steps.
package struct PushTable {
    /// What the server has answered about a registration, in `state`.
    package enum Answer: Int64, StoredState {
        case pending = 0
        case enabled = 1
        case refused = 2
    }

    let account: Int64

    static let script = """
        -- `node` is '' for none, `options` a data form. `asked` is the id of the last request about it; `state` 0 pending,
        -- 1 enabled in this session, 2 refused with `error`.
        CREATE TABLE push_registration(
            account INTEGER NOT NULL,
            service TEXT NOT NULL,
            node TEXT NOT NULL,
            options TEXT,
            asked TEXT,
            state INTEGER NOT NULL DEFAULT 0,
            error TEXT,
            PRIMARY KEY(account, service, node)) WITHOUT ROWID;

        -- What the server is to forget and has not confirmed; all of a service's when `node` is NULL.
        CREATE TABLE push_removal(
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            account INTEGER NOT NULL,
            service TEXT NOT NULL,
            node TEXT,
            asked TEXT);
        """

    struct Stored {
        var registration: PushRegistration
        var asked: ForeignText?
        var state: PushState
    }

    private static let columns = "service, node, options, asked, state, error"

    func all(in source: borrowing some Readable) throws(HandlerError) -> [Stored] {
        try source.all(
            "SELECT \(Self.columns) FROM push_registration WHERE account = ? ORDER BY service, node", account,
            read: Self.read
        ).compactMap(\.self)
    }

    func find(_ service: JID, _ node: ForeignText?, in source: borrowing some Readable) throws(HandlerError)
        -> Stored?
    {
        try source.first(
            """
            SELECT \(Self.columns) FROM push_registration WHERE account = ? AND service = ? AND node = ?
            """, account, service.description, node ?? "", read: Self.read) ?? nil
    }

    /// Keeps a registration that the server was asked for by that request.
    func set(_ registration: PushRegistration, asked: ForeignText, in step: borrowing Step)
        throws(HandlerError)
    {
        try step.write(
            """
            INSERT INTO push_registration(account, service, node, options, asked) VALUES (?, ?, ?, ?, ?)
            ON CONFLICT(account, service, node) DO UPDATE SET
                options = excluded.options, asked = excluded.asked, state = \(Answer.pending.sql),
                error = NULL
            """, account, registration.service.description, registration.node ?? "",
            registration.form?.serialized(), asked)
    }

    func setState(_ state: PushState, asked: ForeignText, in step: borrowing Step) throws(HandlerError) {
        let (answer, error): (Answer, StanzaError?) =
            switch state {
            case .pending: (.pending, nil)
            case .enabled: (.enabled, nil)
            // Who refuses with a book is remembered with its title.
            case .refused(let error) where error.element.serialized().utf8.count > ForeignBounds.words:
                (.refused, StanzaError(.undefinedCondition))
            case .refused(let error): (.refused, error)
            }
        try step.write(
            "UPDATE push_registration SET state = ?, error = ? WHERE account = ? AND asked = ?",
            answer.rawValue, error?.element.serialized(), account, asked)
    }

    /// A new session knows nothing yet.
    func forgetStates(in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE push_registration SET state = \(Answer.pending.sql), error = NULL WHERE account = ?",
            account)
    }

    /// - Parameter node: The node; nil for all of the service's.
    func remove(_ service: JID, node: ForeignText?, in step: borrowing Step) throws(HandlerError) {
        let rest = "account = ? AND service = ?"
        if let node {
            try step.write(
                "DELETE FROM push_registration WHERE \(rest) AND node = ?", account, service.description, node
            )
        } else {
            try step.write("DELETE FROM push_registration WHERE \(rest)", account, service.description)
        }
    }

    private static func read(_ row: borrowing Row) throws(HandlerError) -> Stored? {
        guard let service = try? JID(received: row.text(0)) else { return nil }
        let node = row.foreignText(1)
        let form = row.optionalText(2).flatMap { try? Element(parsing: $0) }.flatMap { DataForm($0) }
        let options = (form?.fields ?? []).filter { $0.name != "FORM_TYPE" }
        let error = row.optionalText(5).flatMap { try? Element(parsing: $0) }.flatMap { StanzaError($0) }
        let state: PushState =
            switch Answer(rawValue: row.integer(4)) {
            case .enabled: .enabled
            case .refused: .refused(error ?? StanzaError(.undefinedCondition))
            case .pending, nil: .pending
            }
        return Stored(
            registration: PushRegistration(
                service: service, node: node.isEmpty ? nil : node, options: options),
            asked: row.optionalForeignText(3), state: state)
    }

    // MARK: What the server is to forget

    struct Removal {
        var row: Int64
        var service: JID
        var node: ForeignText?
        var asked: ForeignText?
    }

    func addRemoval(_ service: JID, node: ForeignText?, asked: ForeignText, in step: borrowing Step)
        throws(HandlerError) -> Int64
    {
        try step.write(
            "INSERT INTO push_removal(account, service, node, asked) VALUES (?, ?, ?, ?)", account,
            service.description, node, asked)
        return try step.lastInsertedRow
    }

    func setAsked(_ id: ForeignText, removal row: Int64, in step: borrowing Step) throws(HandlerError) {
        try step.write("UPDATE push_removal SET asked = ? WHERE account = ? AND id = ?", id, account, row)
    }

    func endRemoval(_ row: Int64, in step: borrowing Step) throws(HandlerError) {
        try step.write("DELETE FROM push_removal WHERE account = ? AND id = ?", account, row)
    }

    func removals(in step: borrowing Step) throws(HandlerError) -> [Removal] {
        try step.all(
            "SELECT id, service, node, asked FROM push_removal WHERE account = ? ORDER BY id", account
        ) { row in
            (try? JID(received: row.text(1))).map {
                Removal(
                    row: row.integer(0), service: $0, node: row.optionalForeignText(2),
                    asked: row.optionalForeignText(3))
            }
        }.compactMap(\.self)
    }

    /// Returns whether a request still waits for its answer.
    func isWaiting(_ id: ForeignText?, in step: borrowing Step) throws(HandlerError) -> Bool {
        guard let id else { return false }
        return try step.exists("SELECT 1 FROM request WHERE account = ? AND stanza_id = ?", account, id)
    }
}
