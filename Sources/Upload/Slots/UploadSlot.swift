import XMPPCore

/// The addresses for upload and download of a file: rules without account, store or clock.
struct UploadSlot: Hashable, Sendable, Codable {
    /// A header that goes with the PUT.
    struct Header: Hashable, Sendable, Codable {
        /// One of ``UploadWire/headers``, or of this program.
        var name: String
        var value: ForeignText
    }

    /// The address for the upload. It is secret, as it may be all that is needed to upload.
    var put: ForeignText
    /// The headers of the upload, in the service's order.
    var headers: [Header]
    /// The address for downloads.
    var get: ForeignText

    /// The longest address in bytes.
    static let longestAddress = 8192
    /// The maximum number of headers of a slot, those with other names included.
    static let headerLimit = 16
    /// The longest name of a header in bytes, that of a header which is ignored included.
    static let longestHeaderName = 64
    /// The longest value of a header in bytes.
    static let longestHeader = 8192

    /// Reads the answer of a service.
    ///
    /// - Parameter payload: What the result carries.
    /// - Throws: ``UploadError`` `invalidSlot`.
    init(_ payload: Element?) throws(UploadError) {
        guard let payload, payload.has(name: "slot", namespace: UploadWire.namespace),
            let put = payload.child("put", UploadWire.namespace),
            let get = payload.child("get", UploadWire.namespace)
        else { throw Self.invalid("lacks an address") }
        self.put = try Self.address(put["url"])
        self.get = try Self.address(get["url"])
        let headers = put.children("header", UploadWire.namespace)
        guard headers.count <= Self.headerLimit else { throw Self.invalid("has too many headers") }
        self.headers = []
        for header in headers { if let header = try Self.header(header) { self.headers.append(header) } }
    }

    /// The host and port that take the file, for the log: the rest of the address is a secret.
    var host: String { Self.authority(put)?.string ?? "" }

    // MARK: Addresses

    /// An address as RFC 3986 writes it, of the only scheme that is allowed (XEP-0363 section 4).
    ///
    /// The host may be any: XEP-0363 names other hosts for both. What is refused is what would be read differently by
    /// different programs: user names, fragments, white space, characters outside of ASCII.
    static func address(_ text: ForeignText?) throws(UploadError) -> ForeignText {
        guard let text, text.utf8.count <= longestAddress else {
            throw invalid("has no address, or one of more than \(longestAddress) bytes")
        }
        guard let host = authority(text), !host.isEmpty, host.utf8.first != UInt8(ascii: ":"),
            !host.utf8.contains(UInt8(ascii: "@"))
        else { throw invalid("has an address that is not https") }
        let refused = Array("\"<>\\^`{|}#".utf8)
        guard text.utf8.allSatisfy({ (0x21...0x7E).contains($0) && !refused.contains($0) }) else {
            throw invalid("has an address with characters that no address has")
        }
        return text
    }

    /// Returns the host of an address, with its port if it has one; nil for another scheme than https.
    static func authority(_ text: ForeignText) -> ForeignText? {
        let scheme = "https://"
        guard text.utf8.count > scheme.utf8.count, scheme.isEqualIgnoringCase(text.utf8.prefix(8)) else {
            return nil
        }
        let ends = Array("/?".utf8)
        return ForeignText(decoding: text.utf8.dropFirst(8).prefix { !ends.contains($0) })
    }

    // MARK: Headers

    /// Nil for what must be ignored: other names, and a value of nothing.
    private static func header(_ element: Element) throws(UploadError) -> Header? {
        // Before anything else is done with it.
        guard element["name"]?.utf8.count ?? 0 <= longestHeaderName else {
            throw invalid("has a header whose name has more than \(longestHeaderName) bytes")
        }
        // XEP-0363 section 4: newline characters are stripped from name and value, then names are compared without case.
        let name = withoutNewlines(element["name"] ?? "")
        guard let known = UploadWire.headers.first(where: { $0.isEqualIgnoringCase(name.utf8) }) else {
            return nil
        }
        let value = withoutNewlines(element.text)
        if value.isEmpty { return nil }
        guard value.utf8.count <= longestHeader,
            value.utf8.allSatisfy({ (0x20...0x7E).contains($0) || $0 == 9 })
        else { throw invalid("has a header that cannot be sent") }
        return Header(name: known, value: value)
    }

    private static func withoutNewlines(_ text: ForeignText) -> ForeignText {
        let newlines: [Unicode.Scalar] = ["\n", "\r", "\u{85}", "\u{2028}", "\u{2029}"]
        var kept = String.UnicodeScalarView()
        kept.append(contentsOf: text.string.unicodeScalars.filter { !newlines.contains($0) })
        return ForeignText(String(kept))
    }

    private static func invalid(_ what: String) -> UploadError {
        UploadError(.invalidSlot, "the slot that the upload service gave \(what); report this to who runs it")
    }
}

extension String {
    /// Returns whether the bytes are those of this text of ASCII, but for upper and lower case.
    func isEqualIgnoringCase(_ bytes: some Collection<UInt8>) -> Bool {
        utf8.count == bytes.count
            && zip(utf8, bytes).allSatisfy { own, other in
                own == other || (own | 0x20 == other | 0x20 && (0x61...0x7A).contains(own | 0x20))
            }
    }
}
