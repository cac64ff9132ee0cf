import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// An error of a module's hook costs what that module did, and nothing else of the step.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct FailingHooksTests {
    /// Notes what it is asked and told about messages; one of them throws each time.
    private struct Asked<Kind>: AccountModule {
        static var name: String { "\(Kind.self)".lowercased() }
        func register(in hooks: inout ModuleHooks) {
            hooks.isOwn = isOwn
            hooks.messageDeferred = messageDeferred
            hooks.deferralsEnded = deferralsEnded
        }

        private func note(_ what: String, in step: borrowing Step) throws {
            try TestApp.note("module", Self.name, what, in: step)
            if Kind.self == Failing.self { throw TestApp.Refusal() }
        }
        func isOwn(
            _ message: Message, originID: ForeignText?, for account: Account, in step: borrowing Step
        ) throws -> Bool? {
            try note("own \(message.id ?? "-")", in: step)
            return nil
        }
        func messageDeferred(_ message: MessageReceived, in step: borrowing Step) throws {
            try note("deferred \(message.message.id ?? "-")", in: step)
        }
        func deferralsEnded(isLost: Bool, of account: Account, in step: borrowing Step) throws {
            try note("ended \(isLost)", in: step)
        }
    }
    private enum Failing {}
    private enum Sound {}

    @Test(
        "X9 a module that throws in a hook about messages is reported; the others are asked and the message counts once"
    )
    func hooks() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected { $0.modules = [Asked<Failing>(), Asked<Sound>()] }
            let events = EventReader(account)
            try await account.listen(as: "test", TestApp.Deferring().durable)
            // The server bounces a message of a room to an account whose presence it has not got.
            try await account.caughtUp()
            rig.bot.send(
                Message(to: AccountRig.alice, type: .groupchat, id: "room", body: "hello").element)
            try await account.caughtUp()
            await events.until("moduleFailed failing")
            rig.bot.send(rig.messageToAlice("late", "later"))
            try await account.caughtUp()
            await events.until("moduleFailed failing")
            let receipt = try #require(try account.store.notes("receipt").first?.dropFirst("late: ".count))
            #expect(
                try await account.acknowledge(
                    JSONDecoder().decode(DeferredStanza.self, from: Data(receipt.utf8))))
            await events.until("moduleFailed failing")
            try await account.suspend()
            try await account.connect()
            try await account.caughtUp()
            #expect(try account.store.notes("message") == ["room: hello", "late: later"])
            let notes = try account.store.notes("module")
            #expect(
                notes == [
                    "sound: ended true", "sound: own room", "sound: deferred late", "sound: ended false",
                ])
        }
    }
}
