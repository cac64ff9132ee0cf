import Handlers
import XMPPCore

/// The requested device lists and bundles, and the failed ones.
struct OmemoFetchTable {
    let account: Int64

    /// The time after a failure until a bundle is requested again.
    static let bundlePause = Duration.seconds(3600)
    /// The same for a device list, and for one without devices.
    static let listPause = Duration.seconds(120)

    /// The subject of a fetch: a bundle, or a list if there is no device.
    struct Subject: Hashable, Codable {
        let jid: JID
        let version: OmemoVersion
        let device: OmemoDeviceID?

        fileprivate var number: Int64 { Int64(device?.rawValue ?? 0) }
    }

    struct State {
        let subject: Subject
        let isRunning: Bool
        let failedAt: Timestamp?
        let failedSession: Int64?
        let failure: ForeignText?
    }

    /// Everything about one user.
    func states(of jid: JID, in step: borrowing Step) throws(HandlerError) -> [Subject: State] {
        let rows = try step.all(
            """
            SELECT namespace, device, is_running, failed_at, failed_session, failure FROM omemo_fetch
            WHERE account = ? AND jid = ?
            """, account, jid.description
        ) { (row) throws(HandlerError) -> State? in
            guard let version = OmemoVersion(rawValue: row.text(0)) else { return nil }
            let device = OmemoDeviceID(rawValue: UInt32(clamping: row.integer(1)))
            return State(
                subject: Subject(jid: jid, version: version, device: device), isRunning: row.integer(2) != 0,
                failedAt: row.optionalTimestamp(3), failedSession: row.optionalInteger(4),
                failure: row.optionalForeignText(5))
        }
        return Dictionary(rows.compactMap { $0 }.map { ($0.subject, $0) }) { first, _ in first }
    }

    /// Notes that it is going to be asked for.
    ///
    /// - Returns: False when it was asked for already.
    func start(_ subject: Subject, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.execute(
            """
            INSERT INTO omemo_fetch(account, jid, namespace, device) VALUES (?, ?, ?, ?)
            ON CONFLICT(account, jid, namespace, device) DO UPDATE SET is_running = 1
            WHERE omemo_fetch.is_running = 0
            """, account, subject.jid.description, subject.version.namespace, subject.number) > 0
    }

    /// Records that no message waits for the subject any more.
    func stop(_ subject: Subject, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            """
            UPDATE omemo_fetch SET is_running = 0
            WHERE account = ? AND jid = ? AND namespace = ? AND device = ?
            """, account, subject.jid.description, subject.version.namespace, subject.number)
    }

    /// Notes that it came.
    func succeed(_ subject: Subject, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "DELETE FROM omemo_fetch WHERE account = ? AND jid = ? AND namespace = ? AND device = ?", account,
            subject.jid.description, subject.version.namespace, subject.number)
    }

    /// Notes that there was no answer.
    ///
    /// - Returns: How many times in a row that has happened.
    func miss(_ subject: Subject, in step: borrowing Step) throws(HandlerError) -> Int {
        try step.first(
            """
            UPDATE omemo_fetch SET is_running = 0, attempts = attempts + 1
            WHERE account = ? AND jid = ? AND namespace = ? AND device = ? RETURNING attempts
            """, account, subject.jid.description, subject.version.namespace, subject.number
        ) { Int($0.quantity(0)) } ?? 1
    }

    /// Notes that it cannot be had now, and why.
    func fail(
        _ subject: Subject, _ reason: String, session: Int64, in step: borrowing Step
    ) throws(HandlerError) {
        try step.write(
            """
            INSERT INTO omemo_fetch(
                account, jid, namespace, device, is_running, failed_at, failed_session, failure)
            VALUES (?1, ?2, ?3, ?4, 0, ?5, ?6, ?7)
            ON CONFLICT(account, jid, namespace, device) DO UPDATE SET is_running = 0, attempts = 0,
                failed_at = ?5, failed_session = ?6, failure = ?7
            """, account, subject.jid.description, subject.version.namespace, subject.number, step.now,
            session, ForeignText(reason).prefix(bytes: ForeignBounds.condition))
    }

    /// Lets a list that could not be had be asked for when it is needed next.
    func forgive(_ subject: Subject, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            """
            DELETE FROM omemo_fetch
            WHERE account = ? AND jid = ? AND namespace = ? AND device = ? AND is_running = 0 AND failed_at IS NOT NULL
                AND NOT EXISTS (SELECT 1 FROM omemo_device_list AS known WHERE known.account = omemo_fetch.account
                    AND known.jid = omemo_fetch.jid AND known.namespace = omemo_fetch.namespace)
            """, account, subject.jid.description, subject.version.namespace, subject.number)
    }

    /// Forgets failures that stop nothing any more: of bundles after their pause, of lists in another session.
    func forgetOld(session: Int64, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            """
            DELETE FROM omemo_fetch WHERE account = ? AND is_running = 0
                AND CASE device WHEN 0 THEN failed_session <> ? ELSE failed_at <= ? END
            """, account, session, step.now - Self.bundlePause)
    }
}
