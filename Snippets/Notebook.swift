// Keeps what others write as its authors want it: corrected, or not at all. NOTEBOOK_JID and NOTEBOOK_PASSWORD name its account.
import Foundation
import HandlerMacrosSupport
import XMPPAccount
import XMPPCore
import XMPPModules

enum Notebook {
    @Handler("notebook.received")
    static func received(_ call: borrowing Call<MessageReceived>) throws {
        let message = call.message
        guard !call.isOutgoing, !call.isHistory, message.type == .chat, let author = message.author()?.jid
        else { return }
        if let id = message.correction?.id ?? message.retraction?.id {
            try change(id, of: author, by: message, in: call.step)
        } else if let id = message.id, let text = message.body(understanding: [Namespaces.replies]) {
            try call.step.execute(
                "INSERT OR REPLACE INTO note VALUES (?, ?, ?, ?)", author.description, id,
                message.element.serialized(), text)
            try call.account.send(answer(to: message), in: call.step)
        }
    }

    /// Only the author of a note may change it.
    static func change(_ id: ForeignText, of author: JID, by message: Message, in step: borrowing Step) throws
    {
        let key = "author = ? AND id = ?"
        let xml = try step.first("SELECT xml FROM note WHERE \(key)", author.description, id) { $0.text(0) }
        guard let xml else { return }
        let original = try Message(element: Element(parsing: xml))
        // snippet.change
        if message.retracts(original) {
            try step.execute("DELETE FROM note WHERE \(key)", author.description, id)
        } else if message.corrects(original) {
            let text = message.body(understanding: [Namespaces.replies]) ?? ""
            try step.execute("UPDATE note SET text = ? WHERE \(key)", text, author.description, id)
        }
        // snippet.end
    }

    /// A reaction, and that it was seen, if somebody wants to know.
    // snippet.answer
    static func answer(to message: Message) -> Message {
        var children = [ProcessingHint.store.element]
        if let reactions = MessageReactions(["📝"], to: message) { children.append(reactions.element) }
        if message.displayMarker == .markable, let seen = DisplayMarker(upTo: message) {
            children.append(seen.element)
        }
        return Message(to: message.from, id: StanzaID.random(), children: children)
    }
    // snippet.end
}

do {
    let environment = ProcessInfo.processInfo.environment
    let jid = try JID(environment["NOTEBOOK_JID"] ?? "notebook@localhost")
    var configuration = AccountConfiguration(jid: jid, password: environment["NOTEBOOK_PASSWORD"] ?? "")
    configuration.modules = [
        DiscoModule(features: [
            Namespaces.correction, Namespaces.retraction, Namespaces.reactions, Namespaces.markers,
        ]),
        ChatModule(),
    ]
    if let port = environment["NOTEBOOK_PORT"].flatMap(UInt16.init) {  // of a server on this machine
        configuration.server = .init(host: "127.0.0.1", port: port, security: .startTLS)
    }
    let notes = Schema(
        module: "notebook",
        migrations: [
            "CREATE TABLE note(author TEXT, id TEXT, xml TEXT, text TEXT, PRIMARY KEY(author, id))"
        ])
    let store = try HandlerStore(
        path: "notebook.db", registry: .discovered(), schemas: Account.schemas + [notes])
    try await withAccount(configuration, store: store) { account in
        let events = account.events
        try await account.listen(as: "notebook", Notebook.received())
        try await account.connect(retrying: true)
        for await event in events { if case .stopped(let error) = event { throw error } }
    }
} catch {
    print("Notebook: \(error)")
    exit(1)
}
