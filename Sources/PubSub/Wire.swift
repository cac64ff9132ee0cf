/// The names of XEP-0060 that are no words of this module: names with other characters, options and forms. Namespaces are in
/// `Namespaces`.
///
/// Each is compared with the specification's own string by a test.
enum Wire {
    static let publishOptions = "publish-options"
    static let defaults = "default"
    static let subscriptionID = "subid"
    static let maxItems = "max_items"

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
