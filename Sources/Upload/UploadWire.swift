/// The names that XEP-0363 and XEP-0066 give to what this module writes and reads, in one table.
///
/// Each is compared with the specification's own string by a test.
enum UploadWire {
    static let namespace = "urn:xmpp:http:upload:0"
    static let request = "request"
    static let filename = "filename"
    static let size = "size"
    static let contentType = "content-type"
    static let slot = "slot"
    static let put = "put"
    static let get = "get"
    static let url = "url"
    static let header = "header"
    static let name = "name"
    /// The only headers of a slot that are sent (XEP-0363 section 4).
    static let headers = ["Authorization", "Cookie", "Expires"]
    static let maximumSize = "max-file-size"
    static let tooLarge = "file-too-large"
    static let retry = "retry"
    static let stamp = "stamp"

    /// A link as an attachment (XEP-0066 section 3).
    static let outOfBand = "jabber:x:oob"
}
