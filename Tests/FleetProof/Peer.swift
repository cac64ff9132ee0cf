import Platform
import Synchronization
import XMPPCore
import XMPPTestKit

/// Sends messages to the accounts, and keeps its own log of what it sent and what was answered.
final class Peer: Sendable {
    struct Log {
        /// When each message was sent.
        var sent: [String: ContinuousClock.Instant] = [:]
        /// How often each was answered, and when first.
        var answers: [String: (count: Int, first: ContinuousClock.Instant)] = [:]
    }

    private let bot: ScriptedServer.Bot
    private let log: LogBox

    private final class LogBox: Sendable { let state = Mutex(Log()) }

    init(_ server: ScriptedServer) throws {
        let log = LogBox()
        self.log = log
        bot = server.addBot(jid: try JID("peer@localhost/bot")) { stanza, _ in
            guard let id = stanza["id"]?.string, id.hasPrefix("re-") else { return }
            log.state.withLock {
                $0.answers[String(id.dropFirst(3)), default: (0, .now)].count += 1
            }
        }
    }

    func send(_ name: String, to account: Int) throws {
        log.state.withLock { $0.sent[name] = .now }
        bot.send(Message(to: try JID("u\(account)@localhost"), id: name, body: "do").element)
    }

    var contents: Log { log.state.withLock { $0 } }
}
