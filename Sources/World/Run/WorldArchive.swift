import Handlers
import XMPPCore
import XMPPTestKit

/// The archive of the account, which holds what the peer and strangers send.
///
/// `@unchecked Sendable`: one thread uses it.
final class WorldArchive: @unchecked Sendable {
    private var messages: [(element: Element, storedAt: Timestamp)] = []
    /// Small pages, so that a catch-up takes several requests.
    private(set) lazy var service = ArchiveService(
        count: messages.count, pageLimit: 3, storedAt: { [unowned self] in messages[$0].storedAt },
        make: { [unowned self] in messages[$0].element })

    /// Stores a message.
    ///
    /// - Returns: The message as it is delivered, with its id in the archive.
    func add(_ message: Element, from sender: JID, at now: Timestamp) -> Element {
        var stored = message
        stored["from"] = ForeignText("\(sender)")
        service.grow(by: 1)
        messages.append((stored, now))
        var delivered = message
        delivered.append(
            Element(
                "stanza-id", namespace: Namespaces.sid,
                attributes: ["by": "\(WorldServer.account)", "id": String(messages.count - 1)]))
        return delivered
    }
}
