import COpenSSL
import Synchronization

/// A version of TLS.
package enum TLSVersion: Int, Comparable, Sendable {
    case tls10 = 0x0301
    case tls11 = 0x0302
    case tls12 = 0x0303
    case tls13 = 0x0304

    package static func < (one: TLSVersion, other: TLSVersion) -> Bool { one.rawValue < other.rawValue }
}

/// The common settings of TLS sessions: the trusted authorities (client) or the certificate (server).
///
/// Made once and used for any number of connections, from any thread.
///
/// `@unchecked Sendable`: the pointer never changes, OpenSSL counts references to an SSL_CTX atomically and
/// locks its inner tables; nothing here changes the settings after `init`.
package final class TLSContext: @unchecked Sendable {
    /// The authorities that a client trusts.
    package enum Trust: Hashable, Sendable {
        /// The system's store (the places that OpenSSL was built with, SSL_CERT_FILE and SSL_CERT_DIR).
        case system
        /// The certificates in this PEM file, and no others. Each of them is trusted as it is, so the file may also
        /// hold an intermediate authority or a server's self-signed certificate.
        case file(String)
    }

    /// The certificate of a client, for a server that requests one (SASL EXTERNAL).
    package struct Identity: Hashable, Sendable {
        /// PEM, the certificate first, then the intermediate ones.
        package var certificateFile: String
        /// PEM, the private key of the first certificate.
        package var keyFile: String

        package init(certificateFile: String, keyFile: String) {
            self.certificateFile = certificateFile
            self.keyFile = keyFile
        }
    }

    let pointer: OpaquePointer
    let isServer: Bool
    /// Keys of which the server must have one; empty for any. SHA-256 of the SubjectPublicKeyInfo.
    let pins: Set<[UInt8]>
    /// The context to which the settings belong; nil for itself.
    private let base: TLSContext?
    /// The data that resume the last TLS session with a domain.
    private let sessions = Mutex<[String: StoredSession]>([:])

    /// The ALPN name for XMPP client streams (XEP-0368 section 3), with its length in front.
    static let xmppClientProtocol: [UInt8] = [11] + Array("xmpp-client".utf8)
    /// The label of tls-exporter channel binding (RFC 9266 section 2).
    static let channelBindingLabel = "EXPORTER-Channel-Binding"

    /// Returns a context that verifies the server: TLS 1.2 or newer, certificate required.
    ///
    /// - Parameters:
    ///   - trust: Which authorities are believed.
    ///   - identity: What to show when the server asks who this is.
    ///   - pins: SHA-256 of the public keys (SubjectPublicKeyInfo) that the server may have; empty for any.
    ///   - newest: For tests of what an older version lacks.
    /// - Throws: `invalidCredentialFile` when a file cannot be read or holds no certificate.
    package static func client(
        trust: Trust = .system, identity: Identity? = nil, pins: Set<[UInt8]> = [],
        newest: TLSVersion = .tls13
    ) throws(TransportError) -> TLSContext {
        let context = try TLSContext(isServer: false, versions: .tls12...newest, pins: pins)
        try context.load(trust)
        if let identity {
            try context.load(certificateFile: identity.certificateFile, keyFile: identity.keyFile)
        }
        return context
    }

    /// Returns a context for a server; only tests have servers.
    ///
    /// - Parameters:
    ///   - certificateFile: PEM, the server's certificate first, then the intermediate ones.
    ///   - keyFile: PEM, the private key of the first certificate.
    ///   - versions: What the server speaks. Below TLS 1.2 the security level is lowered too, so that tests
    ///     can be the outdated server that a client must refuse.
    /// - Throws: `invalidCredentialFile` when a file cannot be read or the key does not fit.
    package static func server(
        certificateFile: String, keyFile: String, versions: ClosedRange<TLSVersion> = .tls12 ... .tls13
    ) throws(TransportError) -> TLSContext {
        let context = try TLSContext(isServer: true, versions: versions)
        try context.load(certificateFile: certificateFile, keyFile: keyFile)
        return context
    }

    private init(
        isServer: Bool, versions: ClosedRange<TLSVersion>, pins: Set<[UInt8]> = []
    ) throws(TransportError) {
        self.pins = pins
        base = nil
        OpenSSL.start
        ERR_clear_error()
        guard let created = SSL_CTX_new(isServer ? TLS_server_method() : TLS_client_method()) else {
            throw OpenSSLErrors.failure(.tlsFailed, "OpenSSL could not be set up.")
        }
        pointer = created
        self.isServer = isServer
        let newest = Int32(versions.upperBound.rawValue)
        var isSet = dh_SSL_CTX_set_versions(created, Int32(versions.lowerBound.rawValue), newest) == 1
        if versions.lowerBound < .tls12 {
            isSet = isSet && SSL_CTX_set_cipher_list(created, "DEFAULT@SECLEVEL=0") == 1
        }
        guard isSet else {
            throw OpenSSLErrors.failure(.tlsFailed, "This OpenSSL does not offer the TLS versions asked for.")
        }
        dh_SSL_CTX_set_fixed_options(created)
        // That a client verifies is set per session, together with the name: see CertificateVerification.
        if isServer {
            SSL_CTX_set_alpn_select_cb(created, selectXMPPClientProtocol, nil)
        } else {
            keepSessions()
        }
    }

    private init(sharing base: TLSContext) {
        (pointer, isServer, pins, self.base) = (base.pointer, base.isServer, base.pins, base)
    }

    deinit { if base == nil { SSL_CTX_free(pointer) } }

    /// Returns a context with the same settings that resumes the TLS sessions of its own connections only: the trusted authorities
    /// take some hundred kilobytes, and what one account was given is not for another.
    package func withOwnSessions() -> TLSContext { TLSContext(sharing: base ?? self) }

    // MARK: - TLS sessions

    /// Owns one reference to an SSL_SESSION.
    ///
    /// `@unchecked Sendable`: OpenSSL counts the references atomically; the pointer never changes.
    private final class StoredSession: @unchecked Sendable {
        let pointer: OpaquePointer
        init(_ pointer: OpaquePointer) { self.pointer = pointer }
        deinit { SSL_SESSION_free(pointer) }
    }

    /// Keeps what the server sends to resume a session with: the next handshake then needs no certificates. It holds
    /// for this context only, so for the same trust and pins, and for the domain that was verified.
    private func keepSessions() {
        dh_SSL_CTX_cache_client_sessions(pointer)
        SSL_CTX_sess_set_new_cb(pointer) { ssl, session in
            guard let ssl, let session, let owner = SSL_get_ex_data(ssl, TLSContext.ownerIndex),
                let name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name)
            else { return 0 }
            // 1: the reference is ours now.
            let stored = StoredSession(session)
            Unmanaged<TLSContext>.fromOpaque(owner).takeUnretainedValue()
                .sessions.withLock { $0[String(cString: name)] = stored }
            return 1
        }
    }

    /// The place of the context in the data of an SSL; the first one belongs to ``CertificateVerification``.
    private static let ownerIndex = dh_SSL_new_index()

    /// Makes this context the one that keeps what the server sends to resume a session with.
    func own(_ ssl: OpaquePointer) {
        SSL_set_ex_data(ssl, Self.ownerIndex, Unmanaged.passUnretained(self).toOpaque())
    }

    /// Lets a session start where the last one with that domain ended. What resumes a session is used once only, so
    /// that it does not reveal that two connections are the same client's (RFC 8446 appendix C.4).
    func resumeSession(of domain: String, on ssl: OpaquePointer) {
        guard let stored = sessions.withLock({ $0.removeValue(forKey: domain) }) else { return }
        SSL_set_session(ssl, stored.pointer)
    }

    private func load(_ trust: Trust) throws(TransportError) {
        ERR_clear_error()
        switch trust {
        case .system:
            guard SSL_CTX_set_default_verify_paths(pointer) == 1 else {
                throw OpenSSLErrors.failure(
                    .invalidCredentialFile,
                    "The system's trusted certificates cannot be read; install the package ca-certificates.")
            }
        case .file(let path):
            guard SSL_CTX_load_verify_file(pointer, path) == 1 else {
                throw OpenSSLErrors.failure(
                    .invalidCredentialFile,
                    "The file of trusted certificates \(path) cannot be used; it must be readable and hold "
                        + "at least one certificate in PEM form.")
            }
            X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(pointer), UInt(X509_V_FLAG_PARTIAL_CHAIN))
        }
    }

    private func load(certificateFile: String, keyFile: String) throws(TransportError) {
        ERR_clear_error()
        guard SSL_CTX_use_certificate_chain_file(pointer, certificateFile) == 1 else {
            throw OpenSSLErrors.failure(
                .invalidCredentialFile,
                "The certificate file \(certificateFile) cannot be used; it must be readable and in PEM form."
            )
        }
        guard SSL_CTX_use_PrivateKey_file(pointer, keyFile, SSL_FILETYPE_PEM) == 1,
            SSL_CTX_check_private_key(pointer) == 1
        else {
            throw OpenSSLErrors.failure(
                .invalidCredentialFile,
                "The key file \(keyFile) cannot be used; it must be readable, in PEM form, without a "
                    + "password, and fit the certificate in \(certificateFile).")
        }
    }
}

/// Chooses "xmpp-client" when the client offers it; otherwise no protocol is chosen and the handshake goes
/// on.
private func selectXMPPClientProtocol(
    _: OpaquePointer?, _ chosen: UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
    _ chosenLength: UnsafeMutablePointer<UInt8>?, _ offered: UnsafePointer<UInt8>?, _ offeredLength: UInt32,
    _: UnsafeMutableRawPointer?
) -> Int32 {
    guard let chosen, let chosenLength, let offered else { return SSL_TLSEXT_ERR_NOACK }
    let names = UnsafeBufferPointer(start: offered, count: Int(offeredLength))
    var index = 0
    while index < names.count {
        let end = index + 1 + Int(names[index])
        if end <= names.count, names[index..<end].elementsEqual(TLSContext.xmppClientProtocol) {
            chosen.pointee = offered + index + 1
            chosenLength.pointee = names[index]
            return SSL_TLSEXT_ERR_OK
        }
        index = end
    }
    return SSL_TLSEXT_ERR_NOACK
}
