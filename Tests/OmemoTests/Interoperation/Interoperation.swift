import FoundationEssentials
import Handlers
@testable import Omemo
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// Prosody, devices of ours on it, and peers in Python.
final class Interoperation {
    let folder: TemporaryFolder
    let server: ProsodyServer
    let authority: String
    private var peers: [SlixmppPeer] = []
    private var accounts: [Account] = []

    static let ours = "romeo@localhost"
    static let theirs = "juliet@localhost"
    let password = "secret"

    init(_ options: ProsodyOptions = ProsodyOptions(), users: [String] = ["romeo", "juliet"]) throws {
        folder = try TemporaryFolder()
        let certificates = try TestCertificates(in: folder.path)
        let certificate = try certificates.makeServerCertificate(for: ["localhost"])
        authority = certificates.authorityFile
        server = try ProsodyServer(
            folder: folder.path + "/server", domain: "localhost",
            certificateFile: certificate.certificateFile,
            keyFile: certificate.keyFile, options: options)
        for user in users { try server.addAccount(user, password: password) }
        try server.start()
    }

    /// Tells what the peers could not do, also when a test ends early.
    func report() {
        for peer in peers {
            let strange = ((try? peer.log()) ?? []).filter {
                $0.kind == .failed || $0.kind == .init("unreadable")
            }
            for record in strange { Issue.record("a peer: \(record.reason ?? "")") }
        }
    }

    func close() async {
        for account in accounts { await account.close() }
        for peer in peers { peer.kill() }
        server.close()
    }

    // MARK: Peers

    enum Spoken: String, CaseIterable, Sendable { case legacy, omemo2, both }

    /// Starts a peer; ready once its keys are published.
    func peer(
        _ jid: String = theirs + "/py", _ spoken: Spoken, room: String? = nil, members: [String] = []
    ) throws -> SlixmppPeer {
        var prologue = "import os\nos.environ['OMEMO_VERSIONS'] = '\(spoken.rawValue)'\n"
        if let room {
            prologue += "os.environ['OMEMO_ROOM'] = '\(room)'\n"
            prologue += "os.environ['OMEMO_MEMBERS'] = '\(members.joined(separator: ","))'\n"
        }
        let name = jid.split { "@/".contains($0) }.joined(separator: "-")
        let peer = try SlixmppPeer(
            script: Array(prologue.utf8) + PackageResources.omemo_peer_py, folder: folder.path + "/" + name,
            jid: jid,
            password: password, host: server.host, port: server.startTLSPort, trustFile: authority)
        try peer.start(deadline: .now + .seconds(60))
        peers.append(peer)
        return peer
    }

    // MARK: Ours

    func device(_ jid: String = ours, store name: String = "ours") async throws -> Ours {
        let device = try Ours(
            jid, file: folder.path + "/" + name + ".db", host: server.host, port: server.startTLSPort,
            authority: authority, password: password)
        accounts.append(device.account)
        try await device.account.connect()
        try await device.account.omemo.start()
        return device
    }

    /// A device of ours.
    final class Ours: Sendable {
        let store: HandlerStore
        let account: Account

        init(_ jid: String, file: String, host: String, port: UInt16, authority: String, password: String)
            throws
        {
            var configuration = AccountConfiguration(
                jid: try JID(jid), password: password,
                server: .init(host: host, port: port, security: .startTLS))
            configuration.trust = .file(path: authority)
            store = try HandlerStore(
                path: file,
                registry: HandlerRegistry(
                    OmemoService.handlers + [World.Heard.self, World.Reported.self, Answered.self]),
                schemas: Account.schemas + OmemoService.schemas + [OfflineAccount.notes])
            account = try Account(configuration, store: store)
            try store.step { step in try account.omemo.listen(as: "test", World.Heard().durable, in: step) }
        }

        var notes: [String] {
            get throws {
                try store.step { step in
                    try step.all("SELECT text FROM note ORDER BY row") { (row) throws(HandlerError) in
                        row.text(0)
                    }
                }
            }
        }

