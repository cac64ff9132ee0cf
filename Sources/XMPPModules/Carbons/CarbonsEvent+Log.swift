package import Handlers
package import XMPPAccount
import XMPPCore

extension CarbonsEvent: LoggedEvent {
    package static let module = AccountLog.Module.messages

    package var level: LogLevel { if case .refused = self { .warning } else { .info } }

    /// The server's answer in one sentence.
    package var sentence: String {
        switch self {
        case .enabled: "copies of messages come from now on"
        case .refused(let error): "the server sends no copies of messages: \(Self.reason(error))"
        case .disabled: "copies of messages do not come any more"
        }
    }
}
