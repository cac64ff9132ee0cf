import Handlers
import Omemo
import World
import XMPPAccount
import XMPPCore

/// The encrypted messages of a world's application.
enum SecretApp {
    /// Called for each message that the peer has read.
    nonisolated(unsafe) static var reportRead: (OmemoReceived) -> Void = { _ in }

    /// Sends a message to the peer. One handler waits until it is encrypted. For every other message, a second handler waits until
    /// it is acknowledged.
    static func send(from account: Account, in step: borrowing Step) throws -> Int {
        let n = try WorldApp.next(in: step)
        let text = "s-\(n)-\(StanzaID.random())"
        try WorldApp.bound(n, "secret", text, in: step)
        var acknowledged: Durable<StanzaAcknowledged>?
        if n % 2 == 0 {
            acknowledged = try WorldApp.Acknowledged(n: n + 1).durable
            try WorldApp.bound(n + 1, "message", in: step)
        }
        try account.omemo.send(
            OmemoContent(body: text), to: WorldServer.peer, acknowledged: acknowledged,
            then: Sealed(n: n, awaited: acknowledged == nil ? nil : n + 1).durable, in: step)
        return n
    }

    /// Called when a message was encrypted, or cannot be encrypted.
    struct Sealed: Handler {
        static let id = "world.sealed"
        var n: Int
        /// The number of the entry that waits for the acknowledgement.
        var awaited: Int?

        func run(_ call: borrowing Call<OmemoSending>) throws {
            try WorldApp.ended(n, call.isSent ? "sealed" : "given up", in: call.step)
            if let awaited, !call.isSent { try WorldApp.ended(awaited, "given up", in: call.step) }
        }
    }

    /// Called when a message was decrypted, or cannot be decrypted.
    struct Unsealed: Handler {
        static let id = "world.unsealed"

        func run(_ call: borrowing Call<OmemoReceived>) throws {
            let id = "\(call.message.id ?? "")"
            switch call.outcome {
            case .content(let content):
                let number = content.body.flatMap { Int("\($0)") }
                let own = "p-\(number ?? 0)"
                try WorldApp.received(
                    own == id ? id : "\(own) came as \(id)", number, by: call.account, in: call.step)
                if let number, number % 2 == 0 { _ = try send(from: call.account, in: call.step) }
            case .failed(let error):
                guard call.message.from?.bare == WorldServer.peer.bare, id.hasPrefix("p-") else { return }
                try WorldApp.received(
                    "\(id) cannot be read: \(error.code)", nil, by: call.account, in: call.step)
            }
        }
    }

    /// Called when a message reached the peer.
    struct ReadByPeer: Handler {
        static let id = "world.read-by-peer"
        func run(_ call: borrowing Call<OmemoReceived>) throws { SecretApp.reportRead(call.context) }
    }
}
