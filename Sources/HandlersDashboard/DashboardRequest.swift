/// A request of HTTP, as a server has read it.
///
/// ```swift
/// let request = DashboardRequest("GET", "/handlers?state=quarantined", headers: ["Host": "127.0.0.1:8377"])
/// ```
public struct DashboardRequest: Sendable {
    /// The method, such as `GET`.
    public let method: String
    /// The path without the query and without the prefix of the page, percent-decoded only in its parts.
    public let path: String
    /// The query without its `?`, as it was sent.
    public let query: String
    /// The body; empty for none.
    public let body: [UInt8]
    private let headers: [String: String]

    /// Makes a request.
    ///
    /// - Parameters:
    ///   - method: The method, such as `GET`.
    ///   - target: The path below the prefix of the page, with the query: `/handlers?state=quarantined`.
    ///   - headers: The headers; of two with one name the last counts.
    ///   - body: The body. A server refuses one above ``Dashboard/longestBody`` before it reads it whole.
    public init(_ method: String, _ target: String, headers: [String: String] = [:], body: [UInt8] = []) {
        self.method = method
        let parts = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        path = parts.first.map(String.init) ?? "/"
        query = parts.count > 1 ? String(parts[1]) : ""
        self.headers = Dictionary(headers.map { ($0.key.lowercased(), $0.value) }) { _, last in last }
        self.body = body
    }

    /// Returns the value of a header.
    ///
    /// - Parameter name: Its name, in any case.
    /// - Returns: The value; nil without one.
    public func header(_ name: String) -> String? { headers[name.lowercased()] }

    /// The parts of the path, decoded; nil where one is no UTF-8.
    var parts: [String]? {
        var parts: [String] = []
        for part in path.split(separator: "/") {
            guard let text = Self.decoded(part, plusIsSpace: false) else { return nil }
            parts.append(text)
        }
        return parts
    }

    /// The values of the query by their names; of two with one name the last counts. What is no UTF-8 is left out.
    var values: [String: String] {
        var values: [String: String] = [:]
        for part in query.split(separator: "&").prefix(Self.mostValues) {
            let pair = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = Self.decoded(pair[0], plusIsSpace: true),
                let value = Self.decoded(pair.count > 1 ? pair[1] : "", plusIsSpace: true)
            else { continue }
            values[name] = value
        }
        return values
    }

    /// The maximum number of values of a query that are read.
    private static let mostValues = 64

    private static func decoded(_ text: Substring, plusIsSpace: Bool) -> String? {
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "+") where plusIsSpace: bytes.append(UInt8(ascii: " "))
            case UInt8(ascii: "%"):
                guard rest.count >= 2,
                    let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16)
                else { return nil }
                bytes.append(value)
                rest.removeFirst(2)
            default: bytes.append(byte)
            }
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
