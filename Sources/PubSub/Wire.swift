/// The names that XEP-0060 gives to what this module writes and reads, in one table. Namespaces are in `Namespaces`.
///
/// Each is compared with the specification's own string by a test.
enum Wire {
    static let pubsub = "pubsub"
    static let items = "items"
    static let item = "item"
    static let publish = "publish"
    static let publishOptions = "publish-options"
    static let retract = "retract"
    static let create = "create"
    static let configure = "configure"
    static let defaults = "default"
    static let delete = "delete"
    static let redirect = "redirect"
    static let purge = "purge"
    static let subscribe = "subscribe"
    static let unsubscribe = "unsubscribe"
    static let options = "options"
    static let subscriptions = "subscriptions"
    static let subscription = "subscription"
    static let affiliations = "affiliations"
    static let affiliation = "affiliation"
    static let unsupported = "unsupported"

    static let node = "node"
    static let id = "id"
    static let jid = "jid"
    static let subscriptionID = "subid"
    static let notify = "notify"
    static let uri = "uri"
    static let maxItems = "max_items"
    static let feature = "feature"

    /// Fields of a node's configuration (section 17.4.4).
    enum Option {
        static let accessModel = "pubsub#access_model"
        static let persistItems = "pubsub#persist_items"
        static let maxItems = "pubsub#max_items"
        /// The value of `pubsub#max_items` that means as many as the service allows.
        static let maximum = "max"
    }

    /// The `FORM_TYPE` of each form (section 17.4).
    enum Form {
        static let node = "http://jabber.org/protocol/pubsub#node_config"
        static let subscription = "http://jabber.org/protocol/pubsub#subscribe_options"
        static let publish = "http://jabber.org/protocol/pubsub#publish-options"
    }
}
