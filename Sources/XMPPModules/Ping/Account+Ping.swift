public import XMPPAccount
public import XMPPCore

extension Account {
    /// Pings an address (XEP-0199).
    ///
    /// - Parameters:
    ///   - jid: The address: a client's full address, a server or service; nil for the own server.
    ///   - timeout: Connected time to wait, 1 ms or more; nil for the account's setting.
    /// - Returns: How long it took from this call to the answer, waiting for a stream included.
    /// - Throws: `StanzaError` when the answer is an error: with `serviceUnavailable` or `featureNotImplemented` somebody
    ///   is there and does not know this question, or a server answers for a client that is gone; otherwise what
    ///   `Account.request` throws.
    ///
    /// Source: XEP-0199.
    public func ping(_ jid: JID?, timeout: Duration? = nil) async throws -> Duration {
        let clock = configuration.usedNetwork.clock
        let start = clock()
        let ping = Element("ping", namespace: Namespaces.ping)
        _ = try await request(.iq(IQ(type: .get, to: jid, payload: ping)), timeout: timeout)
        return .nanoseconds(clock() - start)
    }
}
