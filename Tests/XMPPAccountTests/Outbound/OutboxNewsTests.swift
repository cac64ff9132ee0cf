@testable import Handlers
import HandlersTestKit
import TestSupport
import TestThreads
import Testing

@testable import XMPPAccount

/// What the accounts of a host learn of rows that other processes have stored.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct OutboxNewsTests {
    @Test(
        "G6 a look for rows of others that fails is made again without further news, and in the end by each account"
    )
    func failing() async throws {
        // Without the table of rows each look fails.
        try await withTestStore(registry: HandlerRegistry([])) { test in
            let news = OutboxNews(test.store)
            let mailboxes = try (0..<2).map { _ in try Mailbox(test.store.system.driver) }
            for (account, mailbox) in mailboxes.enumerated() { news.add(Int64(account), mailbox) }
            test.store.listeners.wakeAll()
            for mailbox in mailboxes {
                // As nothing can be read, it may be any row.
                try await eventually { mailbox.removeAll(readUpTo: .max - 1).hasNewRows }
            }
            withExtendedLifetime(news) {}
        }
    }

    @Test("G6 of rows of others only their accounts learn")
    func concerned() async throws {
        try await withTestStore(registry: HandlerRegistry([]), schemas: Account.coreSchemas) { test in
            let news = OutboxNews(test.store)
            let mailboxes = try (0..<2).map { _ in try Mailbox(test.store.system.driver) }
            for (account, mailbox) in mailboxes.enumerated() { news.add(Int64(account) + 1, mailbox) }
            try test.store.step { step in
                try step.execute("INSERT INTO account(id, jid) VALUES (1, 'a@b'), (2, 'c@d')")
                for account in [Int64(1), 2] { try SessionTable(account: account).create(in: step) }
                try OutboxTests.append("one", account: 2, in: step)
            }
            test.store.listeners.wakeAll()
            try await eventually { mailboxes[1].removeAll(readUpTo: 0).hasNewRows }
            #expect(!mailboxes[0].removeAll(readUpTo: 0).hasNewRows)
            withExtendedLifetime(news) {}
        }
    }
}
