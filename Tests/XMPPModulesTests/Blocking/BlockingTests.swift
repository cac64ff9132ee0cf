import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import XMPPTestKit

/// Blocked addresses: fetched, pushed, changed.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct BlockingTests {
    private static func list(_ name: String, _ jids: String?...) -> Element {
        Element(
            name, namespace: Namespaces.blocking,
            children: jids.map { Element("item", namespace: Namespaces.blocking, attributes: ["jid": $0]) })
    }

    private func list(_ account: Account) throws -> [String] {
        try account.store.step { try account.blocking.list(in: $0).map(\.description) }
    }

    @Test("X15 the list is fetched in each new session and replaced; a resumption sends nothing")
    func fetched() async throws {
        try await withModulesRig { rig in
            let isSecond = Kept(false)
            rig.serve { iq in
                guard iq.payload?.name == "blocklist" else { return nil }
                return .success(
                    isSecond.withLock { $0 }
                        ? Self.list("blocklist", "evil.example")
                        : Self.list("blocklist", "iago@shakespeare.example", nil, "@bad", "x@y.example/z"))
            }
            let account = try await rig.connected([BlockingModule()])
            #expect(try list(account) == ["iago@shakespeare.example", "x@y.example/z"])
            let gets = try rig.requests("blocklist", Namespaces.blocking)
            #expect(gets.map(\.type) == [.get])
            #expect(gets.first?.to == nil)
            isSecond.withLock { $0 = true }
            let mark = rig.server.log.count
            try await rig.resume(account)
            #expect(rig.sent(from: mark) == [])
            let told = ModuleReader(account, BlockingChange.self)
            try await rig.loseSession(account)
            #expect(try list(account) == ["evil.example"])
            #expect(await told.next() == .loaded)
        }
    }

    @Test(
        "X15 a server without blocking has an empty list; another error leaves what is stored",
        arguments: [
            OpenName<StanzaError>.itemNotFound, .serviceUnavailable, .featureNotImplemented,
            .internalServerError,
        ])
    func unsupported(condition: OpenName<StanzaError>) async throws {
        try await withModulesRig { rig in
            let error = Kept<StanzaError?>(nil)
            rig.serve { iq in
                guard iq.payload?.name == "blocklist" else { return nil }
                if let error = error.withLock({ $0 }) { return .failure(error) }
                return .success(Self.list("blocklist", "evil.example"))
            }
            let account = try await rig.connected([BlockingModule()])
            error.withLock { $0 = StanzaError(condition) }
            let told = ModuleReader(account, BlockingChange.self)
            try await rig.loseSession(account)
            let isNone = condition != .internalServerError
            #expect(try list(account) == (isNone ? [] : ["evil.example"]))
            #expect(await told.next() == (isNone ? .unsupported : .notLoaded(StanzaError(condition))))
        }
    }

    @Test(
        "X15 pushes of the own server block, unblock and unblock all, and are answered",
        arguments: [nil, "alice@localhost"])
    func pushed(sender: String?) async throws {
        try await withModulesRig { rig in
            let account = try await rig.connected([BlockingModule()])
            let told = ModuleReader(account, BlockingChange.self)
            rig.push(
                "p1", Self.list("block", "a@x.example", "@bad", "b@x.example", "c@x.example"), from: sender)
            rig.push("p2", Self.list("unblock", "a@x.example"), from: sender)
            // All of its items are malformed, which is not the same as none.
            rig.push("p3", Self.list("unblock", "@bad"), from: sender)
            rig.push("p4", Self.list("block"), from: sender)
            try await rig.saw { $0.event == .received && $0.id == "p4" }
            #expect(try list(account) == ["b@x.example", "c@x.example"])
            for id in ["p1", "p2", "p3"] {
                #expect(rig.xml(ofID: id).first?.contains("type='result'") == true)
            }
            #expect(rig.xml(ofID: "p4").first?.contains("<bad-request") == true)
            rig.push("p5", Self.list("unblock"), from: sender)
            try await account.caughtUp()
            #expect(try list(account) == [])
            let names = try ["a", "b", "c"].map { try JID("\($0)@x.example") }
            #expect(await told.next() == .blocked(names))
            #expect(await told.next() == .unblocked([names[0]]))
            #expect(await told.next() == .unblocked([]))
            #expect(await told.next() == .unblockedAll)
        }
    }

    @Test(
        "X15 a stranger's block, unblock and unblock-all are refused and change nothing",
        arguments: AccountRig.strangers)
    func strangers(sender: String) async throws {
        try await withModulesRig { rig in
            let account = try await rig.connected([BlockingModule()])
            rig.push("own", Self.list("block", "evil.example"))
            rig.push("s1", Self.list("block", "juliet@capulet.example"), from: sender)
            rig.push("s2", Self.list("unblock", "evil.example"), from: sender)
            rig.push("s3", Self.list("unblock"), from: sender)
            try await rig.saw { $0.event == .received && $0.id == "s3" }
            for id in ["s1", "s2", "s3"] {
                #expect(rig.xml(ofID: id).first?.contains("<service-unavailable") == true)
            }
            #expect(try list(account) == ["evil.example"])
        }
    }

    @Test("X15 blocking asks as the specification writes it; the answer is awaited or calls a stored handler")
    func changes() async throws {
        try await withModulesRig { rig in
            rig.serve { iq in
                guard let payload = iq.payload, payload.namespace == Namespaces.blocking, iq.type == .set
                else {
                    return nil
                }
                return payload.firstElement?["jid"] == "forbidden.example"
                    ? .failure(StanzaError(.notAllowed)) : .success(nil)
            }
            let account = try await rig.connected([BlockingModule()])
            let (iago, all) = (try JID("iago@shakespeare.example"), try JID("forbidden.example"))
            try await account.request(.blocking.block([iago, JID("evil.example")]))
            await #expect(throws: StanzaError(.notAllowed)) {
                try await account.request(.blocking.block([all]))
            }
            try await account.send(.blocking.unblock([iago]), then: TestApp.Answered(name: "unblock").durable)
            try await account.send(.blocking.unblockAll, then: TestApp.Answered(name: "all").durable)
            for change: AccountOperation<IQReply, Void> in [.blocking.block([]), .blocking.unblock([])] {
                let error = await errorOf { try await account.request(change) } as? AccountError
                #expect(error?.code == .invalidStanza)
            }
            try await eventually { try account.store.notes("ended").count == 2 }
            #expect(try account.store.notes("ended") == ["unblock: result - from -", "all: result - from -"])
            let sets = ["block", "unblock"].flatMap { name in
                (try? rig.requests(name, Namespaces.blocking)) ?? []
            }
            #expect(sets.allSatisfy { $0.type == .set && $0.to == nil })
            #expect(
                sets.map(\.payload) == [
                    Self.list("block", "iago@shakespeare.example", "evil.example"),
                    Self.list("block", "forbidden.example"), Self.list("unblock", "iago@shakespeare.example"),
                    Self.list("unblock"),
                ])
        }
    }

    @Test(
        "X15 an address is blocked by itself, its account, its domain, or its resource there, and by nothing else"
    )
    func matching() async throws {
        try await withModulesRig { rig in
            let account = try await rig.connected([BlockingModule()])
            rig.push(
                "p", Self.list("block", "a@x.example/phone", "b@x.example", "y.example/service", "z.example"))
            try await account.caughtUp()
            let blocked = [
                "a@x.example/phone", "b@x.example", "b@x.example/any", "y.example/service", "z.example",
                "q@z.example", "q@z.example/r", "z.example/r",
            ]
            let free = [
                "a@x.example", "a@x.example/pc", "x.example", "y.example", "sub.z.example", "b@y.example",
            ]
            let covered = try account.store.step { step in
                try (blocked + free).filter { try account.blocking.isBlocked(JID($0), in: step) }
            }
            #expect(covered == blocked)
        }
    }
}
