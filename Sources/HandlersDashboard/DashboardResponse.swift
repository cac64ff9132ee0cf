import Handlers

/// The response to a ``DashboardRequest``.
public struct DashboardResponse: Sendable {
    /// The status of HTTP, such as 200.
    public let status: Int
    /// The headers. The server adds `Content-Length` and `Date`.
    public let headers: [(name: String, value: String)]
    /// The body; empty for none.
    public let body: [UInt8]

    /// Returns the value of a header.
    ///
    /// - Parameter name: Its name, in any case.
    /// - Returns: The value; nil without one.
    public func header(_ name: String) -> String? {
        headers.first { $0.name.lowercased() == name.lowercased() }?.value
    }

    /// What each response has. The policy lets the page load its own files and nothing else, and makes text the only way into it.
    private static let guards: [(name: String, value: String)] = [
        (
            "Content-Security-Policy",
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
        ), ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Opener-Policy", "same-origin"), ("Cross-Origin-Resource-Policy", "same-origin"),
        ("X-Frame-Options", "DENY"), ("Cache-Control", "no-store"),
    ]

    init(_ status: Int, _ type: String, _ body: [UInt8], _ more: [(name: String, value: String)] = []) {
        self.status = status
        headers = [("Content-Type", type)] + Self.guards + more
        self.body = body
    }

    /// Makes an answer in JSON. An answer that the page has already is not sent again.
    static func answer(_ members: [String: JSONValue], at now: Timestamp, known: String?) -> DashboardResponse
    {
        let tag = "\"\(Self.fingerprint(AnswerJSON.bytes(.object(members))))\""
        let more: [(name: String, value: String)] = [("ETag", tag), ("X-Store-Time", "\(now)")]
        if known == tag { return DashboardResponse(304, AnswerJSON.type, [], more) }
        let whole = members.merging(["format": 1, "at": .string("\(now)")]) { _, new in new }
        return DashboardResponse(200, AnswerJSON.type, AnswerJSON.bytes(.object(whole)), more)
    }

    static func failure(_ failure: DashboardFailure) -> DashboardResponse {
        let error: [String: JSONValue] = [
            "code": .string(failure.code), "message": .string(failure.message),
            "hint": failure.hint.map { .string($0) } ?? .null,
        ]
        let more: [(name: String, value: String)] =
            switch failure.status {
            case 401: [("WWW-Authenticate", "Bearer")]
            case 405: [("Allow", "GET, HEAD, POST")]
            case 429: [("Retry-After", "60")]
            default: []
            }
        return DashboardResponse(
            failure.status, AnswerJSON.type, AnswerJSON.bytes(["error": .object(error)]), more)
    }

    /// Two sums of FNV-1a, which tell whether an answer has changed. Nobody gains anything from a collision in answers of his own.
    private static func fingerprint(_ bytes: [UInt8]) -> String {
        var (first, second): (UInt64, UInt64) = (0xcbf2_9ce4_8422_2325, 0x9e37_79b9_7f4a_7c15)
        for byte in bytes {
            first = (first ^ UInt64(byte)) &* 0x100_0000_01b3
            second = (second ^ UInt64(byte)) &* 0x100_0000_01b3
        }
        return String(first, radix: 16) + String(second, radix: 16)
    }
}

/// A reason why a request gets no answer.
struct DashboardFailure: Error {
    let status: Int
    /// What a program compares.
    let code: String
    /// A sentence for people.
    let message: String
    /// What to do, as a sentence; nil where the message says it.
    var hint: String?

    init(_ status: Int, _ code: String, _ message: String, hint: String? = nil) {
        (self.status, self.code, self.message, self.hint) = (status, code, message, hint)
    }

    static let notFound = DashboardFailure(404, "not-found", "There is nothing at this address.")
}
