import Handlers
import Platform
import XMPPTransport

/// A question of a process to the owner of an account.
package enum OwnerQuestion: UInt8, Sendable {
    /// A worker asks whether it is needed.
    case isAlive = 0x61
    /// The main program asks for the stream.
    case handOver = 0x68

    /// Returns the question as it is sent: its byte, and the number of the account.
    func bytes(_ account: Int64) -> [UInt8] {
        [rawValue] + withUnsafeBytes(of: account.littleEndian) { Array($0) }
    }

    /// - Returns: Nil for anything but one whole question.
    static func read(from socket: StreamSocket) -> (OwnerQuestion, account: Int64)? {
        let bytes = socket.receive(atMost: 10)
        guard bytes.count == 9, let question = OwnerQuestion(rawValue: bytes[0]) else { return nil }
        return (question, bytes.dropFirst().reversed().reduce(0) { $0 << 8 | Int64($1) })
    }
}

/// The answer of the owner.
package enum OwnerAnswer: UInt8, Sendable {
    /// The owner goes on.
    case keeping = 0x6b
    /// The owner closes its stream, keeps the session and frees its lock.
    case releasing = 0x72
}

/// The Unix socket beside the database on which a store answers for the accounts that it owns. A process that is frozen does not
/// answer.
///
/// Each store has its own, which is found by its slot: `<database>-owner-<slot>.sock`.
enum OwnerSocket {
    static func path(ofSlot slot: Int, database: String) -> String { "\(database)-owner-\(slot).sock" }

    /// Starts to listen, in place of an earlier store in the slot.
    ///
    /// - Throws: ``AccountError`` `invalidConfiguration` when the socket cannot be made, or something else stands there.
    static func listen(path: String, beside database: String) throws(AccountError) -> StreamSocket {
        do {
            try PrivateFile.checkName(path, kind: .socket, beside: database)
        } catch { throw AccountError(.invalidConfiguration, error.message, cause: error) }
        do throws(Errno) {
            return try StreamSocket.listening(atPath: path, backlog: 32)
        } catch {
            throw AccountError(
                .invalidConfiguration,
                "the socket \(path) cannot be made (\(error)); check the database's folder")
        }
    }

    /// Asks the owner of an account.
    ///
    /// - Returns: The answer, or nil if the owner is silent, no process listens, or the one that does is not the owner.
    static func ask(
        _ question: OwnerQuestion, account: Int64, path: String, beside database: String,
        until deadline: Deadline, on loop: EventLoop
    ) async -> OwnerAnswer? {
        // Connecting follows links, and somebody else may listen: who answers must be this user.
        guard (try? PrivateFile.checkName(path, kind: .socket, beside: database)) != nil,
            let owner = await connect(path, until: deadline, on: loop),
            owner.isPeerOwnUser, owner.send(question.bytes(account))
        else { return nil }
        var entries = [PollEntry(owner.descriptor)]
        guard await loop.wait(&entries, until: deadline) == .ready else { return nil }
        return owner.receive(atMost: 1).first.flatMap(OwnerAnswer.init)
    }

    /// Connects to the owner; the backlog of an owner that accepts no connections is full after a while.
    private static func connect(
        _ path: String, until deadline: Deadline, on loop: EventLoop
    ) async -> StreamSocket? {
        while true {
            do throws(Errno) {
                return try StreamSocket.connected(toPath: path)
            } catch {
                guard error == .wouldBlock, !loop.isPassed(deadline) else { return nil }
            }
            await loop.sleep(.milliseconds(1))
        }
    }
}
