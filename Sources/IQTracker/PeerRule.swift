// IQTracker: pending IQ requests of both directions.
//
//     IQ (result, error) ──PeerRule──▶ row "request" (account, id, peer) ──▶ handler, ended in the same step
//                                        ├─ deadline in connected time ──▶ expire
//                                        ├─ session lost, log-out      ──▶ abandon, abandonAll
//                                        └─ program                    ──▶ cancel
//     IQ (get, set) ──▶ row "inbound_request" (account, peer, id) ──▶ one answer, or an error after the deadline

package import XMPPCore

/// Whether an answer may come from the address it carries.
///
/// An id alone proves nothing: anyone who guesses it could answer. The server vouches for `from`, so an answer is
/// taken only from the address that was asked (RFC 6120 section 8.1.2.1 says what an absent address means).
///
/// ```swift
/// guard PeerRule.accepts(from: answer.from, asked: peer, account: own, isError: false) else { return }
/// ```
package enum PeerRule {
    /// Decides about one answer.
    ///
    /// | asked | taken from |
    /// |---|---|
    /// | no address | absent, own bare, own domain, own full address |
    /// | own bare address | absent, own bare address |
    /// | own domain | own domain, absent |
    /// | any other | exactly that address; an error also without address, which only the own server can omit |
    ///
    /// - Parameters:
    ///   - from: The answer's `from`; nil when absent.
    ///   - peer: The request's `to`; nil when absent.
    ///   - account: The account's own address; full once a resource is bound.
    ///   - isError: Whether the answer is of type `error`.
    /// - Returns: True when the answer may be taken.
    package static func accepts(from: JID?, asked peer: JID?, account: JID, isError: Bool) -> Bool {
        guard let peer else {
            return from == nil || from == account.bare || from == account.domainJID || from == account
        }
        if peer == account.bare { return from == nil || from == account.bare }
        if peer == account.domainJID { return from == nil || from == account.domainJID }
        return from == peer || (from == nil && isError)
    }
}
