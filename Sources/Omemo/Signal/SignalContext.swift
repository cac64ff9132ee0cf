import COmemo

/// A context of libomemo-c that uses OpenSSL, and the stores of one operation.
///
/// One is made for each operation and used on one thread only, so it needs no lock. It keeps no log: the library's
/// messages are meant for its own authors.
final class SignalContext {
    let global: OpaquePointer
    let stores: OpaquePointer
    /// The memory that the library reads and writes; the caller stores the changes in its step.
    let memory: SignalMemory

    init(_ memory: SignalMemory) throws(SignalFailure) {
        self.memory = memory
        let global = try makeSignal { signal_context_create($0, nil) }
        var provider = SignalCrypto.provider
        do throws(SignalFailure) {
            try checkSignal(signal_context_set_crypto_provider(global, &provider))
            stores = try makeSignal { signal_protocol_store_context_create($0, global) }
        } catch {
            signal_context_destroy(global)
            throw error
        }
        self.global = global
        memory.attach(to: stores)
    }

    deinit {
        signal_protocol_store_context_destroy(stores)
        signal_context_destroy(global)
    }
}
