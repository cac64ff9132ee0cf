import XMPPCore

extension OpenSSLErrors {
    /// Makes an error with the texts of all queued errors as its cause. Empties the queue.
    static func failure(_ code: ErrorCode<TransportError>, _ message: String) -> TransportError {
        TransportError(code, message, cause: removeAll())
    }
}
