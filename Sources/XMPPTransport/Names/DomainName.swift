import XMPPCore

/// Domain names as DNS and certificates write them.
enum DomainName {
    /// The A-label form of a domain: every label with other than ASCII letters as `xn--` and Punycode (RFC
    /// 5891 section 4.4, RFC 3492). A trailing dot is dropped.
    ///
    /// The labels are taken to be in the form that a JID's domain has, lower case and NFC; nothing is mapped
    /// here.
    static func ascii(_ domain: String) -> String {
        let name = domain.hasSuffix(".") ? domain.dropLast() : domain[...]
        if name.utf8.allSatisfy({ $0 < 0x80 }) { return String(name) }
        return name.split(separator: ".", omittingEmptySubsequences: false)
            .map {
                $0.utf8.allSatisfy { $0 < 0x80 }
                    ? String($0) : Punycode.prefix + Punycode.encode($0.unicodeScalars)
            }
            .joined(separator: ".")
    }

    /// An IP address without the brackets that an IPv6 address has in a JID; anything else as it is.
    static func withoutBrackets(_ domain: String) -> String {
        domain.hasPrefix("[") && domain.hasSuffix("]") ? String(domain.dropFirst().dropLast()) : domain
    }
}
