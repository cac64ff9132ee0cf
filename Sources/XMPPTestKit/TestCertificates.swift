import COpenSSL
import Platform

/// A certificate authority for tests, with server certificates good and bad, made at run time.
///
/// ```swift
/// let certificates = try TestCertificates(in: folder)
/// let server = try certificates.makeServerCertificate(for: ["example.org"])
/// let expired = try certificates.makeServerCertificate(for: ["example.org"], flaw: .expired)
/// // The server under test gets server.certificateFile and server.keyFile,
/// // the client trusts certificates.authorityFile. Nothing is ever left unverified.
/// ```
///
/// Keys are P-256 and are written with mode 0600. Certificates are valid for one day.
public struct TestCertificates: Sendable {
    /// A flaw of a server's certificate.
    ///
    /// ```swift
    /// let old = try certificates.makeServerCertificate(for: ["localhost"], flaw: .expired)
    /// ```
    public enum Flaw: String, CaseIterable, Sendable {
        /// Nothing.
        case none
        /// Its last day was yesterday.
        case expired
        /// Its first day is tomorrow.
        case notYetValid
        /// It is for `wrong.invalid` instead of the domains asked for.
        case wrongName
        /// It was issued by another authority than ``TestCertificates/authorityFile``.
        case untrustedAuthority
        /// It is signed by its own key.
        case selfSigned
    }

    /// The files of a server's certificate and key.
    public struct ServerCertificate: Hashable, Sendable {
        /// The certificate, PEM.
        public let certificateFile: String
        /// Its private key, PEM.
        public let keyFile: String
    }

    /// The folder all files are in.
    package let folder: String
    /// The authority's certificate, for a client to trust.
    public var authorityFile: String { folder + "/authority.pem" }

    /// Makes the authority in `folder`, which must exist. Files of an earlier one are overwritten.
    ///
    /// - Parameter folder: The folder; its files are the caller's to remove.
    /// - Throws: ``ScriptedServerError`` when a file cannot be written.
    public init(in folder: String) throws {
        self.folder = folder
        try makeAuthority(named: "authority", commonName: "Test Authority")
    }

    /// Makes a certificate for a server.
    ///
    /// - Parameters:
    ///   - domains: Host names (`example.org`, `*.example.org`) and IP addresses it is for.
    ///   - flaw: What shall be wrong with it.
    ///   - commonName: The subject's common name, which clients ignore; the first domain when nil.
    ///   - name: How the files are named, without extension; from the first domain and the flaw when nil.
    /// - Returns: Where the certificate and its key are.
    /// - Throws: ``ScriptedServerError`` when a file cannot be written.
    public func makeServerCertificate(
        for domains: [String], flaw: Flaw = .none, commonName: String? = nil, name: String? = nil
    ) throws -> ServerCertificate {
        let name = name ?? "\(domains.first ?? "server")-\(flaw.rawValue)".replacing("*", with: "any")
        let day = 24 * 60 * 60
        let validity =
            switch flaw {
            case .expired: -2 * day ... -day
            case .notYetValid: day...2 * day
            default: -60...day
            }
        let key = try makeKey()
        let certificate = try Certificate(
            commonName: commonName ?? domains.first ?? "server", key: key.pointer, validity: validity)
        let alternatives = (flaw == .wrongName ? ["wrong.invalid"] : domains).map(
            TestCertificates.alternativeName)
        var issuer = (certificate: certificate, key: key)
        if flaw == .untrustedAuthority {
            issuer = try makeAuthority(named: "other-authority", commonName: "Another Authority")
        } else if flaw != .selfSigned {
            issuer = try authority
        }
        try certificate.add(NID_basic_constraints, "critical,CA:FALSE", issuer: issuer.certificate)
        try certificate.add(NID_ext_key_usage, "serverAuth", issuer: issuer.certificate)
        if !alternatives.isEmpty {
            try certificate.add(
                NID_subject_alt_name, alternatives.joined(separator: ","), issuer: issuer.certificate)
        }
        return try write(certificate, key, issuer: issuer, named: name)
    }

