import Handlers
import XMPPAccount
import XMPPCore
import XMPPModules

/// How long a device list of a session holds.
struct OmemoListAge {
    let account: Account

    /// Returns whether a list that was learned in this session holds still: one that its owner's server pushes does, another one for some
    /// minutes. Who has no devices, and is written to, may have got one, and a push may not have come.
    func holds(
        learnedAt: Timestamp, isEmpty: Bool, _ jid: JID, in step: borrowing Step
    ) throws -> Bool {
        let age = step.now - learnedAt
        if isEmpty { return age < OmemoFetchTable.listPause }
        return try age < OmemoDeviceListTable.age || isPushed(jid, in: step)
    }

    /// Returns whether the server of a user sends new lists by itself: to those who see the user's presence (XEP-0163 section 4).
    private func isPushed(_ jid: JID, in step: borrowing Step) throws -> Bool {
        if jid == account.address { return true }
        guard account.moduleIfPresent(RosterModule.self) != nil else { return false }
        let subscription = try account.roster.item(for: jid, in: step)?.subscription
        return subscription == .to || subscription == .both
    }
}
