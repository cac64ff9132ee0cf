import COmemo
import COpenSSL

/// A reference-counted object of libomemo-c; releases it with the last use.
struct SignalObject: ~Copyable {
    let pointer: OpaquePointer

    /// Takes over one reference.
    init(_ pointer: OpaquePointer) { self.pointer = pointer }

    deinit { signal_type_unref(pointer) }
}

/// A byte buffer of libomemo-c; wiped when it goes, because most hold keys.
struct SignalBuffer: ~Copyable {
    let pointer: OpaquePointer

    /// Takes the buffer over.
    init(_ pointer: OpaquePointer) { self.pointer = pointer }

    deinit { signal_buffer_bzero_free(pointer) }

    var bytes: [UInt8] { Self.bytes(of: pointer) }

    static func bytes(of pointer: OpaquePointer) -> [UInt8] {
        Array(
            UnsafeBufferPointer(start: signal_buffer_const_data(pointer), count: signal_buffer_len(pointer)))
    }
}

/// Runs a function of libomemo-c that makes an object.
///
/// - Throws: ``SignalFailure`` with the function's code.
func makeSignal(
    _ body: (UnsafeMutablePointer<OpaquePointer?>) -> Int32
) throws(SignalFailure) -> OpaquePointer {
    var pointer: OpaquePointer?
    let code = body(&pointer)
    guard code >= 0, let pointer else { throw SignalFailure(code: code) }
    return pointer
}

func checkSignal(_ code: Int32) throws(SignalFailure) {
    if code < 0 { throw SignalFailure(code: code) }
}

/// A negative result of libomemo-c.
struct SignalFailure: Error, Hashable {
    let code: Int32

    /// A session has so many keys of skipped messages that its record would be too large. The code is none of the library's.
    static let recordTooLarge = SignalFailure(code: -20_000)

    var error: OmemoError {
        switch code {
        case SG_ERR_DUPLICATE_MESSAGE: OmemoError(.duplicate, "the message was decrypted before")
        case SG_ERR_NO_SESSION:
            OmemoError(.noSession, "there is no session with the sender's device; a new one is offered to it")
        case SG_ERR_INVALID_KEY_ID:
            OmemoError(
                .unknownPreKey,
                "the message was encrypted with a prekey that this device no longer has; a new session is offered"
            )
        case SG_ERR_INVALID_KEY:
            OmemoError(.malformed, "a key is malformed or its signature is wrong; nothing can be done here")
        case SG_ERR_INVALID_PROTO_BUF, SG_ERR_INVALID_VERSION, SG_ERR_LEGACY_MESSAGE, SG_ERR_INVAL:
            OmemoError(.malformed, "the key element is malformed; nothing can be done here")
        case SG_ERR_NOMEM: OmemoError(.cryptoFailed, "there is no memory left for encryption")
        default:
            OmemoError(
                .undecryptable,
                "the message fits no session with the sender's device (\(code)); a new one is offered to it")
        }
    }
}

extension [UInt8] {
    /// Overwrites the bytes, if no other copy shares them, and empties the array.
    mutating func wipe() {
        withUnsafeMutableBytes { OPENSSL_cleanse($0.baseAddress, $0.count) }
        self = []
    }

    /// Lends the bytes to `body` and wipes them.
    consuming func thenWiped<R, E: Error>(_ body: (borrowing [UInt8]) throws(E) -> R) throws(E) -> R {
        var bytes = self
        defer { bytes.wipe() }
        return try body(bytes)
    }
}
