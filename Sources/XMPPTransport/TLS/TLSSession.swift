import COpenSSL

/// A TLS session, client or server, between two memory buffers.
///
/// ```text
/// socket ─▶ receive(_:) ─▶ [ciphertext] ─▶ read(into:) ─▶ plaintext
/// socket ◀─ moveOutput(into:) ◀─ [ciphertext] ◀─ write(_:) ◀─ plaintext
/// ```
///
/// It knows no socket and never blocks, so every rule of it can be tested in memory. ``Connection`` moves the
/// bytes.
package final class TLSSession {
    /// The result of a read.
    enum Plaintext: Equatable {
        case bytes(Int)
        /// More ciphertext is needed.
        case needsInput
        /// The peer ended TLS with close_notify.
        case closed
    }

    let ssl: OpaquePointer
    /// Ciphertext from the peer; owned by `ssl`.
    private let input: OpaquePointer
    /// Ciphertext for the peer; owned by `ssl`.
    private let output: OpaquePointer
    /// Keeps the trust store alive as long as the session.
    private let context: TLSContext
    let names: TLSPeerNames
    var isServer: Bool { context.isServer }
    var pins: Set<[UInt8]> { context.pins }
    private let verification = CertificateVerification()

    /// A client session that accepts only a certificate for `names.domain`.
    ///
    /// - Parameter offersProtocol: Whether ALPN offers "xmpp-client" (direct TLS, XEP-0368).
    convenience init(client context: TLSContext, names: TLSPeerNames, offersProtocol: Bool)
        throws(TransportError)
    {
        try self.init(context, names)
        SSL_set_connect_state(ssl)
        context.own(ssl)
        try verification.requireName(names.domain, on: ssl)
        context.resumeSession(of: DomainName.ascii(names.domain), on: ssl)
        guard
            !offersProtocol
                || SSL_set_alpn_protos(
                    ssl, TLSContext.xmppClientProtocol, UInt32(TLSContext.xmppClientProtocol.count)) == 0
        else { throw TLSSession.setUpFailure() }
    }

    /// A server session.
    convenience init(server context: TLSContext, names: TLSPeerNames) throws(TransportError) {
        try self.init(context, names)
        SSL_set_accept_state(ssl)
    }

    private init(_ context: TLSContext, _ names: TLSPeerNames) throws(TransportError) {
        ERR_clear_error()
        guard let ssl = SSL_new(context.pointer) else { throw TLSSession.setUpFailure() }
        guard let input = BIO_new(BIO_s_mem()), let output = BIO_new(BIO_s_mem()) else {
            SSL_free(ssl)
            throw TLSSession.setUpFailure()
        }
        SSL_set_bio(ssl, input, output)
        self.ssl = ssl
        self.input = input
        self.output = output
        self.context = context
        self.names = names
    }

    deinit {
        // OpenSSL would never resume a session whose connection broke off. Here that is how connections end, and what was
        // cut off XEP-0198 finds out.
        SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN)
        SSL_free(ssl)
    }

    // MARK: - Ciphertext

    /// Takes in bytes from the socket.
    func receive(_ ciphertext: UnsafeRawBufferPointer) throws(TransportError) {
        let count = Int32(clamping: ciphertext.count)
        guard BIO_write(input, ciphertext.baseAddress, count) == count else {
            throw TLSSession.setUpFailure()
        }
    }

    /// Moves what must go to the socket to the end of `buffer`.
    func moveOutput(into buffer: inout OutputBuffer) {
        while case let pending = BIO_ctrl_pending(output), pending > 0 {
            let bytes = [UInt8](unsafeUninitializedCapacity: pending) { space, count in
                count = Int(max(0, BIO_read(output, space.baseAddress, Int32(clamping: pending))))
            }
            if bytes.isEmpty { return }
            buffer.append(bytes)
        }
    }

    /// Whether a read may give something without more ciphertext.
    var hasBufferedInput: Bool { SSL_has_pending(ssl) == 1 || BIO_ctrl_pending(input) > 0 }

    // MARK: - Plaintext

    /// Takes the handshake as far as the input allows.
    ///
    /// - Returns: Whether it is complete.
    /// - Throws: The reason it failed. There may be output then: the alert for the peer.
    func handshake() throws(TransportError) -> Bool {
        ERR_clear_error()
        let result = SSL_do_handshake(ssl)
        if result == 1 {
            try checkPins()
            return true
        }
        if SSL_get_error(ssl, result) == SSL_ERROR_WANT_READ { return false }
        throw names.handshakeFailure(verification: context.isServer ? nil : verification.failure(of: ssl))
    }

    /// Decrypts into `buffer`.
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(TransportError) -> Plaintext {
        ERR_clear_error()
        let result = SSL_read(ssl, buffer.baseAddress, Int32(clamping: buffer.count))
        if result > 0 { return .bytes(Int(result)) }
        switch SSL_get_error(ssl, result) {
        case SSL_ERROR_WANT_READ: return .needsInput
        case SSL_ERROR_ZERO_RETURN: return .closed
        default: throw names.sessionFailure()
        }
    }

    /// Encrypts `plaintext`; all of it is taken, in records of at most 16 KiB.
    func write(_ plaintext: UnsafeRawBufferPointer) throws(TransportError) -> Int {
        guard !plaintext.isEmpty else { return 0 }
        ERR_clear_error()
        let result = SSL_write(ssl, plaintext.baseAddress, Int32(clamping: plaintext.count))
        guard result > 0 else { throw names.sessionFailure() }
        return Int(result)
    }

    /// Puts a close_notify alert into the output.
    func closeNotify() {
        ERR_clear_error()
        _ = SSL_shutdown(ssl)
        ERR_clear_error()
    }

    // MARK: - What was agreed

    /// Whether the peer ended TLS itself; false when the connection just broke off.
    package var hasReceivedCloseNotify: Bool { SSL_get_shutdown(ssl) & SSL_RECEIVED_SHUTDOWN != 0 }

    /// The version in OpenSSL's words, for instance `TLSv1.3`.
    package var protocolVersion: String { String(cString: SSL_get_version(ssl)) }

    /// Whether it goes on from an earlier session, without certificates.
    package var isResumed: Bool { SSL_session_reused(ssl) == 1 }

    static func setUpFailure() -> TransportError {
        OpenSSLErrors.failure(.tlsFailed, "A TLS session could not be set up.")
    }
}
