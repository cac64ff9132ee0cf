package import Handlers
package import XMPPAccount
import XMPPCore

extension BlockingChange: LoggedEvent {
    package static let module = AccountLog.Module.roster

    package var level: LogLevel {
        switch self {
        case .notLoaded, .refused: .warning
        default: .info
        }
    }

    /// The change in one sentence.
    package var sentence: String {
        switch self {
        case .loaded: "the blocked addresses are those of the server"
        case .unsupported: "the server has no blocking"
        case .notLoaded(let error): "the server did not tell the blocked addresses: \(Self.reason(error))"
        case .blocked(let jids): "\(jids.count) addresses are blocked"
        case .unblocked(let jids): "\(jids.count) addresses are not blocked any more"
        case .unblockedAll: "nobody is blocked any more"
        case .refused(let jid): "\(jid) tried to change the blocked addresses, and may not"
        }
    }
}
