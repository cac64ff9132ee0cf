import Handlers
import TestThreads
import Testing
import XMPPAccount
import XMPPCore

@testable import Omemo

/// The stored lists: marked, not deleted; each account, user and version apart.
@Suite(.ownThread) struct OmemoDeviceListTableTests {
    @discardableResult
    private func merge(
        _ numbers: [UInt32], of jid: String = "juliet@capulet.lit", _ version: OmemoVersion = .omemo2,
        at now: Int64, in offline: RefreshAccount
    ) throws -> OmemoDeviceListTable.Change {
        offline.clock.now = now
        let devices = try numbers.map { OmemoDeviceList.Device(try #require(OmemoDeviceID(rawValue: $0))) }
        return try offline.store.step { step in
            try offline.account.omemo.deviceLists.merge(
                OmemoDeviceList(version, devices: devices), of: JID(jid), in: step)
        }
    }

    private func ids(_ numbers: UInt32...) -> [OmemoDeviceID] {
        numbers.compactMap { OmemoDeviceID(rawValue: $0) }
    }

    @Test("O2 nothing known and known to be empty are two things")
    func unknownAndEmpty() async throws {
        let offline = try RefreshAccount()
        #expect(try offline.devices(of: juliet) == nil)
        #expect(try merge([], at: 10, in: offline) == .init())
        #expect(try offline.devices(of: juliet) == [])
        await offline.close()
    }

    @Test("O2 devices come, stay, leave and come back, and their times tell")
    func life() async throws {
        let offline = try RefreshAccount()
        #expect(try merge([5, 3], at: 10, in: offline) == .init(added: ids(3, 5)))
        #expect(try offline.devices(of: juliet) == ["3 10 10 listed", "5 10 10 listed"])
        #expect(try merge([5, 3], at: 20, in: offline) == .init())
        #expect(try merge([5, 8], at: 30, in: offline) == .init(added: ids(8), removed: ids(3)))
        // It was listed until 20; what left stays where it was when other lists come.
        #expect(try merge([8, 5], at: 40, in: offline) == .init())
        #expect(try offline.devices(of: juliet) == ["3 10 20 30", "5 10 40 listed", "8 30 40 listed"])
        #expect(try merge([3], at: 50, in: offline) == .init(returned: ids(3), removed: ids(5, 8)))
        #expect(try offline.devices(of: juliet) == ["3 10 50 listed", "5 10 40 50", "8 30 40 50"])
        await offline.close()
    }

    @Test("O1 users, versions and accounts have lists of their own; a resource makes no difference")
    func apart() async throws {
        let offline = try RefreshAccount()
        try merge([1], at: 10, in: offline)
        try merge([2], .legacy, at: 20, in: offline)
        try merge([3], of: "romeo@montague.lit", at: 30, in: offline)
        try merge([1, 4], of: juliet + "/balcony", at: 40, in: offline)
        #expect(try offline.devices(of: juliet) == ["1 10 40 listed", "4 40 40 listed"])
        #expect(try offline.devices(of: juliet, .legacy) == ["2 20 20 listed"])
        #expect(try offline.devices(of: "romeo@montague.lit") == ["3 30 30 listed"])
        let other = try Account(
            AccountConfiguration(jid: JID("bob@example.test"), password: "none"), store: offline.store)
        let theirs = try offline.store.step { step in
            try other.omemo.deviceLists.devices(of: JID(juliet), .omemo2, in: step)
        }
        #expect(theirs == nil)
        await other.close()
        await offline.close()
    }

    @Test("O2 a label is kept with its signature and follows the last list")
    func labels() async throws {
        let offline = try RefreshAccount()
        let id = try #require(OmemoDeviceID(rawValue: 9))
        for label in [OmemoDeviceList.Label("Phone", signature: "c2ln"), nil] {
            let list = OmemoDeviceList(.omemo2, devices: [.init(id, label: label)])
            let stored = try offline.store.step { step in
                let lists = offline.account.omemo.deviceLists
                try lists.merge(list, of: JID(juliet), in: step)
                return try lists.devices(of: JID(juliet), .omemo2, in: step)
            }
            #expect(stored?.map(\.device.label) == [label])
        }
        await offline.close()
    }

    @Test("O2 a merge is undone together with its step")
    func undone() async throws {
        let offline = try RefreshAccount()
        try merge([1], at: 10, in: offline)
        struct GivenUp: Error {}
        #expect(throws: GivenUp.self) {
            try offline.store.step { step in
                try offline.account.omemo.deviceLists.merge(
                    OmemoDeviceList(.omemo2, devices: []), of: JID(juliet), in: step)
                throw GivenUp()
            }
        }
        #expect(try offline.devices(of: juliet) == ["1 10 10 listed"])
        await offline.close()
    }
}