    /// Makes a certificate for a server with names of any kind.
    ///
    /// - Parameters:
    ///   - alternatives: What its subjectAltName has, as OpenSSL writes it: `DNS:example.org`,
    ///     `otherName:1.3.6.1.5.5.7.8.7;IA5:_xmpp-client.example.org`.
    ///   - domain: The only domain for which its authority may issue certificates; nil for any.
    /// - Returns: Where the certificate and its key are, and the authority's certificate.
    package func makeServerCertificate(
        alternatives: [String], permitting domain: String? = nil
    ) throws -> (server: ServerCertificate, authorityFile: String) {
        let name = domain.map { "authority-\($0)" } ?? "authority"
        let issuer =
            if let domain {
                try makeAuthority(
                    named: name, commonName: "Authority of \(domain)", constraints: "permitted;DNS:\(domain)")
            } else {
                try authority
            }
        let key = try makeKey()
        let certificate = try Certificate(commonName: "server", key: key.pointer, validity: -60...86_400)
        try certificate.add(NID_basic_constraints, "critical,CA:FALSE", issuer: issuer.certificate)
        try certificate.add(
            NID_subject_alt_name, alternatives.joined(separator: ","), issuer: issuer.certificate)
        let server = try write(certificate, key, issuer: issuer, named: "named")
        return (server, "\(folder)/\(name).pem")
    }

    /// Makes a certificate for a client, good for logging in with SASL EXTERNAL (XEP-0178).
    ///
    /// - Parameters:
    ///   - address: The account's bare address, which the certificate has as id-on-xmppAddr.
    ///   - name: How the files are named, without extension.
    /// - Returns: Where the certificate and its key are.
    /// - Throws: ``ScriptedServerError`` when a file cannot be written.
    package func makeClientCertificate(for address: String, name: String = "client") throws
        -> ServerCertificate
    {
        let key = try makeKey()
        let certificate = try Certificate(commonName: address, key: key.pointer, validity: -60...86_400)
        let issuer = try authority
        try certificate.add(NID_basic_constraints, "critical,CA:FALSE", issuer: issuer.certificate)
        try certificate.add(NID_ext_key_usage, "clientAuth", issuer: issuer.certificate)
        try certificate.add(
            NID_subject_alt_name, "otherName:1.3.6.1.5.5.7.8.5;UTF8:\(address)", issuer: issuer.certificate)
        return try write(certificate, key, issuer: issuer, named: name)
    }

    private static func alternativeName(_ domain: String) -> String {
        let isAddress = a2i_IPADDRESS(domain).map { ASN1_OCTET_STRING_free($0) } != nil
        return (isAddress ? "IP:" : "DNS:") + domain
    }

    @discardableResult
    private func makeAuthority(
        named name: String, commonName: String, constraints: String? = nil
    ) throws -> (certificate: Certificate, key: Key) {
        let key = try makeKey()
        let certificate = try Certificate(commonName: commonName, key: key.pointer, validity: -60...86_400)
        try certificate.add(NID_basic_constraints, "critical,CA:TRUE", issuer: certificate)
        try certificate.add(NID_key_usage, "critical,keyCertSign,cRLSign", issuer: certificate)
        if let constraints { try certificate.add(NID_name_constraints, constraints, issuer: certificate) }
        _ = try write(certificate, key, issuer: (certificate, key), named: name)
        return (certificate, key)
    }

    private var authority: (certificate: Certificate, key: Key) {
        get throws {
            (try Certificate(readFrom: authorityFile), try Key(readFrom: folder + "/authority-key.pem"))
        }
    }

    /// Signs a certificate, and writes it and its key.
    private func write(
        _ certificate: Certificate, _ key: Key, issuer: (certificate: Certificate, key: Key),
        named name: String
    ) throws -> ServerCertificate {
        try certificate.sign(issuer: issuer.certificate, key: issuer.key)
        let files = ServerCertificate(
            certificateFile: "\(folder)/\(name).pem", keyFile: "\(folder)/\(name)-key.pem")
        try certificate.write(to: files.certificateFile)
        try key.write(to: files.keyFile)
        return files
    }

