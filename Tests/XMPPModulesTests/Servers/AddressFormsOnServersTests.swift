import AccountTestSupport
import TestServers
import TestSupport
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules

extension RealServerTests {
    /// Addresses that real servers prepare by stringprep.
    @Suite struct AddressFormsOnServersTests {
        /// An account's name as a program writes it and as the servers do.
        private func names(_ home: RealHome, _ text: String, _ served: String) throws -> (
            asked: JID, served: JID
        ) {
            let number = home.scene.servers.freshNumber()
            return (
                try JID(local: "\(text)\(number)", domain: RealServers.domain),
                try JID(local: "\(served)\(number)", domain: RealServers.domain)
            )
        }

        @Test(
            "X30 an account that Prosody calls otherwise logs in, gets its copies, its archive and its roster",
            arguments: [true, false])
        func own(isExtensible: Bool) async throws {
            try await withModulesHome(.prosody) { home in
                let (asked, served) = try names(home, "νίκος", "νίκοσ")
                try home.server.addAccount(served.local?.string ?? "", password: RealServers.password)
                let own = try RealHome(home.scene, jid: asked) { _ in home.store }
                let account = try own.account {
                    $0.modules = .standard
                    $0.usesExtensibleLogin = isExtensible
                }
                try await account.connect()
                #expect(account.address == served)
                try await account.listen()
                _ = try await account.ping(nil)
                _ = try await account.ping(asked)
                // Another client of the account, which the server knows by its own name for it.
                let peer = try home.scene.peer(PackageResources.messenger_peer_py, as: served)
                defer { peer.close() }
                let contact = try home.scene.addUser()
                try peer.tell("send", ["to": contact, "type": "chat", "id": "c1", "body": "copied"])
                try await eventually("the copy of what the other client sent") {
                    try account.store.notes("message").contains("c1: copied")
                }
                _ = try await account.request(.roster.set(RosterItem(JID("groß@localhost"), name: "Groß")))
                try await eventually("the contact as the server has it") {
                    try account.store.read { try account.roster.items(in: $0).map(\.jid.description) }
                        == ["gross@localhost"]
                }
            }
        }

        @Test(
            "X30 a contact and a room that the server calls otherwise answer, and are joined",
            arguments: ServerKind.allCases)
        func others(kind: ServerKind) async throws {
            try await withModulesHome(kind) { home in
                let (asked, served) = try names(home, "groß", "gross")
                try home.server.addAccount(served.local?.string ?? "", password: RealServers.password)
                let peer = try home.scene.peer(PackageResources.messenger_peer_py, as: served)
                defer { peer.close() }
                let account = try await home.withRooms()
                _ = try await account.ping(asked.with(resource: "peer"))
                let number = home.scene.servers.freshNumber()
                let room = try JID(local: "straße\(number)", domain: "conference.\(RealServers.domain)")
                let end = try await account.rooms.join(room, as: "Alice")
                #expect(end.outcome == .joined)
                try await account.perform { _ = try account.rooms.send("good day", to: room, in: $0) }
                try await eventually("the reflection") {
                    try account.store.number("SELECT count(*) FROM room_message") == 0
                }
                let known = try account.store.read { try account.rooms.room(room, in: $0) }
                #expect(known?.jid.local == ForeignText("strasse\(number)"))
                #expect(try await account.rooms.check(room) == .joined)
            }
        }
    }
}
