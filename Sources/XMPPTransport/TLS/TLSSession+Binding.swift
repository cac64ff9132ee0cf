import COpenSSL

// What only the two ends of a session know, and whom its certificate stands for.
extension TLSSession {
    /// The channel binding data of the session; empty before the end of the handshake.
    package var channelBindings: ChannelBindings {
        guard SSL_is_init_finished(ssl) == 1 else { return ChannelBindings() }
        var bindings = ChannelBindings()
        bindings[.tlsExporter] = exporterBinding
        bindings[.tlsUnique] = uniqueBinding
        bindings[.tlsServerEndPoint] = certificate.flatMap(Self.endPointBinding)
        return bindings
    }

    /// The 32 bytes that only the two ends can derive (RFC 9266).
    ///
    /// Nil for TLS 1.2. There an empty context and no context give different bytes, and peers disagree on which one
    /// the RFC means; a login that fails for that is worse than one without binding.
    private var exporterBinding: [UInt8]? {
        guard SSL_version(ssl) >= TLS1_3_VERSION else { return nil }
        let label = TLSContext.channelBindingLabel
        var binding = [UInt8](repeating: 0, count: 32)
        let result = SSL_export_keying_material(
            ssl, &binding, binding.count, label, label.utf8.count, nil, 0, 0)
        return result == 1 ? binding : nil
    }

    /// The first Finished message of the handshake (RFC 5929 section 3): the client's, or the server's when a session
    /// is resumed. Not for TLS 1.3, and not without the extended master secret (RFC 7627), as an attacker between the
    /// two could then make both sides agree.
    private var uniqueBinding: [UInt8]? {
        guard SSL_version(ssl) == TLS1_2_VERSION, dh_SSL_has_extended_master_secret(ssl) == 1 else {
            return nil
        }
        let isOwn = isServer == isResumed
        var binding = [UInt8](repeating: 0, count: 64)
        let count =
            isOwn
            ? SSL_get_finished(ssl, &binding, binding.count)
            : SSL_get_peer_finished(ssl, &binding, binding.count)
        return count > 0 && count <= binding.count ? Array(binding.prefix(count)) : nil
    }

    /// The hash of the server's certificate (RFC 5929 section 4.1): by the function with which it is signed, SHA-256
    /// in place of MD5 and SHA-1; none for signatures without one, such as Ed25519.
    static func endPointBinding(of certificate: OpaquePointer) -> [UInt8]? {
        var function: Int32 = 0
        guard X509_get_signature_info(certificate, &function, nil, nil, nil) == 1, function != NID_undef
        else { return nil }
        let isWeak = function == NID_md5 || function == NID_sha1
        guard let digest = isWeak ? EVP_sha256() : dh_digest_by_nid(function) else { return nil }
        var hash = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var count: UInt32 = 0
        guard X509_digest(certificate, digest, &hash, &count) == 1 else { return nil }
        return Array(hash.prefix(Int(count)))
    }

    /// The server's certificate, whichever end this is.
    private var certificate: OpaquePointer? {
        isServer ? SSL_get_certificate(ssl) : SSL_get0_peer_certificate(ssl)
    }

    /// The SHA-256 of the server's public key, for pinning.
    package var publicKeyHash: [UInt8]? {
        guard let certificate, let key = X509_get_X509_PUBKEY(certificate) else { return nil }
        var encoded: UnsafeMutablePointer<UInt8>?
        let count = i2d_X509_PUBKEY(key, &encoded)
        guard count > 0, let encoded else { return nil }
        defer { CRYPTO_free(encoded, nil, 0) }
        return Crypto.digest(.sha256, UnsafeBufferPointer(start: encoded, count: Int(count)))
    }

    /// Refuses a server whose key is not among the pinned ones, however good its certificate is.
    func checkPins() throws(TransportError) {
        guard !isServer, !pins.isEmpty else { return }
        guard let hash = publicKeyHash, pins.contains(hash) else { throw names.pinFailure() }
    }
}
