import Handlers
import TestThreads
import Testing
import XMPPCore

@testable import Omemo
@testable import XMPPAccount
@testable import XMPPModules

/// How long a device list holds, and what contradicts it.
@Suite(.ownThread) struct DeviceListAgeTests {
    private static let version = OmemoVersion.legacy

    /// An account that learned Juliet's legacy list at 0, with these devices.
    private func knowing(_ numbers: [UInt32] = [3], isContact: Bool = false) throws -> RefreshAccount {
        let offline = try RefreshAccount(modules: isContact ? [RosterModule()] : [])
        offline.clock.now = 0
        if isContact {
            try offline.receive(
                """
                <iq type='set' id='push'><query xmlns='jabber:iq:roster'><item jid='\(juliet)' subscription='to'/>\
                </query></iq>
                """)
        }
        try learn(numbers, offline)
        _ = try requests(offline)
        return offline
    }

    private func learn(_ numbers: [UInt32], _ offline: RefreshAccount) throws {
        let devices = numbers.compactMap { OmemoDeviceID(rawValue: $0) }.map { OmemoDeviceList.Device($0) }
        try offline.store.step { step in
            _ = try offline.account.omemo.learn(
                OmemoDeviceList(Self.version, devices: devices), of: JID(juliet), in: step)
        }
    }

    /// Whether a message to Juliet would go by the list as it is; nil without one.
    private func holds(_ offline: RefreshAccount) throws -> Bool? {
        try offline.store.step { step in
            try offline.account.omemo.user(JID(juliet), session: 0, in: step).lists[Self.version]
        }
    }

    /// Whether a message to Juliet would wait for the list.
    private func waits(_ offline: RefreshAccount) throws -> Bool {
        try offline.store.step { step in
            var plan = OmemoPlan()
            plan.add(
                try offline.account.omemo.user(JID(juliet), session: 0, in: step), preference: [Self.version],
                legacyCarries: true, session: 0, now: step.now, except: nil)
            return plan.missing.contains { $0.device == nil }
        }
    }

    /// The requests that were sent since.
    private func requests(_ offline: RefreshAccount) throws -> [Element] {
        let sent = try offline.offline.sent.filter { $0["to"] == ForeignText(juliet) }
        _ = try offline.store.step { try $0.execute("DELETE FROM outbox") }
        return sent
    }

    /// A message came from a device of Juliet's.
    private func hear(_ device: UInt32, _ offline: RefreshAccount) throws {
        try offline.store.step { step in
            try offline.account.omemo.checkListed(
                OmemoAddress(
                    jid: JID(juliet), device: #require(OmemoDeviceID(rawValue: device)), version: Self.version
                ),
                in: step)
        }
    }

    private static let age = OmemoDeviceListTable.age.milliseconds
    private static let pause = OmemoFetchTable.listPause.milliseconds

    @Test(
        "X34 the list of somebody who is no contact holds for ten minutes, that of a contact for the session")
    func age() async throws {
        for isContact in [false, true] {
            let offline = try knowing(isContact: isContact)
            for (time, isYoung) in [
                (Int64(0), true), (Self.age - 1, true), (Self.age, false), (Self.age * 9, false),
            ] {
                offline.clock.now = time
                #expect(try holds(offline) == (isYoung || isContact), "at \(time)")
                #expect(try waits(offline) == !(isYoung || isContact))
            }
            let isKept = try offline.store.step { step in
                try offline.account.omemo.user(JID(juliet), session: 1, in: step).lists[Self.version]
            }
            #expect(isKept == false, "in another session")
            await offline.close()
        }
    }

    @Test("X34 who has no devices is asked again after two minutes, also a contact")
    func empty() async throws {
        for isContact in [false, true] {
            let offline = try knowing([], isContact: isContact)
            offline.clock.now = Self.pause - 1
            #expect(try holds(offline) == true)
            offline.clock.now = Self.pause
            #expect(try holds(offline) == false)
            await offline.close()
        }
    }

    @Test(
        "X34 a list that could not be had is asked for again after two minutes, and at once after a message")
    func failed() async throws {
        let offline = try RefreshAccount()
        offline.clock.now = 0
        func fail() throws {
            try offline.store.step { step in
                try offline.account.omemo.missList(of: JID(juliet), Self.version, .unreadable, in: step)
            }
        }
        try fail()
        offline.clock.now = Self.pause - 1
        #expect(try !waits(offline))
        offline.clock.now = Self.pause
        #expect(try waits(offline))
        try fail()
        #expect(try !waits(offline))
        try hear(9, offline)
        #expect(try waits(offline))
        await offline.close()
    }

    @Test(
        "X34 a message from a device that is not listed has the list fetched, at once, and the next message waits"
    )
    func unlisted() async throws {
        let offline = try knowing()
        offline.clock.now = 1
        try hear(3, offline)
        #expect(try requests(offline).isEmpty && holds(offline) == true)
        try hear(9, offline)
        try hear(9, offline)
        #expect(try requests(offline).count == 1, "one at a time")
        #expect(try waits(offline))
        try learn([3, 9], offline)
        #expect(try !waits(offline))
        try hear(9, offline)
        #expect(try requests(offline).isEmpty && holds(offline) == true)
        await offline.close()
    }

    @Test("X34 devices without end cause five requests in ten minutes, and five more after them")
    func bounded() async throws {
        let offline = try knowing()
        for start in [Int64(1), Self.age + 1] {
            offline.clock.now = start
            var count = 0
            for device in UInt32(10)..<40 {
                try hear(device, offline)
                count += try requests(offline).count
                try learn([3], offline)
            }
            #expect(count == 5)
        }
        await offline.close()
    }
}
