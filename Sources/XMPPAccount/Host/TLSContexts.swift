import Synchronization
import XMPPTransport

/// The TLS contexts of the accounts of a host. Equal settings share one: the trusted authorities take some hundred kilobytes.
final class TLSContexts: Sendable {
    /// What a context is made of.
    struct Settings: Hashable {
        let trust: TLSContext.Trust
        let identity: TLSContext.Identity?
        let pins: Set<[UInt8]>
        let newest: TLSVersion

        func makeContext() throws(TransportError) -> TLSContext {
            try TLSContext.client(trust: trust, identity: identity, pins: pins, newest: newest)
        }
    }

    private struct Weak {
        weak var context: TLSContext?
    }

    private let contexts = Mutex<[Settings: Weak]>([:])

    func hasContext(_ settings: Settings) -> Bool {
        contexts.withLock { $0[settings]?.context != nil }
    }

    /// Returns the context of settings. It lives for as long as an account uses it, so that files are read again afterwards.
    func context(_ settings: Settings) throws(TransportError) -> TLSContext {
        try contexts.withLock { (contexts) throws(TransportError) in
            if let context = contexts[settings]?.context { return context }
            let made = try settings.makeContext()
            contexts = contexts.filter { $0.value.context != nil }
            contexts[settings] = Weak(context: made)
            return made
        }
    }
}
