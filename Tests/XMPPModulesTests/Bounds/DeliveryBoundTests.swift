import TestThreads
import Testing
import XMPPCore

@testable import XMPPAccount
@testable import XMPPModules

/// The deliveries that nobody asked for, such as those of answers to encrypted messages.
@Suite(.ownThread) struct DeliveryBoundTests {
    @Test(
        "X20 X35 deliveries that no program asked for are limited: the oldest go, and those that a handler waits for stay"
    )
    func bound() async throws {
        try await withFed(ChatModule()) { fed in
            let limit = DeliveryTable.maximumUnasked
            _ = try fed.step { step in
                try step.execute(
                    """
                    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
                    INSERT INTO delivery(account, stanza_id, peer, recipient, sent_at, tries, wait, handler)
                    SELECT ?, 'old-' || i, 'x@y', 'x@y', i, 1, 1, CASE WHEN i = 1 THEN 77 END FROM n
                    """, limit + 100, fed.account.id)
            }
            for number in 0..<300 {
                let message = Message(to: try JID("romeo@localhost"), id: "new-\(number)", body: "x")
                try fed.step { try fed.account.chat.send(completed: message, acknowledged: nil, in: $0) }
            }
            let count = try fed.store.number("SELECT count(*) FROM delivery")
            #expect(count <= Int64(limit + 2 * DeliveryTable.trimInterval), "\(count)")
            #expect(try fed.store.number("SELECT count(*) FROM delivery WHERE stanza_id = 'old-1'") == 1)
            #expect(try fed.store.number("SELECT count(*) FROM delivery WHERE stanza_id LIKE 'new-%'") == 300)
        }
    }
}