        /// Once the own keys are on the server.
        func published() async throws {
            try await eventually("the own keys are published") {
                let waiting = try self.store.step { step in
                    try step.first("SELECT count(*) FROM omemo_publication WHERE listed = 0") {
                        (row) throws(HandlerError) in row.integer(0)
                    }
                }
                return waiting == 0
            }
        }

        func send(_ text: String, to jid: String) async throws {
            try await account.omemo.send(
                OmemoContent(body: text), to: JID(jid), then: World.Reported().durable)
        }

        /// Makes a room for members only, which shows their addresses, and enters it.
        func makeRoom(_ room: JID, members: [String]) async throws {
            try await account.perform { step in
                let enter = Element("x", namespace: "http://jabber.org/protocol/muc")
                try self.account.send(Presence(to: room.with(resource: "romeo"), children: [enter]), in: step)
            }
            func field(_ name: String, _ value: String) -> Element {
                Element(
                    "field", namespace: Namespaces.dataForms, attributes: ["var": name],
                    children: [Element("value", namespace: Namespaces.dataForms, text: value)])
            }
            let form = Element(
                "x", namespace: Namespaces.dataForms, attributes: ["type": "submit"],
                children: [
                    field("FORM_TYPE", "http://jabber.org/protocol/muc#roomconfig"),
                    field("muc#roomconfig_membersonly", "1"), field("muc#roomconfig_whois", "anyone"),
                ])
            let owner = "http://jabber.org/protocol/muc#owner"
            try await ask(Element("query", namespace: owner, children: [form]), room)
            let admin = "http://jabber.org/protocol/muc#admin"
            // The founder is the owner already. Prosody looks at the first item of a request only.
            for member in members.dropFirst() {
                let item = Element(
                    "item", namespace: admin, attributes: ["affiliation": "member", "jid": member])
                try await ask(Element("query", namespace: admin, children: [item]), room)
            }
            let known = try Dictionary(
                uniqueKeysWithValues: members.map { member in
                    let jid = try JID(member)
                    return (jid, jid.local)
                })
            try await account.perform { step in try self.account.omemo.setMembers(known, of: room, in: step) }
        }

        private func ask(_ payload: Element, _ room: JID) async throws {
            let id = StanzaID.random()
            try await account.send(
                IQ(type: .set, to: room, id: id, payload: payload), then: Answered(id: id).durable)
            try await eventually("the room answers") { try self.notes.contains("answer \(id) true") }
            try store.step { _ = try $0.execute("DELETE FROM note") }
        }

        /// Notes whether a request was granted.
        struct Answered: Handler {
            static let id = "test.answered"
            var id: String
            func run(_ call: borrowing Call<IQReply>) throws {
                var isGranted = false
                if case .result = call.outcome { isGranted = true }
                try call.step.execute("INSERT INTO note(text) VALUES (?)", "answer \(id) \(isGranted)")
            }
        }

        /// Once that many messages were heard.
        func heard(_ count: Int) async throws -> [String] {
            try await eventually("\(count) messages are heard") { try self.notes.count >= count }
            return try notes
        }
    }
}

/// Waits until a condition holds.
func eventually(
    _ what: String, within duration: Duration = .seconds(20), _ condition: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + duration
    while try await !condition() {
        try #require(ContinuousClock.now < deadline, "not in time: \(what)")
        try await Task.sleep(for: .milliseconds(20))
    }
}

extension SlixmppPeer {
    /// The bodies that it decrypted, oldest first.
    var received: [String] { get throws { try bodies("received") } }
    /// Why it could not decrypt messages.
    var unreadable: [String] {
        get throws { try log().filter { $0.kind == .init("unreadable") }.map { $0.reason ?? "" } }
    }

    private func bodies(_ kind: String) throws -> [String] {
        try log().filter { $0.kind == .init(kind) }.map { $0.body ?? "" }
    }
}
