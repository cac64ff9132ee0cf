import Handlers
public import XMPPAccount
import XMPPModules

/// OMEMO as a module of an account: it asks servers to push device lists, and renews what it knows in each new session.
///
/// Everything else is reached through ``XMPPAccount/Account/omemo``. Messages in carbon copies and archives come to it through
/// their modules, which also check who wrapped them; a bot has neither.
///
/// ```swift
/// configuration.modules = .standard + [OmemoModule()]  // of a bot: .bot + [OmemoModule()]
/// let store = try HandlerStore(path: path, registry: .discovered(), schemas: Account.schemas + OmemoService.schemas)
/// ```
///
/// Source: XEP-0384 section 5.3.1, XEP-0163 section 4.
public struct OmemoModule: LibraryModule, AccountModule {
    package static let moduleName = "omemo"

    /// Makes the module, which has no options.
    public init() {}

    package func install(in hooks: inout ModuleHooks) {
        hooks.dependencies = [DiscoModule.self]
        hooks.schema = OmemoDeviceListTable.schema
        // Subscribe the account to the device lists of its contacts.
        hooks.features = Set(OmemoService.versions.map { $0.deviceListNode + "+notify" })
        hooks.start = start
    }

    func start(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws {
        let omemo = account.omemo
        guard scope == .session, let own = try omemo.ownDevice.own(in: step) else { return }
        try omemo.retireCopied(own, in: step)
        try omemo.renew(in: step)
        step.afterCommit { omemo.followUp() }
    }
}

extension AccountLog.Module {
    static let omemo = Self("omemo")
}
