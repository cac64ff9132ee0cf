// A program that uploads one file, to be killed at any moment and started again.
//
//     upload-program STORE JID PASSWORD HOST PORT AUTHORITY FILE RECIPIENT TASK
//
// TASK is "send" to send the link, or "encrypt" to encrypt the file and send its link in the clear, which only a test may do.
// The task is started once, by whichever process comes first. Prints "done" and the peak of its memory in KiB, and ends once the
// upload is over and the server has the message.

import Glibc
import Handlers
import Upload
import XMPPAccount
import XMPPCore
import XMPPModules

/// Notes how the upload ended.
struct Ended: Handler {
    static let id = "program.ended"
    var recipient: JID?

    func run(_ call: borrowing Call<UploadEnded>) throws {
        switch call.outcome {
        case .uploaded(let file):
            try call.step.execute("INSERT INTO heard(text) VALUES (?)", "uploaded \(file.link)")
            if let recipient { try call.account.send(Message(to: recipient, body: file.link), in: call.step) }
        case .failed(let error):
            try call.step.execute("INSERT INTO heard(text) VALUES (?)", "failed \(error)")
        }
    }
}

@main
enum UploadProgram {
    static let tables = Schema(
        module: "program",
        migrations: [
            """
            CREATE TABLE heard(row INTEGER PRIMARY KEY, text TEXT NOT NULL);
            CREATE TABLE begun(row INTEGER PRIMARY KEY);
            """
        ])

    static func main() async throws {
        let words = CommandLine.arguments
        guard words.count == 10, let port = UInt16(words[5]) else { exit(64) }
        var configuration = AccountConfiguration(
            jid: try JID(words[2]), password: words[3],
            server: .init(host: words[4], port: port, security: .startTLS))
        configuration.trust = .file(path: words[6])
        configuration.modules = [UploadModule(privateHosts: ["localhost"])]
        if getenv("UPLOAD_LOG") != nil {
            configuration.log = AccountLog(level: .verbose) { entry in say("\(entry)\n", to: 2) }
        }
        let store = try HandlerStore(
            path: words[1], registry: HandlerRegistry([Ended.self]),
            schemas: Account.schemas + UploadModule.schemas + [tables])
        let account = try Account(configuration, store: store)
        try await account.connect()
        try await start(words[9], file: words[7], recipient: try JID(words[8]), account)
        while try await !isOver(account) { try await Task.sleep(for: .milliseconds(10)) }
        // Written at once: the process may be killed the next moment.
        say("done \(peak)\n", to: 1)
    }

    /// The most physical memory so far, in KiB. Not by getrusage: its figure starts with that of the parent.
    private static var peak: Int {
        guard let file = fopen("/proc/self/status", "r") else { return -1 }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 256)
        while fgets(&line, Int32(line.count), file) != nil {
            let words = String(decoding: line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
                .split { $0 == " " || $0 == "\t" }
            if words.first == "VmHWM:", words.count > 1 { return Int(words[1]) ?? -1 }
        }
        return -1
    }

    private static func say(_ line: String, to descriptor: Int32) {
        let bytes = Array(line.utf8)
        _ = write(descriptor, bytes, bytes.count)
    }

    private static func start(
        _ task: String, file: String, recipient: JID, _ account: Account
    ) async throws {
        try await account.perform { step in
            let begun = try step.first("SELECT count(*) FROM begun") { (row) throws(HandlerError) in
                row.integer(0)
            }
            guard begun == 0 else { return }
            try step.execute("INSERT INTO begun DEFAULT VALUES")
            let file = UploadFile(file)
            if task == "send" {
                try account.uploads.send(file, to: recipient, then: Ended().durable, in: step)
            } else {
                try account.uploads.upload(
                    file, encrypting: true, then: Ended(recipient: recipient).durable, in: step)
            }
        }
    }

    /// The handler has run, and what it sent has been acknowledged.
    private static func isOver(_ account: Account) async throws -> Bool {
        try await account.perform { step in
            try step.first("SELECT (SELECT count(*) FROM heard) > 0 AND (SELECT count(*) FROM outbox) = 0") {
                (row) throws(HandlerError) in row.integer(0)
            } == 1
        }
    }
}
