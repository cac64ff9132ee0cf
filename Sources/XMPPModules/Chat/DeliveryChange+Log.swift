public import XMPPAccount
import XMPPCore

extension DeliveryChange: LoggedEvent {
    package static let module = AccountLog.Module.messages

    package var level: AccountLog.Level { delivery.failure == nil ? .verbose : .warning }

    /// What is known of the delivery, in one sentence.
    public var description: String {
        let id = delivery.id
        if let failure = delivery.failure { return "the message \(id) did not arrive: \(failure)" }
        if delivery.deliveredAt != nil { return "the message \(id) arrived" }
        return delivery.acknowledgedAt == nil
            ? "the message \(id) is sent, attempt \(delivery.attempts)" : "the server has the message \(id)"
    }
}
