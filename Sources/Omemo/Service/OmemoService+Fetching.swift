import Handlers
import Platform
import PubSub
import XMPPAccount
import XMPPCore

extension OmemoService {
    /// The maximum number of repetitions of a fetch without an answer.
    static let maximumAttempts = 3

    /// Asks for a list or a bundle, unless it was asked for already.
    func fetch(_ subject: OmemoFetchTable.Subject, in step: borrowing Step) throws {
        guard try fetches.start(subject, in: step) else { return }
        account.log(
            .verbose, .omemo,
            "asks for the \(subject.device.map { "bundle of device \($0)" } ?? "device list") of \(subject.jid)",
            after: step)
        let orElse = try FetchAbandoned(subject: subject).durable
        guard let device = subject.device else {
            try refresh(subject.jid, subject.version, orElse: orElse, in: step)
            return
        }
        let then = try BundleFetched(version: subject.version, device: device).durable
        let selection: PubSubSelection = subject.version == .legacy ? .newest(1) : .ids(["\(device)"])
        try account.send(
            .pubsub(.items(of: subject.version.bundleNode(device), selection), at: subject.jid),
            then: then, orElse: orElse, in: step)
    }

    // MARK: Lists

    /// Takes a list over, in the session in which it came.
    func learn(
        _ list: OmemoDeviceList, of jid: JID, in step: borrowing Step
    ) throws(HandlerError) -> OmemoDeviceListTable.Change {
        let change = try deviceLists.merge(list, of: jid, in: step)
        if !change.removed.isEmpty { try sessions.trim(jid.bare, in: step) }
        account.log(
            .info, .omemo,
            "the device list of \(jid.bare) has \(list.devices.count) devices, \(change.removed.count) fewer",
            after: step)
        try step.write(
            "UPDATE omemo_device_list SET session = ? WHERE account = ? AND jid = ? AND namespace = ?",
            account.sessionNumber(in: step), account.id, jid.bare.description, list.version.namespace)
        try fetches.succeed(.init(jid: jid.bare, version: list.version, device: nil), in: step)
        return change
    }

    /// Notes that a list did not come.
    func missList(
        of jid: JID, _ version: OmemoVersion, _ reason: OmemoRefresh.Outcome, in step: borrowing Step
    ) throws(HandlerError) {
        let subject = OmemoFetchTable.Subject(jid: jid.bare, version: version, device: nil)
        switch reason {
        case .merged: break
        case .timedOut: try miss(subject, in: step)
        case .unreadable: try fail(subject, "the node holds no list that can be read", in: step)
        case .error(let error): try fail(subject, error.stanzaError.condition.description, in: step)
        }
    }

    func miss(_ subject: OmemoFetchTable.Subject, in step: borrowing Step) throws(HandlerError) {
        if try fetches.miss(subject, in: step) >= Self.maximumAttempts {
            try fail(subject, "no answer came in time", in: step)
        }
    }

    func fail(
        _ subject: OmemoFetchTable.Subject, _ reason: String, in step: borrowing Step
    ) throws(HandlerError) {
        account.log(
            .warning, .omemo,
            "there is no \(subject.device.map { "bundle of device \($0)" } ?? "device list") of \(subject.jid): \(reason)",
            after: step)
        try fetches.fail(subject, reason, session: account.sessionNumber(in: step), in: step)
    }

    /// Asks for the list again when a device writes that is not on it (XEP-0384 section 6). What is sent next waits for that.
    func checkListed(_ peer: OmemoAddress, in step: borrowing Step) throws {
        let isListed = try step.exists(
            """
            SELECT 1 FROM omemo_device
            WHERE account = ? AND jid = ? AND namespace = ? AND device = ? AND removed_at IS NULL
            """, account.id, peer.jid.description, peer.version.namespace, peer.device.rawValue)
        if !isListed { try doubtList(of: peer.jid, peer.version, in: step) }
    }

    /// Asks for a list again that something contradicts. One that is not known is asked for when it is needed.
    func doubtList(of jid: JID, _ version: OmemoVersion, in step: borrowing Step) throws {
        let subject = OmemoFetchTable.Subject(jid: jid, version: version, device: nil)
        if try deviceLists.doubt(jid, version, in: step) {
            try fetch(subject, in: step)
        } else {
            try fetches.forgive(subject, in: step)
        }
    }

    /// Does what waited for a list.
    func goOn(with jid: JID, _ version: OmemoVersion, in step: borrowing Step) throws {
        if jid.bare == ownJID { try reconcile(in: step) }
        try advance(in: step)
    }

    // MARK: Bundles

