package import Handlers
package import XMPPAccount
import XMPPCore

extension ArchiveProgress: LoggedEvent {
    package static let module = AccountLog.Module.archive

    package var level: LogLevel {
        switch state {
        case .failed: .warning
        case .complete: .info
        case .waiting, .fetching, .paused: .verbose
        }
    }

    /// The progress in one sentence.
    package var sentence: String {
        let count = total.map { "\(received) of about \($0)" } ?? "\(received)"
        return switch state {
        case .complete: "caught up with the archive of \(archive): \(count) messages"
        case .failed: "the catch-up with the archive of \(archive) failed: \(failure ?? "no reason given")"
        case .waiting: "the catch-up with the archive of \(archive) waits after \(count) messages"
        case .fetching: "the catch-up with the archive of \(archive) continues after \(count) messages"
        case .paused: "the catch-up with the archive of \(archive) waits for the room"
        }
    }
}
