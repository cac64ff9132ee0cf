import Handlers
import Platform
import PubSub
import XMPPAccount
import XMPPCore

extension OmemoService {
    /// Compares the own lists with the own device and publishes what is missing.
    func reconcile(in step: borrowing Step) throws {
        guard var own = try ownDevice.own(in: step) else { return }
        let session = try account.sessionNumber(in: step)
        let user = try user(ownJID, session: session, in: step)
        let asked = Self.versions.filter { version in
            user.lists[version] == nil
                && user.fetches[.init(jid: ownJID, version: version, device: nil)]?.failedSession != session
        }
        // A number that is free on one list may be taken on the other.
        guard asked.isEmpty else { return }
        let isOnAnyList = user.candidates.contains { $0.device == own.device }
        let wasPublished = try isNumberOurs(in: step)
        for version in Self.versions {
            guard let state = try publications.state(version, in: step) else { continue }
            let isOnList = user.lists[version].map { _ in
                user.candidates.contains { $0.device == own.device && $0.version == version }
            }
            let next = OmemoAnnouncement.next(
                state, isOnList: isOnList, isOnAnyList: isOnAnyList, wasEverPublished: wasPublished,
                now: step.now)
            switch next {
            case .none: break
            case .renumber:
                let taken = Set(user.candidates.map(\.device))
                account.log(
                    .warning, .omemo, "the number \(own.device) is another device's; takes another one",
                    after: step)
                try ownDevice.setDevice(Self.randomDevice(except: taken), in: step)
                return try reconcile(in: step)
            case .publishBundle:
                try publishBundle(&own, version, in: step)
                if !wasPublished { step.afterCommit { self.followUp() } }
            case .publishList: try publishList(own, version, in: step)
            case .giveUp:
                try publications.record(
                    "another client keeps removing this device from the device list", version, in: step)
            }
        }
    }

    /// Returns whether anything of this device was ever published. Until then its number may be another device's, and
    /// nothing must be said under it.
    func isNumberOurs(in step: borrowing Step) throws -> Bool {
        try Self.versions.contains { version in
            try publications.state(version, in: step).map { state in
                state.published > 0 || state.isListed || state.sending != nil
            } ?? false
        }
    }

    static func randomDevice(except taken: Set<OmemoDeviceID>) -> OmemoDeviceID {
        var generator = Randomness()
        while true {
            let number = UInt32.random(in: 1...UInt32(Int32.max), using: &generator)
            if let device = OmemoDeviceID(rawValue: number), !taken.contains(device) { return device }
        }
    }

    private func publishBundle(
        _ own: inout OwnIdentity, _ version: OmemoVersion, in step: borrowing Step
    ) throws {
        account.log(.info, .omemo, "publishes the bundle of device \(own.device)", after: step)
        let bundle = try ownDevice.bundle(own, version, in: step)
        var revision: Int64 = 0
        try publications.change(version, in: step) { state in
            state.sending = state.revision
            revision = state.revision
        }
        try account.send(
            .pubsub(
                .publish(
                    PubSubItem(id: version.bundleItem(own.device), payload: bundle.element),
                    on: version.bundleNode(own.device), requiring: version.bundleOptions, configuring: true)),
            then: BundlePublished(version: version, revision: revision).durable,
            orElse: PublicationAbandoned(version: version, isList: false).durable, in: step)
    }

    private func publishList(_ own: OwnIdentity, _ version: OmemoVersion, in step: borrowing Step) throws {
        let known = try deviceLists.devices(of: ownJID, version, in: step) ?? []
        let others = known.filter { $0.isListed && $0.device.id != own.device }.map(\.device)
        let list = OmemoDeviceList(version, devices: others + [.init(own.device)])
        account.log(
            .info, .omemo, "puts device \(own.device) on the own list, beside \(others.count) others",
            after: step)
        let now = step.now
        try publications.change(version, in: step) { state in
            if now - state.announcedAt > OmemoAnnouncement.window {
                (state.announcedAt, state.announcements) = (now, 0)
            }
            state.announcements += 1
            state.isListSending = true
        }
        try account.send(
            .pubsub(
                .publish(
                    PubSubItem(id: OmemoVersion.deviceListItem, payload: list.element),
                    on: version.deviceListNode, requiring: [.accessModel(.open)], configuring: true)),
            then: ListPublished(version: version, devices: list.devices.map(\.id)).durable,
            orElse: PublicationAbandoned(version: version, isList: true).durable, in: step)
    }

    /// Notes that publishing failed; it is tried again at the next start.
    func failPublication(_ reason: String, _ version: OmemoVersion, isList: Bool, in step: borrowing Step)
        throws
    {
        try publications.change(version, in: step) { state in
            if isList { state.isListSending = false } else { state.sending = nil }
        }
        account.log(
            .warning, .omemo, "the \(isList ? "device list" : "bundle") was not published: \(reason)",
            after: step)
        try publications.record(reason, version, in: step)
    }
}

extension OmemoVersion {
    /// The configuration of the node of bundles (XEP-0384 section 5.3.2).
    var bundleOptions: [PubSubOption] {
        self == .legacy ? [.accessModel(.open)] : [.accessModel(.open), .maximumItems(nil)]
    }
}

extension PubSubAnswer.Outcome {
    /// The reason why nothing was published; nil for a success.
    fileprivate var failure: String? {
        switch self {
        case .success: nil
        case .error(let error): error.description
        case .notFound: "the server has no such node"
        case .timedOut: "no answer came in time"
        }
    }
}

// MARK: - Stored handlers. Their ids and arguments change only with an alias or a version.

/// The bundle is on the server, or not.
struct BundlePublished: Handler {
    static let id = "omemo.bundle-published"

    var version: OmemoVersion
    var revision: Int64

    func run(_ call: borrowing Call<PubSubPublication>) throws {
        let omemo = call.account.omemo
        if let failure = call.outcome.failure {
            return try omemo.failPublication(failure, version, isList: false, in: call.step)
        }
        try omemo.publications.change(version, in: call.step) { state in
            state.published = max(state.published, revision)
            state.sending = nil
        }
        try omemo.reconcile(in: call.step)
    }
}

/// The own list is on the server, or not.
struct ListPublished: Handler {
    static let id = "omemo.list-published"

    var version: OmemoVersion
    /// The published devices.
    var devices: [OmemoDeviceID]

    func run(_ call: borrowing Call<PubSubPublication>) throws {
        let omemo = call.account.omemo
        if let failure = call.outcome.failure {
            return try omemo.failPublication(failure, version, isList: true, in: call.step)
        }
        try omemo.publications.change(version, in: call.step) { state in
            (state.isListed, state.isListSending) = (true, false)
        }
        let list = OmemoDeviceList(version, devices: devices.map { .init($0) })
        _ = try omemo.learn(list, of: omemo.ownJID, in: call.step)
        try omemo.reconcile(in: call.step)
    }
}

/// Publishes again in the next session.
struct PublicationAbandoned: Handler {
    static let id = "omemo.publication-abandoned"

    var version: OmemoVersion
    var isList: Bool

    func run(_ call: borrowing Call<Invalidation>) throws {
        let omemo = try call.context.account.omemo
        guard call.reason == .sessionLost || call.reason == .bound else {
            return try omemo.failPublication(call.reason.rawValue, version, isList: isList, in: call.step)
        }
        try omemo.publications.change(version, in: call.step) { state in
            if isList { state.isListSending = false } else { state.sending = nil }
        }
        try omemo.reconcile(in: call.step)
    }
}