    /// Begins a session from a bundle, if one is wanted.
    func learn(_ bundle: OmemoBundle, of peer: OmemoAddress, in step: borrowing Step) throws {
        guard let own = try ownDevice.own(in: step) else { return }
        let isRepair = try duties.isOpen(.repair, to: peer, in: step)
        var old = try sessions.session(with: peer, in: step)
        // The other side may have begun one meanwhile.
        if old.map(\.isOld) ?? true || isRepair {
            account.log(
                .info, .omemo,
                "\(isRepair ? "repairs the" : "begins a") session with \(peer.jid)/\(peer.device)",
                after: step)
            try start(bundle, old?.removeRecord(), isOld: old?.isOld ?? false, with: peer, own: own, in: step)
        }
        for kind in [OmemoDutyTable.Kind.repair, .answer] where try duties.isOpen(kind, to: peer, in: step) {
            try sendEmpty(to: peer, own: own, in: step)
            try duties.done(kind, to: peer, in: step)
        }
    }

    private func start(
        _ bundle: OmemoBundle, _ old: consuming [UInt8]?, isOld: Bool, with peer: OmemoAddress,
        own: OwnIdentity, in step: borrowing Step
    ) throws {
        var generator = Randomness()
        // Random, so that two who begin at the same time rarely take the same one (XEP-0384 section 5.4).
        guard let preKey = bundle.preKeys.randomElement(using: &generator),
            let identity = IdentityKey(wire: bundle.identityKey, bundle.version)
        else { throw OmemoError(.malformed, "the bundle holds no usable key") }
        let memory = SignalMemory(own: own, session: old)
        try SignalSession(peer.version, memory).start(with: bundle, preKey: preKey)
        if isOld { try memory.retire(.older) }
        try memory.trim()
        try identities.record(identity, of: peer.jid, device: peer.device, in: step)
        try sessions.store(
            memory.session ?? [], identity: identity, startedAt: step.now, isOld: false, with: peer, in: step)
        try sessions.trim(peer.jid, in: step)
        OmemoFailpoint.started.hit()
    }
}

// MARK: - Stored handlers. Their ids and arguments change only with an alias or a version.

/// Begins a session with a fetched bundle and sends what waited for it.
struct BundleFetched: Handler {
    static let id = "omemo.bundle-fetched"

    var version: OmemoVersion
    var device: OmemoDeviceID

    func run(_ call: borrowing Call<PubSubFetch>) throws {
        let omemo = call.account.omemo
        let subject = OmemoFetchTable.Subject(jid: call.service.bare, version: version, device: device)
        let peer = OmemoAddress(jid: call.service.bare, device: device, version: version)
        if case .timedOut = call.outcome {
            try omemo.miss(subject, in: call.step)
        } else if let reason = try handle(call.outcome, of: peer, omemo, in: call.step) {
            try omemo.fail(subject, reason, in: call.step)
            try omemo.duties.done(.repair, to: peer, in: call.step)
            // The device that has no bundle may be gone from the list.
            if case .notFound = call.outcome { try omemo.doubtList(of: peer.jid, version, in: call.step) }
        } else {
            try omemo.fetches.succeed(subject, in: call.step)
        }
        try omemo.advance(in: call.step)
    }

    /// - Returns: The reason why no session could be started; nil if there is one.
    private func handle(
        _ outcome: PubSubFetch.Outcome, of peer: OmemoAddress, _ omemo: OmemoService, in step: borrowing Step
    ) throws -> String? {
        let items: [PubSubItem]
        switch outcome {
        case .success(let found): items = found
        case .notFound: items = []
        case .error(let error): return error.stanzaError.condition.description
        case .timedOut: return "no answer came in time"
        }
        // The legacy version has a node for each device; its item is named in many ways.
        let item = version == .legacy ? items.last : items.first { $0.id == device.description }
        guard let payload = item?.payload else { return "the device has published no keys" }
        do {
            try omemo.learn(OmemoBundle(payload, version), of: peer, in: step)
            return nil
        } catch let error as OmemoError {
            return error.message
        } catch let failure as SignalFailure { return failure.error.message }
    }
}

/// Asks again when the session in which was asked is lost.
struct FetchAbandoned: Handler {
    static let id = "omemo.fetch-abandoned"

    var subject: OmemoFetchTable.Subject

    func run(_ call: borrowing Call<Invalidation>) throws {
        let omemo = try call.context.account.omemo
        try omemo.fetches.stop(subject, in: call.step)
        guard call.reason == .sessionLost || call.reason == .bound else { return }
        // Only what somebody still waits for is asked for again, by the one that waits.
        if subject.jid == omemo.ownJID && subject.device == nil { try omemo.fetch(subject, in: call.step) }
        try omemo.advance(in: call.step)
    }
}

extension OmemoVersion {
    /// The node that holds the bundle of a device.
    func bundleNode(_ device: OmemoDeviceID) -> String {
        self == .legacy ? "eu.siacs.conversations.axolotl.bundles:\(device)" : "urn:xmpp:omemo:2:bundles"
    }

    /// The id of the item that holds the bundle of a device.
    func bundleItem(_ device: OmemoDeviceID) -> String {
        self == .legacy ? Self.deviceListItem : device.description
    }
}
