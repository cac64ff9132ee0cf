import COpenSSL

@testable import XMPPTransport

// What a test asks of a session.
extension TLSSession {
    /// The cipher suite, for instance `TLS_AES_256_GCM_SHA384`.
    var cipherSuite: String {
        SSL_get_current_cipher(ssl).map { String(cString: SSL_CIPHER_get_name($0)) } ?? ""
    }

    /// The protocol that ALPN agreed on, nil when none.
    var negotiatedProtocol: String? {
        var name: UnsafePointer<UInt8>?
        var length: UInt32 = 0
        SSL_get0_alpn_selected(ssl, &name, &length)
        guard let name, length > 0 else { return nil }
        return String(decoding: UnsafeBufferPointer(start: name, count: Int(length)), as: UTF8.self)
    }
}
