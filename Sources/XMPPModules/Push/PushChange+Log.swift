package import Handlers
package import XMPPAccount
import XMPPCore

extension PushChange: LoggedEvent {
    package static let module = AccountLog.Module.push

    package var level: LogLevel { if case .enabled = self { .info } else { .warning } }

    /// The change in one sentence.
    package var sentence: String {
        switch self {
        case .enabled(let registration): "the server notifies \(registration.service)"
        case .notEnabled(let registration, let error):
            "the server does not notify \(registration.service): \(Self.reason(error))"
        case .revoked(let registration): "\(registration.service) takes no more notifications"
        }
    }
}
