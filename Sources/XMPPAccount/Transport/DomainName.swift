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
                    ? String($0) : "xn--" + punycode($0.unicodeScalars.map(\.value))
            }
            .joined(separator: ".")
    }

    /// An IP address without the brackets that an IPv6 address has in a JID; anything else as it is.
    static func withoutBrackets(_ domain: String) -> String {
        domain.hasPrefix("[") && domain.hasSuffix("]") ? String(domain.dropFirst().dropLast()) : domain
    }

    /// The encoding procedure of RFC 3492 section 6.3.
    private static func punycode(_ scalars: [UInt32]) -> String {
        var output = scalars.filter { $0 < 0x80 }.map { UInt8($0) }
        let basicCount = output.count
        var handled = basicCount
        if basicCount > 0 { output.append(UInt8(ascii: "-")) }
        var threshold: UInt32 = 0x80
        var bias = 72
        var delta = 0
        while handled < scalars.count, let next = scalars.filter({ $0 >= threshold }).min() {
            delta += Int(next - threshold) * (handled + 1)
            threshold = next
            for scalar in scalars {
                if scalar < threshold { delta += 1 }
                if scalar == threshold {
                    appendVariableLength(delta, bias: bias, to: &output)
                    bias = adapted(delta, points: handled + 1, isFirst: handled == basicCount)
                    delta = 0
                    handled += 1
                }
            }
            delta += 1
            threshold += 1
        }
        return String(decoding: output, as: UTF8.self)
    }

    private static func appendVariableLength(_ number: Int, bias: Int, to output: inout [UInt8]) {
        var rest = number
        for step in sequence(first: 36, next: { $0 + 36 }) {
            let limit = min(max(step - bias, 1), 26)
            if rest < limit { break }
            output.append(digit(limit + (rest - limit) % (36 - limit)))
            rest = (rest - limit) / (36 - limit)
        }
        output.append(digit(rest))
    }

    private static func digit(_ value: Int) -> UInt8 {
        value < 26 ? UInt8(ascii: "a") + UInt8(value) : UInt8(ascii: "0") + UInt8(value - 26)
    }

    private static func adapted(_ delta: Int, points: Int, isFirst: Bool) -> Int {
        var rest = isFirst ? delta / 700 : delta / 2
        rest += rest / points
        var bias = 0
        while rest > 35 * 26 / 2 {
            rest /= 35
            bias += 36
        }
        return bias + 36 * rest / (rest + 38)
    }
}
