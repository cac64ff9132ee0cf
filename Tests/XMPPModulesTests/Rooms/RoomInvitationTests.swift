import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
@testable import XMPPModules
import XMPPTestKit

/// Invitations into rooms, both kinds, and what owners and moderators ask.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct RoomInvitationTests {
    private static let user = "http://jabber.org/protocol/muc#user"
    private let hall = try! JID("hall@conference.localhost")  // A constant that is an address.

    private func mediated(from sender: String, _ word: String = "invite") -> Element {
        let invite = Element(
            word, namespace: Namespaces.mucUser, attributes: ["from": "romeo@localhost/orchard"],
            children: [
                Element("reason", namespace: Namespaces.mucUser, text: "Come"),
                Element("continue", namespace: Namespaces.mucUser, attributes: ["thread": "t1"]),
            ])
        let x = Element(
            "x", namespace: Namespaces.mucUser,
            children: [invite, Element("password", namespace: Namespaces.mucUser, text: "cauldron")])
        var message = Message(to: AccountRig.alice, type: .normal, children: [x]).element
        message["from"] = ForeignText(sender)
        return message
    }

    private func direct(_ room: String?, from sender: String = "romeo@localhost/orchard") -> Element {
        let x = Element(
            "x", namespace: Namespaces.conference,
            attributes: ["jid": room, "reason": "Come", "password": "cauldron", "thread": "t1"])
        var message = Message(to: AccountRig.alice, type: .normal, children: [x]).element
        message["from"] = ForeignText(sender)
        return message
    }

    @Test(
        "X14 an invitation of either kind is stored and reported, once for each room",
        arguments: [false, true])
    func invited(isDirect: Bool) async throws {
        try await withModulesRig { rig in
            let account = try await rig.withRooms()
            let events = RoomEventReader(account)
            let stanza =
                isDirect ? direct(hall.description) : mediated(from: hall.description)
            rig.server.send(stanza, to: .jid(AccountRig.alice))
            rig.server.send(stanza, to: .jid(AccountRig.alice))
            let change = await events.next()
            guard case .invited(let invitation) = change else {
                Issue.record("\(String(describing: change))")
                return
            }
            #expect(invitation.room == hall)
            #expect(invitation.by == (try JID("romeo@localhost/orchard")))
            #expect(invitation.reason == "Come" && invitation.password == "cauldron")
            #expect(invitation.thread == "t1" && invitation.isDirect == isDirect)
            try await account.caughtUp()
            #expect(try account.invitations().map(\.room) == [hall])
            #expect(try account.store.notes("message") == [])
            // Declined: through the room, or not at all.
            let declined = try await account.perform {
                try account.rooms.decline(hall, reason: "Busy", in: $0)
            }
            #expect(declined)
            #expect(try account.invitations() == [])
            try await account.caughtUp()
            let sent = rig.server.log.entries.filter { $0.event == .received && $0.name == "message" }
            #expect(sent.count == (isDirect ? 0 : 1))
            if let xml = sent.first?.xml {
                #expect(
                    xml.contains(
                        "<x xmlns='\(Self.user)'><decline to='romeo@localhost/orchard'><reason>Busy</reason>")
                )
            }
        }
    }

    @Test("X14 invitations that no room sent, or into no room, are refused and change nothing")
    func forged() async throws {
        try await withModulesRig { rig in
            let account = try await rig.withRooms()
            let events = EventReader(account)
            let forged = [
                mediated(from: "romeo@localhost/orchard"), mediated(from: "hall@conference.localhost/Romeo"),
                mediated(from: "conference.localhost"), mediated(from: "alice@localhost"),
                direct("hall@conference.localhost/Romeo"), direct("conference.localhost"), direct("@"),
                mediated(from: hall.description, "decline"),
            ]
            for stanza in forged {
                rig.server.send(stanza, to: .jid(AccountRig.alice))
                await events.until("ignored")
            }
            // A message of ours that came back, with what was in it.
            for kind in ["error", "groupchat"] {
                var bounce = direct(hall.description)
                bounce["type"] = ForeignText(kind)
                rig.server.send(bounce, to: .jid(AccountRig.alice))
            }
            try await account.caughtUp()
            #expect(try account.invitations() == [])
        }
    }

    @Test("X14 who is in the room already is not invited; joining takes the invitation")
    func alreadyIn() async throws {
        try await withModulesRig { rig in
            _ = ScriptedRoom(rig)
            let account = try await rig.withRooms()
            rig.server.send(direct(ScriptedRoom.jid.description), to: .jid(AccountRig.alice))
            try await eventually { try account.invitations().count == 1 }
            _ = try await account.rooms.join(ScriptedRoom.jid, as: "Alice")
            #expect(try account.invitations() == [])
            rig.server.send(direct(ScriptedRoom.jid.description), to: .jid(AccountRig.alice))
            try await account.caughtUp()
            #expect(try account.invitations() == [])
        }
    }

    @Test("X14 of very many invitations the newest hundred stay")
    func flood() async throws {
        try await withModulesRig { rig in
            let account = try await rig.withRooms()
            // Most arrive in one step while another one has the store.
            try await account.perform { _ in
                for number in 1...130 {
                    rig.server.send(direct("r\(number)@conference.localhost"), to: .jid(AccountRig.alice))
                }
            }
            try await account.caughtUp()
            let left = try account.invitations().map(\.room.description)
            #expect(left == (31...130).map { "r\($0)@conference.localhost" })
        }
    }

    @Test("X14 what is sent to invite, through the room and directly; a decline is reported")
    func invites() async throws {
        try await withModulesRig { rig in
            let room = ScriptedRoom(rig)
            let account = try await rig.withRooms()
            try await account.wantRoom(password: "cauldron")
            try await eventually { try account.room?.state == .joined }
            let events = RoomEventReader(account)
            let romeo = try JID("romeo@localhost")
            try await account.perform { step in
                try account.rooms.invite(romeo, into: ScriptedRoom.jid, reason: "Come", in: step)
                try account.rooms.invite(
                    romeo, into: ScriptedRoom.jid, directly: true, reason: "Come", in: step)
            }
            try await account.caughtUp()
            #expect(
                room.received("message") == [
                    "<message type='normal' to='council@conference.localhost'><x xmlns='\(Self.user)'>"
                        + "<invite to='romeo@localhost'><reason>Come</reason></invite></x></message>"
                ])
            let direct = try #require(
                rig.server.log.entries.last { $0.event == .received && $0.name == "message" }?.xml)
            #expect(direct.contains("to='romeo@localhost'"))
            #expect(
                direct.contains(
                    "<x xmlns='jabber:x:conference' jid='council@conference.localhost' password='cauldron' reason='Come'/>"
                ))
            rig.server.send(
                mediated(from: ScriptedRoom.jid.description, "decline"), to: .jid(AccountRig.alice))
            await events.until(.declined(by: try JID("romeo@localhost/orchard"), reason: "Come"))
        }
    }

    @Test(
        "X14 what is asked of a room, as it is sent",
        arguments: [
            (RoomRequest.configuration, "get", "<query xmlns='OWNER'/>"),
            (
                .configure(DataForm(.submit, [.init("muc#roomconfig_roomname", "Hall")])), "set",
                "<query xmlns='OWNER'><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE' type='hidden'>"
                    + "<value>http://jabber.org/protocol/muc#roomconfig</value></field>"
                    + "<field var='muc#roomconfig_roomname'><value>Hall</value></field></x></query>"
            ),
            (
                .configure(DataForm(.cancel)), "set",
                "<query xmlns='OWNER'><x xmlns='jabber:x:data' type='cancel'/></query>"
            ),
            (.affiliations(.outcast), "get", "<query xmlns='ADMIN'><item affiliation='outcast'/></query>"),
            (
                .setAffiliation(.outcast, of: [try! JID("tybalt@localhost/x")], reason: "Brawling"), "set",
                "<query xmlns='ADMIN'><item affiliation='outcast' jid='tybalt@localhost'>"
                    + "<reason>Brawling</reason></item></query>"
            ),
            (.roles(.moderator), "get", "<query xmlns='ADMIN'><item role='moderator'/></query>"),
            (
                .setRole(.none, of: "Tybalt", reason: nil), "set",
                "<query xmlns='ADMIN'><item nick='Tybalt' role='none'/></query>"
            ),
            (
                .destroy(alternative: try! JID("hall@conference.localhost"), reason: "Moved"), "set",
                "<query xmlns='OWNER'><destroy jid='hall@conference.localhost'><reason>Moved</reason></destroy></query>"
            ),
        ])
    func requests(request: RoomRequest, type: String, payload: String) {
        let expected = payload.replacing("OWNER", with: "http://jabber.org/protocol/muc#owner")
            .replacing("ADMIN", with: "http://jabber.org/protocol/muc#admin")
        let iq = request.iq(to: ScriptedRoom.jid)
        #expect(iq.type.rawValue == type && iq.to == ScriptedRoom.jid)
        #expect(iq.payload?.serialized(defaultNamespace: Namespaces.client) == expected)
    }

    @Test("X14 what a room answers is read; what is no answer to that is nothing")
    func answers() throws {
        let list = try Element(
            parsing:
                "<query xmlns='http://jabber.org/protocol/muc#admin'><item affiliation='outcast' jid='tybalt@localhost'><reason>Brawling</reason></item><item role='moderator' nick='Romeo' affiliation='odd'/></query>"
        )
        let entries = RoomRequest.entries(in: list)
        #expect(entries.count == 2)
        #expect(entries[0].jid == (try JID("tybalt@localhost")) && entries[0].affiliation == .outcast)
        #expect(entries[0].reason == "Brawling")
        #expect(entries[1].nick == "Romeo" && entries[1].role == .moderator && entries[1].affiliation == nil)
        #expect(RoomRequest.entries(in: nil) == [])
        #expect(RoomRequest.configuration(in: list) == nil)
        let form = try Element(
            parsing:
                "<query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data' type='form'><field var='a'><value>b</value></field></x></query>"
        )
        #expect(RoomRequest.configuration(in: form)?["a"] == "b")
    }
}
