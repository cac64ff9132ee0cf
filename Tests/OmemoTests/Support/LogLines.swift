import Synchronization
import XMPPAccount

/// Keeps what accounts log: everything, and the XML in both directions.
final class LogLines: Sendable {
    let log: AccountLog
    private let kept: Box

    private final class Box: Sendable { let lines = Mutex<[String]>([]) }

    init() {
        let kept = Box()
        self.kept = kept
        log = AccountLog(level: .trace) { entry in kept.lines.withLock { $0.append("\(entry)") } }
        (log.showsSentXML, log.showsReceivedXML) = (true, true)
    }

    var text: String { kept.lines.withLock { $0.joined(separator: "\n") } }
}
