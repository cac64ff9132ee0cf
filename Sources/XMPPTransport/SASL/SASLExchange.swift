/// The client's side of one login, whatever the mechanism.
///
/// ```text
/// initialResponse ─▶
///                 ◀─ challenge    received(_:) ─▶ response
///                 ◀─ success      finish(_:)
/// ```
package protocol SASLExchange: Sendable {
    /// The mechanism's registered name.
    var mechanismName: String { get }
    /// The first message, for `<auth/>` or `<authenticate/>`.
    var initialResponse: [UInt8] { get }
    /// Takes a challenge and gives the response.
    mutating func received(challenge: [UInt8]) throws(SASLError) -> [UInt8]
    /// Takes the data of `<success/>`, empty when it has none.
    ///
    /// - Throws: `serverNotAuthenticated` when the server should have proved that it knows the secret and has not.
    mutating func finish(success: [UInt8]) throws(SASLError)
}

extension SASLExchange {
    package mutating func received(challenge: [UInt8]) throws(SASLError) -> [UInt8] {
        throw SASLError(
            .malformedMessage,
            "The server sent a further challenge in \(mechanismName), which has none; report this to its operator."
        )
    }

    package mutating func finish(success: [UInt8]) throws(SASLError) {}
}

extension SCRAMClient: SASLExchange {
    package var mechanismName: String { mechanism.name }
    package mutating func received(challenge: [UInt8]) throws(SASLError) -> [UInt8] {
        try received(challenge)
    }
    package mutating func finish(success: [UInt8]) throws(SASLError) { try finish(success) }
}

/// PLAIN (RFC 4616): the password as it is. Nothing proves that the server knows it.
package struct PlainClient: SASLExchange {
    package let mechanismName = "PLAIN"
    private let message: SecretBytes

    /// - Throws: `forbiddenCredentials` when user name or password cannot be written so.
    package init(user: String, password: String) throws(SASLError) {
        let user = try SASLprep.prepared(user, what: "user name")
        let password = try SASLprep.prepared(password, what: "password")
        message = SecretBytes("\0\(user)\0\(password)")
    }

    package var initialResponse: [UInt8] { message.withBytes { Array($0) } }
}

/// EXTERNAL (RFC 4422 appendix A): the certificate of the TLS session names the client.
package struct ExternalClient: SASLExchange {
    package let mechanismName = "EXTERNAL"
    package let initialResponse: [UInt8]

    /// - Parameter identity: The account's bare address, for a certificate that names several; nil leaves it to the
    ///   server (XEP-0178 section 2).
    package init(identity: String?) { initialResponse = Array((identity ?? "").utf8) }
}

/// ANONYMOUS (RFC 4505): an address for as long as the session lasts.
package struct AnonymousClient: SASLExchange {
    package let mechanismName = "ANONYMOUS"
    package let initialResponse: [UInt8] = []

    package init() {}
}
