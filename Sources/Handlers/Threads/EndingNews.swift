import Synchronization

/// Wakes those who wait for the ending of one handler.
final class EndingNews: Sendable {
    private struct State {
        var waiters: [AnyHandlerID: (news: News, count: Int)] = [:]
    }

    private let state = Mutex(State())

    func announce(_ id: AnyHandlerID) { state.withLock { $0.waiters[id]?.news }?.announce() }

    /// Another process has committed, and may have ended any of them.
    func announceAll() { for news in state.withLock({ $0.waiters.values.map(\.news) }) { news.announce() } }

    /// Lends what is announced when a handler ends.
    func withNews<R>(of id: AnyHandlerID, _ body: (News) async throws -> R) async rethrows -> R {
        let news = state.withLock { state in
            let known = state.waiters[id] ?? (News(), 0)
            state.waiters[id] = (known.news, known.count + 1)
            return known.news
        }
        defer {
            state.withLock { state in
                state.waiters[id]?.count -= 1
                if state.waiters[id]?.count == 0 { state.waiters[id] = nil }
            }
        }
        return try await body(news)
    }
}
