import Synchronization

/// Wakes those who wait for the ending of one handler.
final class EndingNews: Sendable {
    private let waiters = Mutex<[AnyHandlerID: (news: News, count: Int)]>([:])

    func announce(_ id: AnyHandlerID) { waiters.withLock { $0[id]?.news }?.announce() }

    /// Another process has committed, and may have ended any of them.
    func announceAll() { for news in waiters.withLock({ $0.values.map(\.news) }) { news.announce() } }

    /// Lends what is announced when a handler ends.
    func withNews<R>(of id: AnyHandlerID, _ body: (News) async throws -> R) async rethrows -> R {
        let news = waiters.withLock { waiters in
            let known = waiters[id] ?? (News(), 0)
            waiters[id] = (known.news, known.count + 1)
            return known.news
        }
        defer {
            waiters.withLock { waiters in
                waiters[id]?.count -= 1
                if waiters[id]?.count == 0 { waiters[id] = nil }
            }
        }
        return try await body(news)
    }
}
