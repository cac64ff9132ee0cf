import AccountTestSupport
import TestSupport
import TestThreads
import Testing
import XMPPCore
import XMPPTestKit

@testable import XMPPAccount

/// What one turn of an account leaves to the next.
@Suite(.ownThread, .timeLimit(.minutes(1))) struct AccountTurnTests {
    @Test(
        "X8 an answer that waits in the socket, behind what was read and is not taken in yet, is no missing one"
    )
    func answerBehind() async throws {
        try await withRig { rig in
            let account = try rig.account { $0.acknowledgementTimeout = .seconds(2) }
            TestApp.told.withLock { $0["behind"] = "0" }
            try await account.listen()
            try await account.connect()
            try await account.caughtUp()
            // Read at once, and twice as long as the server may take for an answer.
            rig.server.pause([.writing])
            for number in 0..<120 { rig.bot.send(rig.messageToAlice("b\(number)", "slow behind 0")) }
            rig.server.unpause()
            try await eventually("some were handled") { try account.store.notes("message").count >= 3 }
            try await account.requestAcknowledgement()
            try await eventually("all were handled") { try account.store.notes("message").count == 120 }
            try await account.caughtUp()
            #expect(!rig.server.log.entries.contains { $0.event == .detached })
        }
    }

    @Test(
        "A3 what a step of the loop itself sends does not wake the loop again, what another step sends does")
    func ownRows() async throws {
        try await withRig { rig in
            let account = try rig.account()
            try account.store.step { step in
                account.mailbox.asLoop { account.wakeAfterCommit(step) }
            }
            #expect(!account.mailbox.removeAll(readUpTo: 0).hasNewRows)
            try account.store.step { account.wakeAfterCommit($0) }
            #expect(account.mailbox.removeAll(readUpTo: 0).hasNewRows)
        }
    }
}
