/// When an account asks its server for the count of XEP-0198, and when it tells its own.
///
/// Of two triggers the one that comes first counts; 0 turns a trigger off. The rules apply to the stream that is open
/// from the moment they are changed, and times that run already are measured from where they began.
///
/// ```swift
/// account.acknowledgements.requestsAfterStanzas = 5
/// account.acknowledgements.requestsAfter = .seconds(2)
/// ```
public struct AcknowledgementPolicy: Hashable, Sendable {
    /// The server is asked after this many stanzas; 0 or more. Stanzas that are written together are asked about once.
    public var requestsAfterStanzas = 1
    /// The server is asked this long after the first stanza that it was not asked about; 0 turns it off.
    public var requestsAfter: Duration = .zero
    /// The server is told our count without having asked after this many handled stanzas; 0 or more.
    public var acknowledgesAfterStanzas = 0
    /// The server is told our count without having asked this long after the first handled stanza that it was not told
    /// of; 0 turns it off.
    public var acknowledgesAfter: Duration = .zero
    /// How long the answer to a question of the server's is held back, 0 or more. More questions
    /// meanwhile get the same answer. XEP-0198 section 4 recommends 0.
    public var responseDelay: Duration = .zero

    /// Makes a policy; by default the server is asked after each batch of stanzas and told when it asks.
    ///
    /// - Parameters:
    ///   - requestsAfterStanzas: The server is asked after this many stanzas; 0 turns it off.
    ///   - requestsAfter: The server is asked this long after the first stanza; 0 turns it off.
    ///   - acknowledgesAfterStanzas: The server is told after this many handled stanzas; 0 turns it off.
    ///   - acknowledgesAfter: The server is told this long after the first handled stanza; 0 turns
    ///     it off.
    ///   - responseDelay: How long the answer to the server's question is held back, 0 or more.
    public init(
        requestsAfterStanzas: Int = 1, requestsAfter: Duration = .zero, acknowledgesAfterStanzas: Int = 0,
        acknowledgesAfter: Duration = .zero, responseDelay: Duration = .zero
    ) {
        self.requestsAfterStanzas = requestsAfterStanzas
        self.requestsAfter = requestsAfter
        self.acknowledgesAfterStanzas = acknowledgesAfterStanzas
        self.acknowledgesAfter = acknowledgesAfter
        self.responseDelay = responseDelay
    }
}
