import Handlers
import XMPPAccount
import XMPPCore
import XMPPModules

/// `pushwake send TO TEXT`: sends a message and waits until the server or the recipient has it.
struct SendCommand {
    private let client: Client
    private let recipient: JID
    private let text: String
    private let waitsForReceipt: Bool
    private let patience: Int

    init(_ words: [String]) throws {
        let arguments = try Arguments(words, of: "send", wordCount: 2)
        guard arguments.words.count == 2 else {
            throw UsageError("say to whom and what: pushwake send USER@DOMAIN 'the text' --jid …")
        }
        recipient = try ConnectionOptions.address(arguments.words[0], "the recipient")
        ConnectionOptions.doubt(recipient)
        text = try Self.sendable(arguments.words[1])
        waitsForReceipt = arguments.has("--receipt")
        patience = try arguments.number("--wait", in: 1...86400, default: 30)
        client = try Client(arguments)
    }

    /// - Throws: ``UsageError`` for a text that would arrive empty or changed.
    private static func sendable(_ text: String) throws -> String {
        guard !text.isEmpty else { throw UsageError("the text is empty, so there is nothing to send") }
        let forbidden = text.unicodeScalars.first {
            $0.value < 0x20 && !["\t", "\n", "\r"].contains($0) || [0xFFFE, 0xFFFF].contains($0.value)
        }
        if let forbidden {
            let number = String(forbidden.value, radix: 16, uppercase: true)
            throw UsageError(
                "XMPP cannot carry the character U+\(String(repeating: "0", count: 4 - number.count))\(number); leave it out of the text"
            )
        }
        return text
    }

    func run() async throws -> Int32 { try await client.finishing { try await send() } }

    private func send() async throws -> Int32 {
        let account = client.account
        let changes = account.events(of: Delivery.self)
        // The message is stored before the connection is opened. After a kill, the next process with this store sends it.
        let id = try await account.perform {
            try account.chat.send(Message(to: recipient, body: text), in: $0)
        }
        let deadline = Task {
            try await Task.sleep(for: .seconds(patience))
            await account.close()
        }
        defer { deadline.cancel() }
        do {
            try await client.connect()
        } catch let error as AccountError where error.code == .ownershipHeld {
            return try await waitForOwner(id)
        } catch let error as AccountError where error.code == .closed {
            throw CommandFailure(
                "there was no connection within \(patience) s; the message is stored and goes out with the next one"
            )
        } catch {
            throw CommandFailure("\(error); the message is stored and goes out with the next connection")
        }
        for await delivery in changes where delivery.id == id {
            if let status = try await end(with: delivery) { return status }
        }
        throw unconfirmed
    }

    /// Waits while another process owns the stream and sends the message.
    ///
    /// That process notifies only its own listeners, so this one reads the delivery's row repeatedly.
    private func waitForOwner(_ id: String) async throws -> Int32 {
        let account = client.account
        do {
            while true {
                let delivery = try await account.perform { step in
                    try account.chat.delivery(of: id, in: step)
                }
                if let delivery, let status = try await end(with: delivery) { return status }
                try await Task.sleep(for: .milliseconds(50))
            }
        } catch let error as AccountError where error.code == .closed { throw unconfirmed }
    }

    /// - Returns: The exit status once the awaited confirmation has arrived; nil before.
    private func end(with delivery: Delivery) async throws -> Int32? {
        if let failure = delivery.failure {
            throw CommandFailure("the message did not arrive: \(Self.sentence(failure))")
        }
        guard delivery.deliveredAt != nil || (delivery.acknowledgedAt != nil && !waitsForReceipt) else {
            return nil
        }
        Terminal.say(delivery.deliveredAt == nil ? "the server has it" : "\(recipient) has it")
        return 0
    }

    private var unconfirmed: CommandFailure {
        CommandFailure(
            waitsForReceipt
                ? "nobody confirmed the message within \(patience) s; it may have arrived all the same"
                : "the server did not confirm the message within \(patience) s; it is stored and goes out with the next connection"
        )
    }

    private static func sentence(_ failure: Delivery.Failure) -> String {
        switch failure {
        case .refused(.serviceUnavailable):
            "there is no such user, or nobody who takes it (service-unavailable); if it is a room, speak there with 'pushwake join'"
        case .refused(.notAcceptable):
            "the recipient does not take it (not-acceptable); to an occupant of a room one writes from inside, with 'pushwake join', and to who is blocked not at all"
        case .refused(.remoteServerNotFound): "there is no such server (remote-server-not-found)"
        case .refused(let condition): "it was sent back (\(condition.rawValue))"
        case .timedOut: "nobody confirmed it in time"
        case .loggedOut: "the account was logged out before the server had it"
        }
    }
}
