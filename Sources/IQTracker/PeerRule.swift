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
    /// A server that prepares addresses by stringprep answers for `groß@…` as `gross@…`. That is another person where it does not, who
    /// has not seen the request: so another form of the address is taken only under an id that nobody could guess.
    ///
    /// - Parameters:
    ///   - from: The answer's `from`; nil when absent.
    ///   - peer: The request's `to`; nil when absent.
    ///   - account: The account's own address; full once a resource is bound.
    ///   - isError: Whether the answer is of type `error`.
    ///   - isSecret: Whether only who received the request can know its id.
    /// - Returns: True when the answer may be taken.
    package static func accepts(
        from: JID?, asked peer: JID?, account: JID, isError: Bool, isSecret: Bool = false
    ) -> Bool {
        guard let from else {
            // Only the own server can leave the address out. A program may write the own address as it was configured.
            return isError || peer.map { $0 == account.domainJID || $0.isForm(of: account.bare) } ?? true
        }
        let expected: [JID] =
            switch peer {
            case nil: [account.bare, account.domainJID, account]
            case let peer?: [peer]
            }
        return expected.contains(from) || isSecret && expected.contains { $0.isForm(of: from) }
    }
}
