// Never run: it was written and parsed on Linux, where there is no UserNotifications.
import MessengerCore
import UserNotifications

/// Started by a push with `mutable-content`, for at most 30 s and with 24 MiB.
final class NotificationService: UNNotificationServiceExtension {
    private var running: Task<Void, Never>?

    override func didReceive(
        _ request: UNNotificationRequest,
        withContentHandler show: @escaping (UNNotificationContent) -> Void
    ) {
        let content =
            request.content.mutableCopy() as? UNMutableNotificationContent ?? UNMutableNotificationContent()
        running = Task {
            do {
                let messenger = try Messenger.opened(as: .notificationService)
                let lines = try await messenger.takeIn(within: .seconds(24))
                if let last = lines.last {
                    content.title = last.peer
                    content.body = lines.map(\.body).joined(separator: "\n")
                }
                // Before the system may suspend the extension.
                await messenger.account.close()
                await messenger.suspend(within: .seconds(2))
            } catch {
                content.body = "New message"
            }
            show(content)
        }
    }

    /// `takeIn` ends before this; a push that comes then is for the next extension.
    override func serviceExtensionTimeWillExpire() { running?.cancel() }
}
