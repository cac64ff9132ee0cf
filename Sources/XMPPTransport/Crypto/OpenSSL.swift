import COpenSSL

/// OpenSSL as a whole, which is one for the process.
package enum OpenSSL {
    /// Initializes OpenSSL once; named before its first use.
    ///
    /// Left to start by itself, it would register a clean-up for the exit of the program, which frees what all threads share.
    /// A program may exit while it is connected; the threads that go on until then would meet freed memory, and a process
    /// that ends well would seem to have crashed. The system takes the memory back.
    package static let start: Void = {
        _ = OPENSSL_init_crypto(UInt64(OPENSSL_INIT_NO_ATEXIT), nil)
    }()
}
