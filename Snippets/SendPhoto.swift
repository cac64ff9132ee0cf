// Uploads a photo and sends its link. Kill it at any moment and start it again: the photo arrives, and once.
//
//     SendPhoto JID PASSWORD FILE RECIPIENT
import Glibc
import HandlerMacrosSupport
import Handlers
import Upload
import XMPPAccount
import XMPPCore
import XMPPModules

struct Album {
    static let schema = Schema(
        module: "album",
        migrations: ["CREATE TABLE photo(path TEXT PRIMARY KEY, link TEXT, failure TEXT)"])

    // snippet.ended
    /// Called once, in the process that is there when the upload ends; the message is sent in the same step.
    @Handler("album.sent")
    static func sent(_ call: borrowing Call<UploadEnded>) throws {
        switch call.outcome {
        case .uploaded(let file):
            try call.step.execute(
                "UPDATE photo SET link = ? WHERE path = ?", file.link.string, call.file.path)
        case .failed(let error):
            try call.step.execute("UPDATE photo SET failure = ? WHERE path = ?", "\(error)", call.file.path)
        }
    }
    // snippet.end
}

do {
    let words = CommandLine.arguments
    guard words.count == 5 else { exit(64) }
    let (path, recipient) = (words[3], try JID(words[4]))
    var configuration = AccountConfiguration(jid: try JID(words[1]), password: words[2])
    configuration.modules = .bot + [UploadModule()]
    let store = try HandlerStore(
        path: "album.db", registry: .discovered(),
        schemas: Account.schemas + UploadModule.schemas + [Album.schema])
    let account = try Account(configuration, store: store)
    let events = account.events(of: UploadEvent.self)
    try await account.connect()
    try await account.perform { step in
        // Started once, however often this program is started.
        guard try step.execute("INSERT OR IGNORE INTO photo(path) VALUES (?)", path) == 1 else { return }
        let photo = UploadFile(path, type: "image/jpeg")
        try account.uploads.send(photo, to: recipient, then: Album.sent(), in: step)
    }
    for await event in events {
        switch event.change {
        case .progress(let sent, let size): print("\(sent) of \(size) bytes")
        case .ended(let outcome): print(outcome)
        }
        if case .ended = event.change { break }
    }
    try await account.caughtUp()
    await account.close()
} catch {
    print("SendPhoto: \(error)")
    exit(1)
}
