import Synchronization
import XMPPAccount
import XMPPCore

/// One exchange with a web server.
struct HTTPRequest: Sendable {
    /// An address of `https`, as ``UploadSlot/address(_:)`` returns it.
    var address: ForeignText
    /// Names and values that go with it.
    var headers: [UploadSlot.Header] = []
    /// The number of bytes to upload; nil for a download.
    var size: Int64?
    /// The trusted certificate authorities.
    var trust: AccountConfiguration.Trust
    /// The time limits.
    var limits: Limits
    /// Where the connection may lead.
    var reach: HTTPReach

    /// The time limits of an exchange.
    struct Limits: Hashable, Sendable {
        /// From the lookup of the name to the end of the TLS handshake.
        var connecting = Duration.seconds(30)
        /// Without a byte in either direction.
        var stalled = Duration.seconds(60)
        /// All of it.
        var total = Duration.seconds(6 * 3600)
    }
}

/// The control of an exchange from other threads.
final class HTTPControl: Sendable {
    private let isCanceled = Atomic(false)
    /// Gets how many bytes have gone, now and then.
    let progress: @Sendable (Int64) -> Void

    init(progress: @escaping @Sendable (Int64) -> Void = { _ in }) { self.progress = progress }

    /// Ends the exchange within a second.
    func cancel() { isCanceled.store(true, ordering: .relaxed) }
    var wasCanceled: Bool { isCanceled.load(ordering: .relaxed) }
}
