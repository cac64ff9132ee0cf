import Handlers
import TestSupport
@testable import Omemo
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import TestServers

extension OmemoOnServersTests {
    /// Several devices of each user, and rooms, with independent clients.
    @Suite struct OmemoDevicesTests {
        @Test("O9 three devices on each side, and everybody reads everything", arguments: ServerKind.allCases)
        func threeDevices(_ kind: ServerKind) async throws {
            try await withScene(kind) { scene in
                var devices: [Ours] = []
                // One after the other, as devices are added: those before learn of it by what their server pushes.
                for name in ["a", "b", "c"] { devices.append(try await scene.device(name)) }
                for device in devices {
                    try await eventually("each of our devices knows all three") {
                        try device.number(
                            "SELECT count(*) FROM omemo_device WHERE removed_at IS NULL AND jid = '\(scene.ours)'"
                        )
                            == 6
                    }
                }
                let peers = [
                    try scene.peer(.both, resource: "p1"), try scene.peer(.legacy, resource: "p2"),
                    try scene.peer(.omemo2, resource: "p3"),
                ]
                try await devices[0].send("from-a", to: scene.theirs)
                for peer in peers {
                    try await eventually("every peer reads it") { try peer.received == ["from-a"] }
                }
                try peers[0].sendMessages(to: scene.ours, count: 2, prefix: "b")
                for device in devices {
                    try await eventually("every device of ours reads it") {
                        try device.notes.filter { $0.hasPrefix("b-") }.count == 2
                    }
                }
                try await devices[2].send("from-c", to: scene.theirs)
                for peer in peers {
                    try await eventually("every peer reads it too") { try peer.received.contains("from-c") }
                }
                for (name, device) in zip(["b", "c", "a"], [devices[1], devices[2], devices[0]]) {
                    let fromOwn = name == "b" ? 2 : 1
                    try await eventually("what our devices say is read by the others of ours") {
                        try device.notes.filter { $0.hasPrefix("from-") }.count == fromOwn
                    }
                }
                for peer in peers { try peer.expectReadAll() }
            }
        }

