import Platform
import Synchronization
import XMPPCore
import XMPPTestKit

/// Sends messages to the accounts, and keeps its own log of what it sent and what was answered.
final class Peer: Sendable {
    /// A message, with times in milliseconds since 1970.
    struct Sent {
        let account: Int
        let at: Int64
        var answeredAt: Int64?
        var answers = 0
    }

    private struct Log {
        var sent: [Sent] = []
        var answered = 0
    }

    private final class LogBox: Sendable { let state = Mutex(Log()) }

    private let bot: ScriptedServer.Bot
    private let log: LogBox

    init(_ server: ScriptedServer) throws {
        let log = LogBox()
        self.log = log
        bot = server.addBot(jid: try JID("peer@localhost/bot")) { stanza, _ in
            guard let id = stanza["id"]?.string, id.hasPrefix("re-m"), let number = Int(id.dropFirst(4))
            else {
                return
            }
            let time = now
            log.state.withLock { log in
                guard log.sent.indices.contains(number) else { return }
                log.sent[number].answers += 1
                guard log.sent[number].answers == 1 else { return }
                log.sent[number].answeredAt = time
                log.answered += 1
            }
        }
    }

    /// Sends an account a message, named by its place among all.
    func send(to account: Int) throws {
        let number = log.state.withLock { log in
            log.sent.append(Sent(account: account, at: now))
            return log.sent.count - 1
        }
        bot.send(Message(to: try JID("u\(account)@localhost"), id: "m\(number)", body: "do").element)
    }

    var sent: [Sent] { log.state.withLock { $0.sent } }
    var sentCount: Int { log.state.withLock { $0.sent.count } }
    /// How many have been answered.
    var answeredCount: Int { log.state.withLock { $0.answered } }
}
