import Handlers
public import PubSub
public import XMPPAccount
public import XMPPCore

/// The context of a handler that waits for a device list to be refreshed.
///
/// ```swift
/// @Handler("devices.refreshed")
/// static func refreshed(_ call: borrowing Call<OmemoRefresh>) throws {
///     guard case .merged(let change) = call.outcome, !change.added.isEmpty else { return }
///     try call.step.execute("INSERT INTO notice(jid, devices) VALUES (?, ?)", call.jid.description, change.added.count)
/// }
/// ```
public struct OmemoRefresh: Sendable {
    /// The outcome of a refresh.
    public enum Outcome: Hashable, Sendable {
        /// The list is known; this is what changed.
        case merged(Change)
        /// The node exists but holds no list that can be understood. What was stored stays.
        case unreadable
        /// The service refused; what was stored stays.
        case error(PubSubError)
        /// No answer came in time; what was stored stays.
        case timedOut
    }

    /// Changes of a list, each in the order of the numbers.
    public struct Change: Hashable, Sendable {
        /// Devices that no list had named before.
        public internal(set) var added: [OmemoDeviceID] = []
        /// Devices that are listed again.
        public internal(set) var returned: [OmemoDeviceID] = []
        /// Devices that are no longer listed.
        public internal(set) var removed: [OmemoDeviceID] = []
    }

    /// The account that asked.
    public let account: Account
    /// The owner of the list.
    public let jid: JID
    /// The version of the list.
    public let version: OmemoVersion
    /// The outcome.
    public let outcome: Outcome
}

/// Merges a fetched device list and runs the program's handler, in the same step. Its id and arguments are stored.
struct DeviceListFetched: Handler {
    static let id = "omemo.device-list-fetched"

    /// The version of the requested list.
    var version: OmemoVersion
    /// The program's handler.
    var then: Durable<OmemoRefresh>?

    func run(_ call: borrowing Call<PubSubFetch>) throws {
        let omemo = call.account.omemo
        let outcome: OmemoRefresh.Outcome
        switch Self.reading(call.outcome, version: version) {
        case .list(let list):
            outcome = .merged(try omemo.learn(list, of: call.service, in: call.step))
        case .nothingKnown(let reason):
            outcome = reason
            try omemo.missList(of: call.service, version, reason, in: call.step)
        }
        if let then {
            let refresh = OmemoRefresh(
                account: call.account, jid: call.service, version: version, outcome: outcome)
            try call.step.run(then, with: refresh)
        }
        try omemo.goOn(with: call.service, version, in: call.step)
    }

    /// The result of fetching a list.
    enum Reading: Hashable {
        case list(OmemoDeviceList)
        /// Nothing, so that the stored list must stay as it is.
        case nothingKnown(OmemoRefresh.Outcome)
    }

    /// Only "not found" and a node without items mean that there are no devices. Everything else that brings no list leaves it
    /// open: taking a lost packet for an empty list would end encryption with all of them, and for the own list evict them.
    static func reading(_ fetch: PubSubFetch.Outcome, version: OmemoVersion) -> Reading {
        switch fetch {
        case .notFound: .list(OmemoDeviceList(version, devices: []))
        case .success(let items) where items.isEmpty: .list(OmemoDeviceList(version, devices: []))
        case .success(let items):
            OmemoDeviceList(newestOf: items, version).map(Reading.list) ?? .nothingKnown(.unreadable)
        case .error(let error): .nothingKnown(.error(error))
        case .timedOut: .nothingKnown(.timedOut)
        }
    }
}

extension OmemoDeviceList {
    /// Reads the newest of a node's items, which is the last one (XEP-0060 section 12.18). Its id does not matter: version 0.3 only
    /// recommends "current", and one of that name may be left from another client.
    init?(newestOf items: [PubSubItem], _ version: OmemoVersion) {
        guard let payload = items.last?.payload, let list = OmemoDeviceList(payload), list.version == version
        else { return nil }
        self = list
    }
}
