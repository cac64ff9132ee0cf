import COpenSSL

/// The peer of a TLS session, and its name in errors.
struct TLSPeerNames: Hashable, Sendable {
    /// The domain that the certificate must be for: the account's, whatever host was dialed.
    let domain: String
    /// The host that was dialed, in words.
    let peer: String

    /// The error for a failed handshake; empties OpenSSL's error queue.
    func handshakeFailure(verification: CertificateVerification.Failure?) -> TransportError {
        if let verification {
            let reason = String(cString: X509_verify_cert_error_string(Int(verification.code)))
            _ = OpenSSLErrors.removeAll()
            return certificateFailure(verification, cause: reason)
        }
        let reason = OpenSSLErrors.sslReason
        let cause = OpenSSLErrors.removeAll()
        switch reason {
        case SSL_R_UNSUPPORTED_PROTOCOL, SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, SSL_R_VERSION_TOO_LOW,
            SSL_R_WRONG_SSL_VERSION:
            return TransportError(
                .tlsProtocolTooOld,
                "The server for \(domain) at \(peer) speaks only TLS 1.1 or older, which is not secure; its "
                    + "operator must enable TLS 1.2 or 1.3.", cause: cause)
        case SSL_R_WRONG_VERSION_NUMBER, SSL_R_HTTP_REQUEST, SSL_R_PACKET_LENGTH_TOO_LONG:
            return TransportError(
                .tlsFailed,
                "What answered for \(domain) at \(peer) does not speak TLS here; check the port, and whether "
                    + "it wants STARTTLS (usually 5222) or direct TLS (usually 5223).", cause: cause)
        default:
            return TransportError(
                .tlsFailed,
                "TLS with the server for \(domain) at \(peer) failed; if it happens again, show the reason "
                    + "to the server's operator.", cause: cause)
        }
    }

    /// The error for a server with another key than the pinned ones.
    func pinFailure() -> TransportError {
        TransportError(
            .certificateChanged,
            "The server for \(domain) at \(peer) has another key than the one this account is pinned to; somebody may "
                + "have taken its place. If the server's operator confirms the new key, pin that.")
    }

    /// The error for a session that broke after the handshake; empties OpenSSL's error queue.
    func sessionFailure() -> TransportError {
        OpenSSLErrors.failure(.tlsFailed, "The TLS session with \(domain) at \(peer) broke; reconnect.")
    }

    /// The ways to name a trust file: in the program, for the command `pushwake`, and in the environment.
    private static let waysToTrust = "configuration.trust, --ca of pushwake, or SSL_CERT_FILE"

    /// The error for a certificate that was refused.
    func certificateFailure(_ failure: CertificateVerification.Failure, cause: String) -> TransportError {
        switch failure.code {
        case X509_V_ERR_CERT_HAS_EXPIRED:
            return TransportError(
                .certificateExpired,
                "The certificate of \(domain) at \(peer) expired on \(failure.notAfter); its operator must "
                    + "renew it, unless this machine's clock is wrong.", cause: cause)
        case X509_V_ERR_CERT_NOT_YET_VALID:
            return TransportError(
                .certificateNotYetValid,
                "The certificate of \(domain) at \(peer) is valid only from \(failure.notBefore); check this "
                    + "machine's clock.", cause: cause)
        case X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH:
            let names = failure.names.isEmpty ? "no domain name" : failure.names.joined(separator: ", ")
            return TransportError(
                .certificateNameMismatch,
                "The certificate at \(peer) is not for \(domain) but for \(names); check the account's "
                    + "domain and the host, or ask the operator for a certificate that names "
                    + "\(domain).", cause: cause)
        case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
            return TransportError(
                .certificateSelfSigned,
                "The certificate of \(domain) at \(peer) is signed by itself; if this is your own server, "
                    + "give its certificate as the trust file (\(Self.waysToTrust)).", cause: cause)
        case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT,
            X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE,
            X509_V_ERR_CERT_UNTRUSTED, X509_V_ERR_CERT_SIGNATURE_FAILURE:
            return TransportError(
                .certificateUntrusted,
                "The certificate of \(domain) at \(peer) was issued by an authority that is not trusted "
                    + "here; install that authority's certificate, or give it as the trust file "
                    + "(\(Self.waysToTrust)).", cause: cause)
        default:
            return TransportError(
                .certificateInvalid,
                "The certificate of \(domain) at \(peer) cannot be accepted; its operator must replace it.",
                cause: cause)
        }
    }
}
