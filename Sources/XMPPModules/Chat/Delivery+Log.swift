package import Handlers
package import XMPPAccount
import XMPPCore

extension Delivery: LoggedEvent {
    package static let module = AccountLog.Module.messages

    package var level: LogLevel { failure == nil ? .verbose : .warning }

    /// What is known of the delivery, in one sentence.
    package var sentence: String {
        if let failure { return "the message \(id) did not arrive: \(failure)" }
        if deliveredAt != nil { return "the message \(id) arrived" }
        return acknowledgedAt == nil
            ? "the message \(id) is sent, attempt \(attempts)" : "the server has the message \(id)"
    }
}
