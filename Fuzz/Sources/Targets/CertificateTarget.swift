import COpenSSL
@testable import XMPPAccount
@testable import XMPPTransport

extension FuzzTarget {
    /// A server's certificate as DER: its names and dates in the error that refuses it, its hash for channel binding.
    static let certificate = FuzzTarget("certificate", .short, maximumLength: 4096) { bytes in
        ERR_clear_error()
        let certificate = bytes.withUnsafeBufferPointer { buffer in
            var place = buffer.baseAddress
            return d2i_X509(nil, &place, buffer.count)
        }
        guard let certificate else { return }
        defer { X509_free(certificate) }
        _ = TLSSession.endPointBinding(of: certificate)
        let identifiers = ServerIdentifiers(of: certificate)
        _ = identifiers.isService(of: "capulet.example")
        let names = TLSPeerNames(domain: "capulet.example", peer: "192.0.2.1")
        for code in [
            X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CERT_NOT_YET_VALID,
        ] {
            let failure = CertificateVerification.Failure(
                code: code, names: identifiers.all,
                notBefore: CertificateVerification.text(of: X509_get0_notBefore(certificate)),
                notAfter: CertificateVerification.text(of: X509_get0_notAfter(certificate)))
            let error = names.certificateFailure(failure, cause: "fuzzed")
            try require(!error.description.isEmpty, "an error without words")
        }
    }
}
