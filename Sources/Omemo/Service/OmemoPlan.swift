import Handlers
import XMPPAccount
import XMPPCore

/// Recipients of an encrypted message, and what is missing for that: a rule over what the store knows.
struct OmemoPlan {
    /// A device with which there is a session.
    var targets: [OmemoAddress] = []
    /// The lists and bundles to fetch before the message can be sent.
    var missing: [OmemoFetchTable.Subject] = []
    /// The devices that are left out, with the reasons.
    var failures: [OmemoSending.Device] = []

    /// A device of a user, as one version lists it.
    struct Candidate {
        let device: OmemoDeviceID
        let version: OmemoVersion
        /// The identity key and the trust in it, if there is a session.
        let session: (identity: IdentityKey, trust: OmemoTrust)?
    }

    /// The known state of a user.
    struct User {
        let jid: JID
        /// The lists that are known, and whether they hold still.
        let lists: [OmemoVersion: Bool]
        let candidates: [Candidate]
        let fetches: [OmemoFetchTable.Subject: OmemoFetchTable.State]
    }

    /// Adds a user.
    ///
    /// - Parameters:
    ///   - preference: The versions, the preferred one first. A device that speaks several gets one only.
    ///   - legacyCarries: Whether the legacy version can carry the content.
    ///   - session: The number of this session of the account.
    ///   - own: A device to leave out: the own one.
    mutating func add(
        _ user: User, preference: [OmemoVersion], legacyCarries: Bool, session: Int64, now: Timestamp,
        except own: OmemoDeviceID?
    ) {
        let before = missing.count
        for version in preference { checkList(of: user, version, session: session, now: now) }
        // Without the whole list a device could be taken for one that speaks the other version only.
        guard missing.count == before else { return }
        let devices = Set(user.candidates.map(\.device)).subtracting(own.map { [$0] } ?? []).sorted()
        if devices.isEmpty && own == nil { return recordNoDevices(of: user, preference) }
        for device in devices {
            let forms = preference.compactMap { version in
                user.candidates.first { $0.device == device && $0.version == version }
            }
            add(device, forms, of: user, legacyCarries: legacyCarries, now: now)
        }
    }

    private mutating func checkList(
        of user: User, _ version: OmemoVersion, session: Int64, now: Timestamp
    ) {
        let subject = OmemoFetchTable.Subject(jid: user.jid, version: version, device: nil)
        if user.lists[version] == true { return }
        // A list that could not be had a moment ago is not asked for again: an older one serves, or none.
        if let state = user.fetches[subject], !state.isRunning, state.failedSession == session,
            let failedAt = state.failedAt, failedAt > now - OmemoFetchTable.listPause
        {
            return
        }
        missing.append(subject)
    }

    private mutating func recordNoDevices(of user: User, _ preference: [OmemoVersion]) {
        let unknown = preference.lazy.compactMap { version -> ForeignText? in
            guard user.lists[version] == nil else { return nil }
            return user.fetches[.init(jid: user.jid, version: version, device: nil)]?.failure
        }.first
        let failure = unknown.map { OmemoSending.Failure.listUnknown($0) } ?? .noDevices
        failures.append(.init(jid: user.jid, device: nil, failure: failure))
    }

    private mutating func add(
        _ device: OmemoDeviceID, _ forms: [Candidate], of user: User, legacyCarries: Bool, now: Timestamp
    ) {
        func fail(_ failure: OmemoSending.Failure) {
            failures.append(.init(jid: user.jid, device: device, failure: failure))
        }
        let usable = forms.filter { $0.version != .legacy || legacyCarries }
        guard !usable.isEmpty else { return fail(.unsupportedContent) }
        // In the order of preference, whether there is a session or not: a client that speaks both versions looks at the
        // preferred one first, and the message may be in both.
        var reason: ForeignText = "none is published"
        for form in usable {
            if let session = form.session {
                switch session.trust {
                case .undecided: return fail(.undecided(session.identity))
                case .untrusted: return fail(.untrusted(session.identity))
                case .blind, .verified:
                    return targets.append(OmemoAddress(jid: user.jid, device: device, version: form.version))
                }
            }
            let subject = OmemoFetchTable.Subject(jid: user.jid, version: form.version, device: device)
            let state = user.fetches[subject]
            if let state, !state.isRunning, let failedAt = state.failedAt,
                failedAt > now - OmemoFetchTable.bundlePause
            {
                reason = state.failure ?? reason
                continue
            }
            return missing.append(subject)
        }
        fail(.noBundle(reason))
    }
}

extension OmemoService {
    /// Returns the known state of a user, with two queries, and a third one if anything may have to be fetched.
    ///
    /// - Parameter own: The own device, with which there is no session.
    func user(
        _ jid: JID, session: Int64, except own: OmemoDeviceID? = nil, in step: borrowing Step
    ) throws -> OmemoPlan.User {
        let rows = try step.all(
            "SELECT namespace, session, learned_at FROM omemo_device_list WHERE account = ? AND jid = ?",
            account.id, jid.description
        ) { (OmemoVersion(rawValue: $0.text(0)), $0.optionalInteger(1) == session, $0.timestamp(2)) }
        let candidates = try step.all(
            """
            SELECT d.device, d.namespace, s.identity, i.trust FROM omemo_device d
            LEFT JOIN omemo_session s ON s.account = d.account AND s.jid = d.jid AND s.device = d.device
                AND s.namespace = d.namespace AND s.is_old = 0
            LEFT JOIN omemo_identity i ON i.account = d.account AND i.jid = d.jid AND i.identity = s.identity
            WHERE d.account = ? AND d.jid = ? AND d.removed_at IS NULL
            """, account.id, jid.description, read: Self.candidate
        ).compactMap(\.self)
        let (age, isEmpty) = (OmemoListAge(account: account), candidates.isEmpty && own == nil)
        let lists = try rows.map { version, isOfSession, learnedAt in
            let holds = try isOfSession && age.holds(learnedAt: learnedAt, isEmpty: isEmpty, jid, in: step)
            return (version, holds)
        }
        let isComplete =
            Self.versions.allSatisfy { version in lists.contains { $0 == (version, true) } }
            && candidates.allSatisfy { $0.session != nil || $0.device == own }
        return OmemoPlan.User(
            jid: jid,
            lists: Dictionary(
                lists.compactMap { version, isFresh in version.map { ($0, isFresh) } },
                uniquingKeysWith: { $1 }),
            candidates: candidates, fetches: isComplete ? [:] : try fetches.states(of: jid, in: step))
    }

    private static func candidate(_ row: borrowing Row) throws(HandlerError) -> OmemoPlan.Candidate? {
        guard let device = OmemoDeviceID(rawValue: UInt32(clamping: row.integer(0))),
            let version = OmemoVersion(rawValue: row.text(1))
        else { return nil }
        let identity = row.isNull(2) ? nil : IdentityKey(bytes: row.blob(2))
        let trust = row.optionalInteger(3).flatMap(OmemoTrust.init(rawValue:)) ?? .undecided
        return OmemoPlan.Candidate(device: device, version: version, session: identity.map { ($0, trust) })
    }
}
