import Handlers
import XMPPCore
import XMPPTestKit

/// The account's archive of the messages from the peer and from strangers.
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
    /// - Returns: The message to deliver, with its id in the archive.
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
