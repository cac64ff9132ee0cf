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
        /// Answers that any machine sends for the account.
        var secondAnswers = 0
        var isAnsweredTwice: Bool
    }

    private struct Log {
        var sent: [Sent] = []
        var answered = 0
        /// How many second answers are missing.
        var unfinished = 0
    }

    private final class LogBox: Sendable { let state = Mutex(Log()) }

    private let bot: ScriptedServer.Bot
    private let log: LogBox

    init(_ server: ScriptedServer) throws {
        let log = LogBox()
        self.log = log
        bot = server.addBot(jid: try JID("peer@localhost/bot")) { stanza, _ in
            guard let words = stanza["id"]?.string.split(separator: "-m"), words.count == 2,
                let number = Int(words[1])
            else { return }
            let time = now
            log.state.withLock { log in
                guard log.sent.indices.contains(number) else { return }
                if words[0] == "fin" {
                    log.sent[number].secondAnswers += 1
                    if log.sent[number].secondAnswers == 1 { log.unfinished -= 1 }
                    return
                }
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
            let number = log.sent.count
            let isAnsweredTwice = number.isMultiple(of: 5) && account < Machine.outsideCount
            log.sent.append(Sent(account: account, at: now, isAnsweredTwice: isAnsweredTwice))
            if isAnsweredTwice { log.unfinished += 1 }
            return number
        }
        bot.send(Message(to: try JID("u\(account)@localhost"), id: "m\(number)", body: "do").element)
    }

    var sent: [Sent] { log.state.withLock { $0.sent } }
    var sentCount: Int { log.state.withLock { $0.sent.count } }
    /// How many have been answered.
    var answeredCount: Int { log.state.withLock { $0.answered } }
    /// How many second answers are missing.
    var unfinishedCount: Int { log.state.withLock { $0.unfinished } }
}
