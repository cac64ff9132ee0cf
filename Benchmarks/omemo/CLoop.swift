import COmemo
import Glibc
@testable import Omemo

/// A loop over the library alone: one context, one cipher, a store in memory.
struct CLoop {
    let context: SignalContext
    private let address: UnsafeMutablePointer<signal_protocol_address>
    private let cipher: OpaquePointer

    init(_ memory: SignalMemory) throws {
        context = try SignalContext(memory)
        address = .allocate(capacity: 1)
        address.initialize(to: signal_protocol_address(name: strdup("peer"), name_len: 4, device_id: 1))
        let (stores, global, place) = (context.stores, context.global, address)
        cipher = try makeSignal { session_cipher_create($0, stores, place, global) }
        session_cipher_set_version(cipher, 4)
    }

    func encrypt(_ count: Int) {
        let plaintext = [UInt8](repeating: 7, count: 48)
        for _ in 0..<count {
            var message: OpaquePointer?
            precondition(session_cipher_encrypt(cipher, plaintext, plaintext.count, &message) == 0)
            signal_type_unref(message)
        }
    }

    func decrypt(_ keys: [[UInt8]]) {
        for key in keys {
            var message: OpaquePointer?
            var plaintext: OpaquePointer?
            precondition(signal_message_deserialize_omemo(&message, key, key.count, context.global) == 0)
            precondition(session_cipher_decrypt_signal_message(cipher, message, nil, &plaintext) == 0)
            signal_buffer_bzero_free(plaintext)
            signal_type_unref(message)
        }
    }
}
