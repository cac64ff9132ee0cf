import XMPPCore
package import XMPPTestKit

/// A server with many messages for a client that was away, in the account's archive and in rooms.
package final class StormServer {
    package let server: ScriptedServer
    package let authorityFile: String
    package static let password = "correct horse battery staple"
    package static let account = "alice@localhost"
    package static let peer = "bob@localhost/peer"

    /// The number of messages in each place. The place `direct` is the account's archive.
    package let counts: [String: Int]

    package init(folder: String, messages: Int, rooms: Int, roomMessages: Int) throws {
        let certificates = try TestCertificates(in: folder)
        server = try ScriptedServer(
            ScriptedServer.Configuration(
                accounts: ["alice": Self.password],
                certificate: try certificates.makeServerCertificate(for: ["localhost"])))
        try server.start()
        authorityFile = certificates.authorityFile
        server.addBot(jid: try JID(Self.peer), handler: Self.confirm)
        let account = try JID(Self.account)
        let peer = try JID(Self.peer)
        ArchiveService(count: messages) { number in
            Message(to: account, from: peer, id: "direct-\(number)", body: Self.body(number)).element
        }.serve(at: account, on: server)
        var counts = ["direct": messages]
        for room in 0..<rooms {
            // The first rooms get the remainder.
            let count = roomMessages / rooms + (room < roomMessages % rooms ? 1 : 0)
            counts["room\(room)"] = count
            try Self.addRoom(room, count, to: server)
        }
        self.counts = counts
    }

    /// Confirms that the recipient's client has received a message (XEP-0184).
    private static func confirm(_ stanza: Element, _ bot: ScriptedServer.Bot) {
        guard let message = try? Message(element: stanza), message.requestsReceipt, let id = message.id else {
            return
        }
        let receipt = Element("received", namespace: Namespaces.receipts, attributes: ["id": id])
        bot.send(Message(to: message.from, children: [receipt]).element)
    }

    /// About as long as a typical message.
    private static func body(_ number: Int) -> String {
        "message \(number): what people say to each other while somebody is away, and a little more"
    }

    /// Adds an open room with an archive.
    private static func addRoom(_ number: Int, _ count: Int, to server: ScriptedServer) throws {
        let room = try JID("room\(number)@rooms.localhost")
        let other = try JID("\(room)/bob")
        let archive = ArchiveService(count: count) { message in
            Message(
                to: nil, from: other, type: .groupchat, id: "room\(number)-\(message)", body: body(message)
            )
            .element
        }
        server.addService(at: room) { [weak server] stanza, service in
            guard stanza.name == "presence" else { return archive.handle(stanza, service) }
            guard stanza["type"] == nil, let to = stanza["to"].flatMap({ try? JID($0) }) else { return }
            server?.send(entry(to: stanza["from"], id: stanza["id"]), from: to)
            server?.send(subject(to: stanza["from"]), from: room)
        }
    }

    /// The presence that confirms the entry into a room (XEP-0045 section 7.2.2).
    private static func entry(to recipient: ForeignText?, id: ForeignText?) -> Element {
        let item = Element(
            "item", namespace: Namespaces.mucUser,
            attributes: ["affiliation": "member", "role": "participant"])
        let status = Element("status", namespace: Namespaces.mucUser, attributes: ["code": "110"])
        return Element(
            "presence", namespace: Namespaces.client, attributes: ["to": recipient, "id": id],
            children: [Element("x", namespace: Namespaces.mucUser, children: [item, status])])
    }

    /// The subject, which is the last stanza that a room sends to a new occupant.
    private static func subject(to recipient: ForeignText?) -> Element {
        Element(
            "message", namespace: Namespaces.client, attributes: ["to": recipient, "type": "groupchat"],
            children: [Element("subject", namespace: Namespaces.client, text: "the storm")])
    }
}
