/// The names of XEP-0363 and XEP-0066 that are no words of this module, and namespaces.
///
/// Each is compared with the specification's own string by a test.
enum UploadWire {
    static let namespace = "urn:xmpp:http:upload:0"
    static let contentType = "content-type"
    /// The only headers of a slot that are sent (XEP-0363 section 4).
    static let headers = ["Authorization", "Cookie", "Expires"]
    static let maximumSize = "max-file-size"
    static let tooLarge = "file-too-large"

    /// A link as an attachment (XEP-0066 section 3).
    static let outOfBand = "jabber:x:oob"
}