    private func makeKey() throws -> Key {
        guard let pointer = dh_make_p256_key() else {
            throw ScriptedServerError(.certificate, "OpenSSL made no key.")
        }
        return Key(pointer)
    }
}

/// Owns an EVP_PKEY.
private final class Key {
    let pointer: OpaquePointer

    init(_ pointer: OpaquePointer) { self.pointer = pointer }

    convenience init(readFrom path: String) throws {
        guard let pointer = try withFile(path, mode: "r", { PEM_read_bio_PrivateKey($0, nil, nil, nil) })
        else { throw ScriptedServerError(.certificate, "\(path) holds no key.") }
        self.init(pointer)
    }

    deinit { EVP_PKEY_free(pointer) }

    func write(to path: String) throws {
        let result = try withFile(path, mode: "w") { file in
            try? FileSystem.setPermissions(0o600, of: path)
            return PEM_write_bio_PKCS8PrivateKey(file, pointer, nil, nil, 0, nil, nil)
        }
        guard result == 1 else { throw ScriptedServerError(.certificate, "\(path) cannot be written.") }
    }
}

/// Owns an X509.
private final class Certificate {
    let pointer: OpaquePointer

    /// An unsigned certificate, issued by itself until `sign` says otherwise.
    ///
    /// - Parameter validity: First and last moment, in seconds from now.
    init(commonName: String, key: OpaquePointer, validity: ClosedRange<Int>) throws {
        guard let made = X509_new() else {
            throw ScriptedServerError(.certificate, "OpenSSL made no certificate.")
        }
        pointer = made
        var serial: UInt64 = 0
        let name = X509_get_subject_name(made)
        guard withUnsafeMutableBytes(of: &serial, { RAND_bytes($0.baseAddress, 8) }) == 1,
            ASN1_INTEGER_set_uint64(X509_get_serialNumber(made), serial >> 1 | 1) == 1,
            X509_set_version(made, Int(X509_VERSION_3)) == 1,
            X509_gmtime_adj(X509_getm_notBefore(made), validity.lowerBound) != nil,
            X509_gmtime_adj(X509_getm_notAfter(made), validity.upperBound) != nil,
            X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, commonName, -1, -1, 0) == 1,
            X509_set_issuer_name(made, name) == 1, X509_set_pubkey(made, key) == 1
        else { throw ScriptedServerError(.certificate, "OpenSSL could not fill in a certificate.") }
    }

    init(readFrom path: String) throws {
        guard let read = try withFile(path, mode: "r", { PEM_read_bio_X509($0, nil, nil, nil) }) else {
            throw ScriptedServerError(.certificate, "\(path) holds no certificate.")
        }
        pointer = read
    }

    deinit { X509_free(pointer) }

    func add(_ kind: Int32, _ value: String, issuer: Certificate) throws {
        guard let made = dh_make_extension(issuer.pointer, pointer, kind, value) else {
            throw ScriptedServerError(.certificate, "\"\(value)\" cannot stand in a certificate.")
        }
        defer { X509_EXTENSION_free(made) }
        guard X509_add_ext(pointer, made, -1) == 1 else {
            throw ScriptedServerError(.certificate, "\"\(value)\" cannot be added to a certificate.")
        }
    }

    func sign(issuer: Certificate, key: Key) throws {
        guard X509_set_issuer_name(pointer, X509_get_subject_name(issuer.pointer)) == 1,
            X509_sign(pointer, key.pointer, EVP_sha256()) > 0
        else { throw ScriptedServerError(.certificate, "OpenSSL could not sign a certificate.") }
    }

    func write(to path: String) throws {
        guard try withFile(path, mode: "w", { PEM_write_bio_X509($0, pointer) }) == 1 else {
            throw ScriptedServerError(.certificate, "\(path) cannot be written.")
        }
    }
}

/// Opens a file, lends it to `body` and closes it.
private func withFile<Result>(_ path: String, mode: String, _ body: (OpaquePointer) -> Result) throws
    -> Result
{
    guard let file = BIO_new_file(path, mode) else {
        throw ScriptedServerError(.certificate, "\(path) cannot be opened: \(Errno.current).")
    }
    defer { BIO_free(file) }
    return body(file)
}
