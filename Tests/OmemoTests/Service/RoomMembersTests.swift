import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules

@testable import Omemo

/// The members of a room, whose two addresses together are too long for a key.
@Suite(.ownThread, .timeLimit(.minutes(1))) struct RoomMembersTests {
    private let folder: TemporaryFolder
    private var path: String { folder.path + "/store.db" }

    init() throws { folder = try TemporaryFolder() }

    private func open() throws -> HandlerStore {
        try HandlerStore(
            path: path, registry: HandlerRegistry(), schemas: Account.schemas + OmemoService.schemas)
    }

    private func rows(_ store: HandlerStore) throws -> [String] {
        try store.step { step in
            try step.all("SELECT room, jid, nick FROM omemo_room_member ORDER BY jid") {
                "\($0.text(0)) \($0.text(1)) \($0.text(2))"
            }
        }
    }

    @Test(
        "O8 several clients of a user are one member of a room, and a new list takes the place of the old one"
    )
    func users() throws {
        let store = try open()
        var configuration = AccountConfiguration(jid: try JID("romeo@montague.lit"), password: "none")
        configuration.modules = .standard + [OmemoModule()]
        let account = try Account(configuration, store: store)
        let room = try JID("garden@rooms.lit")
        try store.step { step in
            try account.omemo.setMembers([JID("nurse@capulet.lit"): "nurse"], of: room, in: step)
            try account.omemo.setMembers(
                [JID("juliet@capulet.lit/a"): "rose", JID("juliet@capulet.lit/b"): nil], of: room, in: step)
        }
        #expect(try rows(store) == ["garden@rooms.lit juliet@capulet.lit rose"])
    }

    @Test("O8 the members that an earlier program has stored stay")
    func earlier() throws {
        try EarlierStore.restore(to: path)
        try RawConnection(path).run(
            """
            INSERT INTO omemo_room_member SELECT id, 'garden@rooms.lit', 'juliet@capulet.lit', 'rose' FROM account;
            INSERT INTO omemo_room_member SELECT id, 'garden@rooms.lit', 'nurse@capulet.lit', NULL FROM account;
            """)
        #expect(
            try rows(open()) == [
                "garden@rooms.lit juliet@capulet.lit rose", "garden@rooms.lit nurse@capulet.lit ",
            ])
    }
}
