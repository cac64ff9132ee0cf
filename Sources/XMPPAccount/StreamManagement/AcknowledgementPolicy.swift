/// Policy for the ack requests and acks of an account (XEP-0198).
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
    /// Time from the first unrequested stanza until an ack request. 0 turns it off.
    public var requestsAfter: Duration = .zero
    /// Number of stanzas after which an ack is sent without a request. 0 turns it off.
    public var acknowledgesAfterStanzas = 0
    /// Time after which an ack is sent without a request. 0 turns it off. It counts from the first stanza without an ack.
    public var acknowledgesAfter: Duration = .zero
    /// The delay of an ack that the server requests, 0 or more. Further ack requests
    /// meanwhile get the same ack. XEP-0198 section 4 recommends 0.
    public var responseDelay: Duration = .zero

    /// Makes a policy; by default an ack request follows each batch of stanzas, and an ack answers each ack request.
    ///
    /// - Parameters:
    ///   - requestsAfterStanzas: The server is asked after this many stanzas; 0 turns it off.
    ///   - requestsAfter: The server is asked this long after the first stanza; 0 turns it off.
    ///   - acknowledgesAfterStanzas: An ack is sent after this many handled stanzas; 0 turns it off.
    ///   - acknowledgesAfter: An ack is sent this long after the first handled stanza; 0 turns
    ///     it off.
    ///   - responseDelay: How long the answer to the server's question is held back, 0 or more.
    package init(
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
