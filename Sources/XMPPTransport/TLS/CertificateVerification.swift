import COpenSSL

/// Makes a client session verify the server's certificate against a domain, and remembers why it was refused.
///
/// OpenSSL drops a certificate that it refuses, so its names and dates are noted while it is being looked at.
final class CertificateVerification {
    /// The reason why a certificate was refused.
    struct Failure: Hashable {
        /// X509_V_ERR_…
        let code: Int32
        /// The names in the certificate.
        var names: [String] = []
        /// First and last moment of validity, in UTC.
        var notBefore = "", notAfter = ""
    }

    private var noted: Failure?
    /// The domain, unless it is an address.
    private var domain: String?

    /// Requires a certificate for `domain`: a host name (then also sent as server name indication) or an IP
    /// address.
    ///
    /// The certificate's subjectAltName must have the name: as DNS-ID, SRV-ID or XmppAddr, or as an IP address
    /// (RFC 6120 section 13.7.1.2). The subject's common name is not looked at (RFC 9525),
    /// and a wildcard matches only a whole leftmost label (RFC 6125 section 6.4.3).
    func requireName(_ domain: String, on ssl: OpaquePointer) throws(TransportError) {
        ERR_clear_error()
        let parameters = SSL_get0_param(ssl)
        let flags = X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT
        X509_VERIFY_PARAM_set_hostflags(parameters, UInt32(flags))
        if X509_VERIFY_PARAM_set1_ip_asc(parameters, DomainName.withoutBrackets(domain)) != 1 {
            ERR_clear_error()
            let name = DomainName.ascii(domain)
            guard !name.isEmpty, X509_VERIFY_PARAM_set1_host(parameters, name, name.utf8.count) == 1,
                dh_SSL_set_host_name_indication(ssl, name) == 1
            else {
                throw OpenSSLErrors.failure(
                    .tlsFailed,
                    "\"\(domain)\" cannot be a domain that a certificate names; check the account's address.")
            }
            self.domain = name
        }
        SSL_set_ex_data(ssl, 0, Unmanaged.passUnretained(self).toOpaque())
        SSL_set_verify(ssl, SSL_VERIFY_PEER) { isGood, store in
            guard isGood != 1, let store, let owner = CertificateVerification.owner(of: store) else {
                return isGood
            }
            if owner.isNamedOtherwise(in: store) {
                X509_STORE_CTX_set_error(store, X509_V_OK)
                return 1
            }
            owner.record(store)
            return isGood  // Only noted: whether it is good is OpenSSL's decision.
        }
    }

    /// Returns whether OpenSSL, which compares DNS-IDs, refuses a certificate that names the service in another way.
    ///
    /// Not below an authority that may issue for some domains only: that restricts the names that OpenSSL knows, and no others.
    private func isNamedOtherwise(in store: OpaquePointer) -> Bool {
        guard let domain, X509_STORE_CTX_get_error(store) == X509_V_ERR_HOSTNAME_MISMATCH,
            let certificate = X509_STORE_CTX_get0_cert(store), dh_has_name_constraints(store) == 0
        else { return false }
        return ServerIdentifiers(of: certificate).isService(of: domain)
    }

    /// Returns the reason why verification failed; nil if it did not.
    func failure(of ssl: OpaquePointer) -> Failure? {
        let result = Int32(SSL_get_verify_result(ssl))
        guard result != X509_V_OK else { return nil }
        return noted?.code == result ? noted : Failure(code: result)
    }

    private static func owner(of store: OpaquePointer) -> CertificateVerification? {
        guard let ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()),
            let owner = SSL_get_ex_data(OpaquePointer(ssl), 0)
        else { return nil }
        return Unmanaged<CertificateVerification>.fromOpaque(owner).takeUnretainedValue()
    }

    private func record(_ store: OpaquePointer) {
        var failure = Failure(code: X509_STORE_CTX_get_error(store))
        if let certificate = X509_STORE_CTX_get_current_cert(store) {
            failure.names = ServerIdentifiers(of: certificate).all
            failure.notBefore = Self.text(of: X509_get0_notBefore(certificate))
            failure.notAfter = Self.text(of: X509_get0_notAfter(certificate))
        }
        noted = failure
    }

    static func text(of time: UnsafePointer<ASN1_TIME>?) -> String {
        var parts = tm()
        guard ASN1_TIME_to_tm(time, &parts) == 1 else { return "an unreadable date" }
        func padded(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
        return "\(parts.tm_year + 1900)-\(padded(parts.tm_mon + 1))-\(padded(parts.tm_mday)) "
            + "\(padded(parts.tm_hour)):\(padded(parts.tm_min)) UTC"
    }
}
