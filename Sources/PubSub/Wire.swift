/// The names that XEP-0060 gives to what this module writes and reads, in one table. Namespaces are in `Namespaces`.
///
/// Each is compared with the specification's own string by a test.
enum Wire {
    static let pubsub = "pubsub"
    static let items = "items"
    static let item = "item"
    static let publish = "publish"
    static let publishOptions = "publish-options"
    static let unsupported = "unsupported"

    static let node = "node"
    static let id = "id"
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

    /// The `FORM_TYPE` of publish options (section 7.1.5).
    static let publishOptionsForm = "http://jabber.org/protocol/pubsub#publish-options"
}
