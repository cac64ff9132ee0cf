import TestThreads
import Testing

@testable import Simulation

/// Which of the published items count as lost.
@Suite(.ownThread) struct EventAuditTests {
    /// - Parameter stored: Items by the session in which they came, in order.
    private func counts(
        _ stored: [(Int, Int64)], published: Int, session: Int64 = 1
    ) -> Verdict.EventCounts {
        let rows = stored.map {
            EventAudit.Row(n: $0.0, session: $0.1, role: $0.0 % 2 == 0 ? "worker" : "main")
        }
        return EventAudit(rows: rows, published: published, session: session).counts
    }

    @Test("P4 the verdict: all that was published came, some to the worker")
    func all() {
        let counts = counts([(1, 1), (2, 1), (3, 1)], published: 3)
        #expect(counts.stored == 3 && counts.byWorker == 1)
        #expect(counts.lost == 0 && counts.repeated == 0 && counts.replaced == 0)
    }

    @Test("P4 the verdict: a hole inside of a session is a loss, also at the end")
    func holes() {
        #expect(counts([(1, 1), (2, 1), (5, 1)], published: 5).lost == 2)
        #expect(counts([(1, 1), (2, 1)], published: 4).lost == 2)
        #expect(counts([], published: 20).lost == 20)
    }

    @Test(
        "P4 the verdict: what was replaced between sessions, or before the server knew what is wanted, is none"
    )
    func replaced() {
        let between = counts([(1, 1), (2, 1), (6, 2), (7, 2)], published: 7, session: 2)
        #expect(between.lost == 0 && between.replaced == 3)
        // The first one of a session may be the one that is shown.
        let shown = counts([(3, 1), (6, 1), (7, 1)], published: 7)
        #expect(shown.lost == 0 && shown.replaced == 4)
        // The last session started after the last item that came.
        let atEnd = counts([(1, 1), (2, 1)], published: 3, session: 2)
        #expect(atEnd.lost == 0 && atEnd.replaced == 1)
    }

    @Test("P4 the verdict: an item that came twice, or was never published, counts as repeated")
    func repeated() {
        #expect(counts([(1, 1), (1, 2), (2, 2)], published: 2, session: 2).repeated == 1)
        #expect(counts([(1, 1), (9, 1)], published: 1).repeated == 1)
    }
}
