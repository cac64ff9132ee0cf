import XMPPCore

/// `<failure/>` in answer to a login (RFC 6120 section 6.5, also inside of XEP-0388), and what follows from it.
///
/// The condition says whether the credentials are wrong. Only then another attempt cannot succeed; everything else may pass, or
/// the server's operator has to change it.
struct LoginRefusal: Error, CustomStringConvertible {
    /// The conditions of RFC 6120 section 6.5.
    enum Condition: String, CaseIterable {
        case aborted
        case accountDisabled = "account-disabled"
        case credentialsExpired = "credentials-expired"
        case encryptionRequired = "encryption-required"
        case incorrectEncoding = "incorrect-encoding"
        case invalidAuthzid = "invalid-authzid"
        case invalidMechanism = "invalid-mechanism"
        case malformedRequest = "malformed-request"
        case mechanismTooWeak = "mechanism-too-weak"
        case notAuthorized = "not-authorized"
        case temporaryAuthFailure = "temporary-auth-failure"
    }

    /// The condition; nil for one that RFC 6120 does not know.
    let condition: Condition?
    /// The condition and the server's text, cut.
    let description: String

    /// The longest condition, and the longest text, in bytes.
    private static let limits = (condition: 100, text: 300)

    init(_ failure: Element) {
        let name = failure.elements.first { $0.namespace == Namespaces.sasl && $0.name != "text" }?.name
        condition = name.flatMap { Condition($0) }
        let text = failure.elements.first { $0.name == "text" }?.text
        description =
            (name?.prefix(bytes: Self.limits.condition).string ?? "failure")
            + (text.map { ": \($0.prefix(bytes: Self.limits.text))" } ?? "")
    }

    /// The error of an attempt that ended so.
    ///
    /// - Parameter mechanism: The mechanism of SASL that was used.
    func error(of mechanism: String, _ configuration: AccountConfiguration) -> AccountError {
        let (domain, jid) = (configuration.jid.domain, configuration.jid)
        switch condition {
        case .notAuthorized:
            return stopping(
                "\(domain) refused the login of \(jid) (\(self)); \(advice(mechanism, configuration))")
        case .accountDisabled:
            return stopping("\(domain) has disabled \(jid) (\(self)); ask its operator")
        case .credentialsExpired:
            return stopping(
                "the \(Self.credentials(configuration)) of \(jid) has expired (\(self)); set a new one")
        // Only with a certificate another identity is named than that of the credentials (XEP-0178 section 2).
        case .invalidAuthzid where configuration.usesCertificate:
            return stopping(
                "\(domain) does not take the certificate for \(jid) (\(self)); use one of this address")
        case .temporaryAuthFailure:
            return passing("\(domain) cannot authenticate anyone at the moment (\(self)); it is tried again")
        default:
            return passing(
                "\(domain) did not accept \(mechanism) for \(jid) (\(self)); the \(Self.credentials(configuration)) may be right. It is tried again; if this goes on, show it to the server's operator"
            )
        }
    }

    private func advice(_ mechanism: String, _ configuration: AccountConfiguration) -> String {
        switch configuration.authentication {
        case .password:
            // ejabberd before 24.02 compares tls-unique, which TLS 1.3 has not, and answers so.
            let binding =
                mechanism.hasSuffix("-PLUS")
                ? ". If both are right, the server's channel binding is wrong; show this to its operator" : ""
            return "check the address and the password" + binding
        case .certificate: return "check the address and the certificate"
        case .anonymous: return "ask its operator who may log in without an account"
        }
    }

    private static func credentials(_ configuration: AccountConfiguration) -> String {
        configuration.usesCertificate ? "certificate" : "password"
    }

    private func stopping(_ message: String) -> AccountError {
        AccountError(.notAuthorized, message, cause: self)
    }

    private func passing(_ message: String) -> AccountError {
        AccountError(.connectionFailed, message, cause: self)
    }
}

extension AccountConfiguration {
    fileprivate var usesCertificate: Bool {
        if case .certificate = authentication { true } else { false }
    }
}
