import COpenSSL

/// OpenSSL's per-thread error queue.
enum OpenSSLErrors {
    /// The texts of all queued errors, oldest first; nil when there are none. Empties the queue.
    static func removeAll() -> String? {
        var texts: [String] = []
        while case let code = ERR_get_error(), code != 0 {
            let text = withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer in
                ERR_error_string_n(code, buffer.baseAddress, buffer.count)
                return String(cString: buffer.baseAddress!)
            }
            texts.append(text)
        }
        return texts.isEmpty ? nil : texts.joined(separator: "; ")
    }

    /// The reason number of the oldest error from the SSL library (SSL_R_…), without emptying the queue.
    static var sslReason: Int32? {
        let code = ERR_peek_error()
        guard code != 0, ERR_GET_LIB(code) == ERR_LIB_SSL else { return nil }
        return ERR_GET_REASON(code)
    }
}
