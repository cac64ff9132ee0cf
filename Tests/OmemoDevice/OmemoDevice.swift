// A device that sends numbered messages and writes down what it hears, to be killed at any moment.
//
//     omemo-device STORE JID PASSWORD HOST PORT AUTHORITY PEER COUNT PAUSE
//
// PAUSE is the time between two messages in milliseconds. Prints "connected", "sent" once all COUNT messages are in the
// outbox, and "quiet" once the server has them all. Ends when its input does; with status 3 when another process took the
// stream over while it stood still, with 0 when it gave the stream up to one that asked. Only a worker (OMEMO_ROLE=worker)
// does that.
//
//     omemo-device altered STORE PORT AUTHORITY
//
// opens damaged stores instead; see `AlteredStore`.

import Glibc
import Handlers
import Omemo
import XMPPAccount
import XMPPCore
import XMPPModules

/// Writes down what was said.
struct Heard: Handler {
    static let id = "device.heard"
    func run(_ call: borrowing Call<OmemoReceived>) throws {
        let text =
            switch call.outcome {
            case .content(let content): content.body?.string ?? "-"
            case .failed(let error): "failed: \(error)"
            }
        try call.step.execute("INSERT INTO heard(text) VALUES (?)", text)
    }
}

/// Is called at its time.
struct Woken: Handler {
    static let id = "device.woken"
    func run(_ call: borrowing Call<TimerFired>) throws {}
}

/// Writes down what was not said to everybody.
struct Sent: Handler {
    static let id = "device.sent"
    func run(_ call: borrowing Call<OmemoSending>) throws {
        guard !call.isSent || !call.failures.isEmpty else { return }
        try call.step.execute(
            "INSERT INTO failed(text) VALUES (?)",
            call.failures.map { "\($0.failure.map { "\($0)" } ?? "")" }.joined())
    }
}

@main
enum OmemoDevice {
    static let tables = Schema(
        module: "device",
        migrations: [
            """
            CREATE TABLE heard(row INTEGER PRIMARY KEY, text TEXT NOT NULL);
            CREATE TABLE failed(text TEXT NOT NULL);
            CREATE TABLE progress(sent INTEGER NOT NULL);
            INSERT INTO progress VALUES (0);
            """
        ])

    static func main() async throws {
        let words = CommandLine.arguments
        if words.count == 5, words[1] == "altered", let port = UInt16(words[3]) {
            return await (try AlteredStore(path: words[2], port: port, authority: words[4])).run()
        }
        guard words.count == 10, let port = UInt16(words[5]), let count = Int64(words[8]),
            let pause = Int64(words[9])
        else { exit(64) }
        var configuration = AccountConfiguration(
            jid: try JID(words[2]), password: words[3],
            server: .init(host: words[4], port: port, security: .startTLS))
        configuration.trust = .file(path: words[6])
        configuration.modules = .standard + [OmemoModule()]
        if getenv("OMEMO_ROLE").map({ String(cString: $0) }) == "worker" { configuration.role = .worker }
        let peer = try JID(words[7])
        let store = try HandlerStore(
            path: words[1], registry: HandlerRegistry([Heard.self, Sent.self]),
            schemas: Account.schemas + OmemoService.schemas + [tables])
        let account = try Account(configuration, store: store)
        try await account.omemo.listen(as: "device", Heard().durable)
        Thread.detached {
            var byte: UInt8 = 0
            while read(0, &byte, 1) > 0 {}
            exit(0)
        }
        let events = account.events
        Task {
            for await event in events {
                switch event {
                case .handedOver: await leave(account, 0)
                case .stopped(let error) where error.code == .ownershipLost: await leave(account, 3)
                default: break
                }
            }
        }
        do {
            try await converse(with: peer, count, pause, account)
        } catch let error as AccountError where error.code == .ownershipHeld {
            // It stood still before it had the stream, and now another one has it.
            await leave(account, 3)
        } catch {
            complain(error)
            // If somebody else has the stream, the event says how that came.
            try await Task.sleep(for: .seconds(30))
            exit(1)
        }
    }

    private static func complain(_ error: any Error) {
        let line = Array("\(error)\n".utf8)
        _ = write(2, line, line.count)
    }

    private static func leave(_ account: Account, _ status: Int32) async {
        await account.close()
        exit(status)
    }

    private static func converse(with peer: JID, _ count: Int64, _ pause: Int64, _ account: Account)
        async throws
    {
        try await account.connect()
        try await account.omemo.start()
        say("connected")
        while try await sendNext(to: peer, upTo: count, account) {
            // Some time to be killed between any two.
            try await Task.sleep(for: .milliseconds(pause))
        }
        say("sent")
        while try await isBusy(account) { try await Task.sleep(for: .milliseconds(50)) }
        say("quiet")
        try await Task.sleep(for: .seconds(3600))
    }

    static func say(_ word: String) {
        // Written at once: the process may be killed the next moment.
        let line = Array((word + "\n").utf8)
        _ = write(1, line, line.count)
    }

    /// Sends one message; that it was sent commits with it.
    private static func sendNext(to peer: JID, upTo count: Int64, _ account: Account) async throws -> Bool {
        try await account.perform { step in
            let sent =
                try step.first("SELECT sent FROM progress") { (row) throws(HandlerError) in row.integer(0) }
                ?? 0
            guard sent < count else { return false }
            try account.omemo.send(
                OmemoContent(body: "a-\(sent + 1)"), to: peer, then: Sent().durable, in: step)
            try step.execute("UPDATE progress SET sent = sent + 1")
            return true
        }
    }

    private static func isBusy(_ account: Account) async throws -> Bool {
        try await account.perform { step in
            let rows = try step.first(
                "SELECT (SELECT count(*) FROM outbox WHERE kind = 0) + (SELECT count(*) FROM omemo_waiting)"
            ) { (row) throws(HandlerError) in row.integer(0) }
            return rows != 0
        }
    }
}

/// A thread that ends with the process.
private enum Thread {
    static func detached(_ body: @escaping @Sendable () -> Void) {
        let box = Unmanaged.passRetained(Box(body))
        var thread = pthread_t()
        pthread_create(
            &thread, nil,
            { pointer in
                Unmanaged<Box>.fromOpaque(pointer!).takeRetainedValue().body()
                return nil
            }, box.toOpaque())
    }

    private final class Box: Sendable {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }
}
