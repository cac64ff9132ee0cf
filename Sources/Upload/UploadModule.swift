// Upload: files on the way to a web server, and from there to others by a link (XEP-0363).
//
//     upload ──▶ row "upload" ──▶ <request/> ──▶ UploadSlotAnswered ──▶ slot ──▶ UploadPut, an async handler: PUT
//     (file, then:)    ▲                                                                 │
//                      └────────── another slot, after a while ◀── it failed ────────────┤
//                                                                                        ▼ one step
//                                       message with the link ─▶ outbox, Durable<UploadEnded> ends, row is deleted

public import Handlers
public import XMPPAccount
public import XMPPCore

/// Uploads files to the account's server, and sends links to them.
///
/// Every step is committed before the next one starts, so a process that dies loses nothing: the next one goes on, with
/// another slot where the first one is too old or used up. ``XMPPAccount/Account/uploads`` uploads; ``UploadEvent`` reports
/// progress.
///
/// ```swift
/// configuration.modules = .standard + [UploadModule()]
/// let store = try HandlerStore(path: path, registry: .discovered(), schemas: Account.schemas + UploadModule.schemas)
/// ```
///
/// Source: XEP-0363, XEP-0454, XEP-0066.
public struct UploadModule: LibraryModule, AccountModule {
    package static let moduleName = "upload"
    /// The tables of this module, for the store beside `Account.schemas`.
    public static let schemas: [Schema] = [UploadTable.schema]

    /// The upload service; nil for the one that the server names.
    package let service: JID?
    /// The trusted certificate authorities of web servers; nil for those of the account's configuration.
    package let trust: AccountConfiguration.Trust?
    /// The number of attempts of an upload, each with a new slot, and the waits between them. `deaths` and `finally` mean
    /// nothing here.
    package let retry: RetryPolicy
    let limits: HTTPRequest.Limits
    let reach: HTTPReach

    /// Makes the module.
    ///
    /// - Parameters:
    ///   - service: The upload service; nil for the one that the server names.
    ///   - trust: Which certificate authorities a web server is believed by; nil for those of the account's configuration.
    ///   - privateHosts: Hosts of web servers that may be on this machine or in a private network, such as that of the account's own
    ///     server: names, each with the names below it, or IP addresses. Another host that resolves to loopback, private, carrier,
    ///     link-local, unique-local or reserved addresses is not connected to.
    ///   - proxy: The address of the proxy through which all web servers are reached, such as `http://proxy.example:3128`; nil for
    ///     none. The environment's is not used. The proxy decides where it connects, so `privateHosts` means nothing then.
    ///   - retry: How often a file is tried, each time with a new slot, and how long it waits in between.
    ///   - connecting: How long connecting to a web server may take, a millisecond or more.
    ///   - stalled: How long a transfer may make no progress, a second or more; a part of a second is dropped.
    ///   - longest: How long one transfer may take, a millisecond or more, at most a week.
    public init(
        service: JID? = nil, trust: AccountConfiguration.Trust? = nil, privateHosts: [String] = [],
        proxy: String? = nil,
        retry: RetryPolicy = RetryPolicy(attempts: 10, firstDelay: .seconds(2), longestDelay: .seconds(900)),
        connecting: Duration = .seconds(30), stalled: Duration = .seconds(60),
        longest: Duration = .seconds(6 * 3600)
    ) {
        self.service = service
        self.trust = trust
        self.retry = retry
        limits = HTTPRequest.Limits(connecting: connecting, stalled: stalled, total: longest)
        reach = HTTPReach(privateHosts: privateHosts, proxy: proxy)
    }

    package func install(in hooks: inout ModuleHooks) {
        hooks.schema = UploadTable.schema
        hooks.reset = reset
        hooks.start = start
        hooks.end = end
    }

    func reset(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws {
        guard scope == .session else { return }
        // Another session may be on a server that was changed.
        try UploadServiceTable(account: account.id).start(open: 0, in: step)
    }

    func start(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws {
        guard scope == .session else { return }
        try account.uploads.advance(in: step)
    }

    /// Ends the waiting uploads, as nothing would continue them.
    func end(of account: Account, in step: borrowing Step) throws { try account.uploads.endAll(in: step) }
}

extension Account {
    /// Uploads in the name of this account; see ``UploadModule``.
    public var uploads: Uploads { Uploads(account: self) }
}

extension AccountLog.Module {
    static let upload = Self("upload")
}
