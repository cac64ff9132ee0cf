package import XMPPCore

/// The stamp of a stanza that is sent again (XEP-0203).
package enum Delay {
    private static let marker = Array("<delay xmlns='\(Namespaces.delay)'".utf8)

    /// Adds `<delay/>` as the last child of a serialized stanza that has none of ours yet.
    ///
    /// The bytes are our own serializer's, so the stanza ends in its end tag or in `/>`.
    package static func stamped(_ xml: [UInt8], at time: Timestamp) -> [UInt8] {
        guard !contains(xml, marker) else { return xml }
        let delay = marker + Array(" stamp='\(time)'/>".utf8)
        if xml.suffix(2) == Array("/>".utf8)[...] {
            let name = xml.dropFirst().prefix { $0 != UInt8(ascii: " ") && $0 != UInt8(ascii: "/") }
            return Array(xml[..<(xml.count - 2)]) + Array(">".utf8) + delay + Array("</".utf8) + name
                + Array(">".utf8)
        }
        guard let end = xml.lastIndex(of: UInt8(ascii: "<")) else { return xml }
        return xml[..<end] + delay + xml[end...]
    }

    private static func contains(_ bytes: [UInt8], _ needle: [UInt8]) -> Bool {
        guard bytes.count >= needle.count else { return false }
        return (0...(bytes.count - needle.count)).contains { bytes[$0..<($0 + needle.count)] == needle[...] }
    }
}
