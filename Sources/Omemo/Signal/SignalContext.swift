import COmemo

/// A context of libomemo-c that uses OpenSSL, and the stores of one operation.
///
/// One is made for each operation and used on one thread only, so it needs no lock. It keeps no log: the library's
/// messages are meant for its own authors.
final class SignalContext {
    private let keys: KeyContext
    let stores: OpaquePointer
    /// The memory that the library reads and writes; the caller stores the changes in its step.
    let memory: SignalMemory

    init(_ memory: SignalMemory) throws(SignalFailure) {
        let keys = try KeyContext()
        stores = try makeSignal { signal_protocol_store_context_create($0, keys.global) }
        (self.keys, self.memory) = (keys, memory)
        memory.attach(to: stores)
    }

    var global: OpaquePointer { keys.global }

    // The keys' context is destroyed after this.
    deinit { signal_protocol_store_context_destroy(stores) }
}
