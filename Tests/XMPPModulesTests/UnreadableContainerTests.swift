import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore
import XMPPTestKit

@testable import XMPPAccount
@testable import XMPPModules

/// One message of an archive's page, one copy, one message of a room's history, one contact: each that cannot be read costs
/// itself, and the rest of what it came with is taken in.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct UnreadableContainerTests {
    /// An archive in which these messages cannot be read, and the account that reads it in pages of ten.
    private func archive(
        _ count: Int, damaging isDamaged: @escaping @Sendable (Int) -> Bool, in rig: AccountRig
    ) async throws -> (ArchiveService, Account) {
        Damage.write(on: rig.server)
        let archive = ArchiveService(count: count) { number in
            Message(
                to: AccountRig.alice, from: AccountRig.peer, id: "a\(number)", body: "message \(number)",
                children: isDamaged(number) ? [Damage.mark("xml")] : []
            ).element
        }
        archive.serve(at: AccountRig.alice, on: rig.server)
        let account = try rig.account { $0.modules = [ArchiveModule(pageSize: 10, history: nil)] }
        try await account.listen()
        try await account.connect()
        try await eventually { try await self.progress(account)?.state == .complete }
        return (archive, account)
    }

    private func progress(_ account: Account) async throws -> ArchiveProgress? {
        try await account.perform { try account.archive.progress(in: $0).first }
    }

    @Test(
        "X18 archived messages that cannot be read are passed over: also a whole page of them, and the last one",
        arguments: [[3, 9], [9, 10, 11], Array(10..<20), [29], Array(0..<30)])
    func archived(bad: [Int]) async throws {
        try await withModulesRig { rig in
            let (archive, account) = try await archive(30, damaging: { bad.contains($0) }, in: rig)
            let good = (0..<30).filter { !bad.contains($0) }
            #expect(try account.store.notes("message") == good.map { "a\($0): message \($0)" })
            #expect(archive.queries.map(\.after) == [nil, 9, 19])
            #expect(try await progress(account)?.received == good.count)
            try await rig.expectAllCounted(account)
            // The next session starts after what could not be read.
            let events = EventReader(account)
            archive.grow(by: 1)
            rig.server.expireSessions()
            await events.until("bound")
            try await eventually { try account.store.notes("message").count == good.count + 1 }
            #expect(archive.queries.last?.after == 29)
            try await rig.expectAllCounted(account)
            #expect(!rig.server.log.entries.contains { $0.event == .resumed })
        }
    }

    @Test("X18 a page of nothing but what cannot be read does not make an archive end that goes on for ever")
    func emptyPages() async throws {
        try await withModulesRig { rig in
            Damage.write(on: rig.server)
            let asked = Kept(0)
            rig.server.addService(at: AccountRig.alice, for: [Namespaces.mam]) { stanza, service in
                let turn = asked.withLock { count in
                    count += 1
                    return count
                }
                // Ever new places, and from the third page on nothing at all.
                if turn < 3 {
                    let bad = Message(
                        to: AccountRig.alice, id: "b", body: "x", children: [Damage.mark("xml")])
                    var element = bad.element
                    element["from"] = "alice@localhost"
                    element["to"] = stanza["from"]
                    service.send(element)
                }
                // A client that has not given up by then gets nothing any more, and does not come to the end that is awaited.
                guard turn < 50 else { return }
                let last = Element("last", namespace: Namespaces.rsm, text: "place \(turn)")
                let set = Element("set", namespace: Namespaces.rsm, children: [last])
                service.answer(stanza, payload: Element("fin", namespace: Namespaces.mam, children: [set]))
            }
            let account = try rig.account { $0.modules = [ArchiveModule(pageSize: 10, history: nil)] }
            try await account.connect()
            try await eventually("the end of it, after \(asked.withLock { $0 }) pages") {
                try await progress(account)?.state == .failed
            }
            #expect(try await progress(account)?.failure == ArchiveProgress.standsStill)
            // Two pages that could not be read, and as many without anything as are bearable; the next session goes on there.
            #expect(try account.store.texts("SELECT last_id FROM archive") == ["place 23"])
        }
    }

    @Test("X18 a carbon copy and a message of a room that cannot be read cost themselves")
    func copies() async throws {
        try await withModulesRig { rig in
            Damage.write(on: rig.server)
            let room = ScriptedRoom(rig)
            room.change { state in
                state.history = ["1", "bad", "2"].enumerated().map { index, id in
                    let children = id == "bad" ? [Damage.mark("xml")] : []
                    let message = Message(
                        to: nil, type: .groupchat, id: "h\(id)", body: "history", children: children)
                    return (Timestamp(milliseconds: 1_700_000_000_000 + Int64(index)), message.element)
                }
            }
            let account = try rig.account { $0.modules = [CarbonsModule(), RoomsModule()] }
            try await account.listen()
            try await account.connect()
            _ = try await account.rooms.join(ScriptedRoom.jid, as: "Alice")
            try await eventually {
                try account.store.notes("message") == ["h1: history", "h2: history"]
            }
            for id in ["c1", "bad", "c2"] {
                let copied = Message(
                    to: AccountRig.alice, from: AccountRig.peer, id: id, body: "copy",
                    children: id == "bad" ? [Damage.mark("depth 70")] : [])
                let forwarded = Element(
                    "forwarded", namespace: Namespaces.forward, children: [copied.element])
                let wrapper = Element("received", namespace: Namespaces.carbons, children: [forwarded])
                var carbon = Message(to: AccountRig.alice, id: nil, children: [wrapper]).element
                carbon["from"] = "alice@localhost"
                rig.server.send(carbon, to: .everyone)
            }
            try await eventually { try account.store.notes("message").suffix(2) == ["c1: copy", "c2: copy"] }
            try await rig.expectAllCounted(account)
            #expect(!rig.server.log.entries.contains { $0.event == .resumed })
        }
    }

    @Test("X18 a contact that cannot be read costs itself: in the roster, and in a push, which is answered")
    func contacts() async throws {
        try await withModulesRig { rig in
            Damage.write(on: rig.server)
            func item(_ jid: String, _ children: [Element] = []) -> Element {
                Element("item", namespace: Namespaces.roster, attributes: ["jid": jid], children: children)
            }
            func query(_ items: Element...) -> Element {
                Element("query", namespace: Namespaces.roster, children: items)
            }
            let roster = query(
                item("a@b.example"), item("c@d.example", [Damage.mark("xml")]),
                item("e@f.example", [Damage.mark("depth 1000")]), item("@"), item("g@h.example"))
            rig.serve { $0.payload?.namespace == Namespaces.roster ? .success(roster) : nil }
            let account = try await rig.connected([RosterModule()])
            func contacts() throws -> [ForeignText?] {
                try account.store.step { try account.roster.items(in: $0).map(\.jid.local) }
            }
            #expect(try contacts() == ["a", "g"])
            rig.push("bad", query(item("i@j.example", [Damage.mark("xml")])))
            rig.push("good", query(item("k@l.example")))
            try await eventually { try contacts() == ["a", "g", "k"] }
            try await rig.saw { $0.event == .received && $0.id == "good" && $0.type == "result" }
            #expect(rig.xml(ofID: "bad").contains { $0.contains("bad-request") })
            try await rig.expectAllCounted(account)
            #expect(!rig.server.log.entries.contains { $0.event == .resumed })
        }
    }
}
