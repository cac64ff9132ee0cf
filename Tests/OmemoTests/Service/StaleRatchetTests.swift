import COmemo
import AccountTestKit
import Handlers
@testable import Omemo
import TestThreads
import Testing
@testable import XMPPAccount
import XMPPCore
@testable import XMPPModules

/// Ratchets that somebody else has moved on: a part of a step that was undone, or another process with the same store.
@Suite(.ownThread) struct StaleRatchetTests {
    /// The number in its chain of each key for a device, oldest first.
    private func counters(_ sent: [Element], for device: OmemoDeviceID, of user: String) throws -> [UInt32] {
        let context = try KeyContext()
        return try sent.compactMap { stanza in
            guard let element = stanza.child("encrypted", OmemoVersion.omemo2.namespace),
                let message = try OmemoEncrypted.read(element, for: device, of: JID(user)),
                let key = message.keys.first
            else { return nil }
            let inner = SignalObject(
                try makeSignal {
                    signal_message_deserialize_omemo($0, key.bytes, key.bytes.count, context.global)
                })
            return signal_message_get_counter(inner.pointer)
        }
    }

    private struct GivenUp: Error {}

    @Test("O6 a part of a step that is undone takes its ratchet back, though the session is held open")
    func undonePart() async throws {
        let (world, a, b) = try World.pairInSession()
        a.sent = []
        try a.step { step in
            try a.omemo.send(OmemoContent(body: "three"), to: JID(romeo), in: step)
            try? step.undoingOnError {
                try a.omemo.send(OmemoContent(body: "never"), to: JID(romeo), in: step)
                throw GivenUp()
            }
            try a.omemo.send(OmemoContent(body: "four"), to: JID(romeo), in: step)
        }
        try world.settle()
        #expect(try b.heard() == ["three blind", "four blind"])
        #expect(try counters(a.sent, for: b.own.device, of: romeo) == [0, 1])
        await world.close()
    }

    @Test(
        "O5 a message that a listener refuses leaves the ratchet as it was, between messages of the same step"
    )
    func undoneMessage() async throws {
        let (world, a, b) = try World.pairInSession()
        for number in 0..<4 { try b.send("m\(number)", to: juliet) }
        try world.carry()
        let messages = a.inbox.filter { $0.name == "message" }
        a.inbox = []
        try a.step { step in
            for (index, message) in messages.enumerated() {
                guard index == 1 else {
                    try a.offline.receive(message, in: step)
                    continue
                }
                try? step.undoingOnError {
                    try a.offline.receive(message, in: step)
                    throw GivenUp()
                }
            }
            // It comes again, behind the others.
            try a.offline.receive(messages[1], in: step)
        }
        #expect(try a.heard() == ["m0 blind", "m2 blind", "m3 blind", "m1 blind"])
        try world.settle()
        await world.close()
    }

    @Test(
        "O5 O6 two processes with one store take turns: each goes on from where the other has left the ratchet"
    )
    func twoProcesses() async throws {
        let (world, a, b) = try World.pairInSession()
        let store = try HandlerStore(
            path: a.folder.path + "/store.db",
            registry: HandlerRegistry([World.Heard.self, World.Reported.self]),
            schemas: Account.schemas + OmemoService.schemas + [RefreshAccount.notes])
        let other = try OfflineAccount(
            a.account.configuration, store: store, resource: a.jid.resource?.string ?? "")
        a.sent = []
        for number in 0..<6 {
            if number % 2 == 0 {
                try a.send("a\(number)", to: romeo)
            } else {
                try store.step { step in
                    _ = try other.account.omemo.send(
                        OmemoContent(body: "a\(number)"), to: JID(romeo), in: step)
                }
            }
        }
        try world.settle()
        #expect(try b.heard() == (0..<6).map { "a\($0) blind" })
        #expect(try counters(a.sent, for: b.own.device, of: romeo) == Array(0..<6))

        for number in 0..<6 { try b.send("b\(number)", to: juliet) }
        try world.carry()
        for (number, message) in a.inbox.filter({ $0.name == "message" }).enumerated() {
            try (number % 2 == 0 ? a.offline : other).receive(message)
        }
        a.inbox = []
        #expect(try a.heard() == (0..<6).map { "b\($0) blind" })
        await other.close()
        await world.close()
    }
}
