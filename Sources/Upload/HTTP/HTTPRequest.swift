import Synchronization
import XMPPAccount

/// One exchange with a web server.
struct HTTPRequest: Sendable {
    /// An address of `https`.
    var address: String
    /// Names and values that go with it.
    var headers: [UploadSlot.Header] = []
    /// How many bytes are put; nil gets.
    var size: Int64?
    /// Which certificate authorities are believed.
    var trust: AccountConfiguration.Trust
    /// How long it may take.
    var limits: Limits

    /// How long an exchange may take.
    struct Limits: Hashable, Sendable {
        /// From the lookup of the name to the end of the TLS handshake.
        var connecting = Duration.seconds(30)
        /// Without a byte in either direction.
        var stalled = Duration.seconds(60)
        /// All of it.
        var total = Duration.seconds(6 * 3600)
    }
}

/// What of an exchange is seen and done from outside while it runs on its thread.
final class HTTPControl: Sendable {
    private let isCanceled = Atomic(false)
    /// Gets how many bytes have gone, now and then.
    let progress: @Sendable (Int64) -> Void

    init(progress: @escaping @Sendable (Int64) -> Void = { _ in }) { self.progress = progress }

    /// Ends the exchange within a second.
    func cancel() { isCanceled.store(true, ordering: .relaxed) }
    var wasCanceled: Bool { isCanceled.load(ordering: .relaxed) }
}
