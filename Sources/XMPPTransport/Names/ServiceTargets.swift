import Platform

/// A place to connect to.
package struct ServiceTarget: Hashable, Sendable {
    package var host: String
    package var port: UInt16
    /// Whether TLS starts with the first byte (XEP-0368).
    package var isDirectTLS: Bool

    package init(host: String, port: UInt16, isDirectTLS: Bool) {
        self.host = host
        self.port = port
        self.isDirectTLS = isDirectTLS
    }

    /// Reads `host`, `host:port`, `v4:port` or `[v6]:port` as `<see-other-host/>` and XEP-0198's `location` write it;
    /// nil when it is none of these.
    ///
    /// - Parameter defaultPort: The port where none is written.
    package init?(_ text: String, defaultPort: UInt16, isDirectTLS: Bool) {
        guard text.utf8.count <= 300 else { return nil }
        var host = text[...]
        var port: UInt16? = defaultPort
        let isBareIPv6 = !text.hasPrefix("[") && text.count { $0 == ":" } > 1
        if !isBareIPv6, let colon = text.lastIndex(of: ":"), !text[colon...].contains("]") {
            host = text[..<colon]
            let digits = text[text.index(after: colon)...]
            port = digits.allSatisfy { $0.isASCII && $0.isNumber } ? UInt16(digits) : nil
        }
        let name = DomainName.withoutBrackets(String(host))
        guard let port, port > 0, !name.isEmpty, name.utf8.count <= 255,
            !name.unicodeScalars.contains(where: { $0.value <= 0x20 || $0 == "/" || $0 == "@" })
        else { return nil }
        self.init(host: name, port: port, isDirectTLS: isDirectTLS)
    }
}

/// The lookup of a domain's servers (RFC 6120 section 3.2, XEP-0368).
package enum ServiceTargets {
    /// The order in which records are tried (RFC 2782): the lowest priority first, and within one at random, more often
    /// a heavy one than a light one. Records of both kinds are one set (XEP-0368 section 5).
    ///
    /// - Parameter secure: The records for direct TLS.
    static func ordered(
        secure: [ServiceRecord], plain: [ServiceRecord], using generator: inout some RandomNumberGenerator
    ) -> [ServiceTarget] {
        // XEP-0368 section 5 leaves the order of equals to the client: TLS from the first byte saves a round trip.
        let records = secure.map { ($0, true) } + plain.map { ($0, false) }
        let offered = records.filter { !$0.0.host.isEmpty && $0.0.host != "." && $0.0.port > 0 }
        let priorities = Set(offered.map(\.0.priority)).sorted()
        return priorities.flatMap { priority in
            shuffled(offered.filter { $0.0.priority == priority }, using: &generator).map {
                ServiceTarget(host: $0.0.host, port: $0.0.port, isDirectTLS: $0.1)
            }
        }
    }

    /// RFC 2782, "Weight": a running sum, and a random number that lies under it. Those without weight come first in
    /// the sum, so that they have a small chance.
    private static func shuffled(
        _ records: [(ServiceRecord, Bool)], using generator: inout some RandomNumberGenerator
    ) -> [(ServiceRecord, Bool)] {
        var left = records.filter { $0.0.weight == 0 } + records.filter { $0.0.weight > 0 }
        var order: [(ServiceRecord, Bool)] = []
        while !left.isEmpty {
            let total = left.reduce(0) { $0 + Int($1.0.weight) }
            let mark = Int.random(in: 0...total, using: &generator)
            var sum = 0
            let index = left.firstIndex { record in
                sum += Int(record.0.weight)
                return sum >= mark
            }
            order.append(left.remove(at: index ?? 0))
        }
        return order
    }
}