        @Test(
            "O2 O7 O9 a contact's device is added, removed, and installed again under its number: the server tells, and the new key waits for a decision",
            arguments: ServerKind.allCases)
        func comingAndGoing(_ kind: ServerKind) async throws {
            try await withScene(kind) { scene in
                let device = try await scene.device()
                let first = try scene.peer(.omemo2, resource: "first")
                // Lists are pushed to those who see the contact's presence.
                let (account, theirs) = (device.account, try JID(scene.theirs))
                try await account.perform { try account.roster.subscribe(to: theirs, in: $0) }
                try await eventually("the peer lets us see its presence") {
                    try device.store.step { step in
                        try device.account.roster.item(for: JID(scene.theirs), in: step)?.subscription
                            .rawValue
                    }.map { $0 == "to" || $0 == "both" } ?? false
                }
                // And to those whose presence shows that they want them: the contact must see ours.
                try await eventually("the peer wants to see ours") {
                    try !device.store.step { try device.account.roster.requests(in: $0) }.isEmpty
                }
                try await account.perform { try account.roster.approve(theirs, in: $0) }
                func listed() throws -> [String] {
                    try device.texts(
                        """
                        SELECT CAST(device AS TEXT) FROM omemo_device
                        WHERE jid = '\(scene.theirs)' AND namespace = 'urn:xmpp:omemo:2' AND removed_at IS NULL
                        """)
                }
                try await device.send("one", to: scene.theirs)
                try await eventually("the first reads it") { try first.received == ["one"] }

                let second = try scene.peer(.omemo2, resource: "second")
                try await eventually("the list with two comes by itself") { try listed().count == 2 }
                try await device.send("two", to: scene.theirs)
                for peer in [first, second] {
                    try await eventually("both read it") { try peer.received.last == "two" }
                }
                let numbers = try listed().compactMap { UInt32($0) }
                first.kill()
                second.kill()
                try await scene.publishList(.omemo2, [])
                try await eventually("the empty list comes by itself") { try listed() == [] }
                try await device.send("three", to: scene.theirs)
                #expect(try await device.heard(1) == ["not sent 0 the user has no OMEMO device"])

                let again = try scene.peer(.omemo2, resource: "again", device: numbers[0])
                try await eventually("the number is listed again") { try listed() == ["\(numbers[0])"] }
                // The old session is still there and of no use to the new keys; what the device says shows them.
                try again.sendMessages(to: scene.ours, count: 1, prefix: "new")
                #expect(try await device.heard(2).last == "new-1 undecided")
                try await device.send("four", to: scene.theirs)
                let undecided = "not sent 0 nobody has decided yet whether to trust the device's key"
                #expect(try await device.heard(3).last == undecided)
                let key = try device.store.step { step in
                    try device.account.omemo.identities(of: JID(scene.theirs), in: step)
                        .first { $0.trust == .undecided }?.key
                }
                try await device.account.perform { [ours = device.account, theirs = scene.theirs] step in
                    try ours.omemo.setTrust(.verified, in: #require(key), of: JID(theirs), in: step)
                }
                try await device.send("five", to: scene.theirs)
                try await eventually("the new device reads it") { try again.received == ["five"] }
                #expect(try again.unreadable == [])
            }
        }

        @Test(
            "O2 O9 a device of ours that is installed again takes another number, and the peer reads it",
            arguments: ServerKind.allCases)
        func ourOwnAgain(_ kind: ServerKind) async throws {
            try await withScene(kind) { scene in
                let old = try await scene.device("old")
                let peer = try scene.peer(.omemo2)
                try await old.send("one", to: scene.theirs)
                try await eventually("the peer reads it") { try peer.received == ["one"] }
                try await old.leave()
                let new = try scene.offlineDevice("new")
                let number = try #require(try old.own())
                // By accident, or the user's mistake, it would be the same one: its keys are others.
                try new.store.step { step in
                    try new.account.omemo.ownDevice.insert(SignalKeys.makeIdentity(device: number), in: step)
                }
                try await new.account.connect()
                try await new.account.omemo.start()
                try await new.published()
                #expect(try new.own() != number)
                try await new.send("two", to: scene.theirs)
                try await eventually("the peer reads the new one") { try peer.received == ["one", "two"] }
                try peer.sendMessages(to: scene.ours, count: 2, prefix: "b")
                // What the peer had said to the old one may come out of the archive, and is not for the new one.
                func heard() throws -> [String] {
                    try new.notes.filter { $0 != "failed not-for-this-device" }
                }
                try await eventually("both are heard") { try heard().count >= 2 }
                #expect(try heard() == numbered("b", 2).blind)
                try peer.expectReadAll()
            }
        }

        @Test(
            "O8 O9 a group of three in a members-only room: two peers and we read one another, also what was said while we were away",
            arguments: ServerKind.allCases, [Interoperation.Spoken.legacy, .omemo2])
        func room(_ kind: ServerKind, _ spoken: Interoperation.Spoken) async throws {
            try await withScene(kind) { scene in
                let mercutio = try scene.addUser("mercutio")
                let room = try scene.address("garden", at: "conference")
                let members = [scene.ours, scene.theirs, mercutio]
                let device = try await scene.device()
                try await device.makeRoom(room, members: members)
                let peers = try [scene.theirs, mercutio].map {
                    try scene.peer(spoken, jid: $0, room: room, members: members)
                }
                try await device.send("to-all", toRoom: room)
                for peer in peers {
                    try await eventually("a peer reads the room") { try peer.received == ["to-all"] }
                }
                // They are in the room now, so it tells their names, too.
                try await device.account.omemo.updateMembers(of: room)
                try peers[0].sendMessages(to: room.description, count: 2, prefix: "j")
                try await eventually("the other peer and we read it") {
                    let (other, own) = (try peers[1].received, try device.notes)
                    return other.count == 3 && own.count == 2
                }
                #expect(try device.notes == numbered("j", 2).blind)
                try await device.quiet()
                try await device.account.logOut()
                await device.account.close()
                try peers[1].sendMessages(to: room.description, count: 3, prefix: "m")
                _ = try peers[1].waitUntilSent(prefix: "m", deadline: .now + .seconds(20))
                let next = try await scene.device()
                #expect(try await next.heard(5) == (numbered("j", 2) + numbered("m", 3)).blind)
                try await next.send("again", toRoom: room)
                for peer in peers {
                    try await eventually("a peer reads the room again") { try peer.received.last == "again" }
                }
                for peer in peers { try peer.expectReadAll() }
            }
        }
    }
}
