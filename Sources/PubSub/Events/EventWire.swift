/// The names in what only events hold, beside those of ``Wire``. Each is compared with the specification's own string by a test.
enum EventWire {
    /// The header of a message that names a subscription (section 13.16, XEP-0131).
    static let subscriptionHeader = "SubID"
    /// The namespace of headers (XEP-0131).
    static let headers = "http://jabber.org/protocol/shim"
    /// The suffix of a node's name in the features of a client that wants its events (XEP-0163 section 4.2).
    static let notify = "+notify"
}
