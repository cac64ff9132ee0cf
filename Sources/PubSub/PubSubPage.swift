public import XMPPCore

/// Some items of a node with many, and how to go on.
///
/// ```swift
/// func run(_ call: borrowing Call<PubSubAnswer<PubSubPage>>) throws {
///     guard case .success(let page) = call.outcome else { return }
///     for item in page.items { … }
///     guard let next = page.next else { return }  // that was all
///     try call.account.send(.pubsub(next, at: call.service), then: PageFetched().durable, in: call.step)
/// }
/// ```
///
/// What the handler stores of a page and the request for the next one commit together, so a process that dies between
/// two pages loses none and asks for none twice.
///
/// Source: XEP-0060 section 6.5.4, XEP-0059.
public struct PubSubPage: Hashable, Sendable {
    /// The items of this page, in the order of the answer.
    public let items: [PubSubItem]
    /// The position of the page in the whole. Nil if the service has no pages and sent all items.
    public let page: ResultPage?
    /// The request for the next page in the same direction. Nil when this is the last one, and
    /// when the service leads in a circle.
    public var next: PubSubOperation<PubSubAnswer<PubSubPage>>? { following.map { .page(of: node, $0) } }

    private let node: ForeignText
    /// The request for the next page.
    private let following: Request?

    /// The stored request for a page.
    struct Request: Codable, Hashable, Sendable {
        var limit: Int
        /// The item at which the page was to start; nil for the first or the last page.
        var mark: ForeignText?
        /// Whether pages are read from the end.
        var isBackward: Bool
        /// The number of pages read before it; nil for none.
        var pages: Int?
        /// The digest of an earlier page: a page with the same digest closes a circle.
        var earlier: Int64?

        init(_ position: ResultPage.Position, limit: Int) {
            self.limit = limit
            switch position {
            case .start: (mark, isBackward) = (nil, false)
            case .after(let id): (mark, isBackward) = (id, false)
            case .before(let id): (mark, isBackward) = (id, true)
            case .end: (mark, isBackward) = (nil, true)
            }
        }

        /// The position of the page.
        var position: ResultPage.Position {
            guard let mark else { return isBackward ? .end : .start }
            return isBackward ? .before(mark) : .after(mark)
        }

        /// Returns the next request after a page; nil if that page was here before.
        ///
        /// Of all pages one is remembered, the 1st, 2nd, 4th, 8th and so on: a circle of any length is met again before
        /// three times as many pages were read (Brent's algorithm), and what is stored does not grow.
        func following(_ mark: ForeignText, page digest: Int64) -> Request? {
            guard digest != earlier else { return nil }
            var next = self
            let read = (pages ?? 0) &+ 1
            (next.mark, next.pages) = (mark, read)
            if read & (read &- 1) == 0 { next.earlier = digest }
            return next
        }
    }

    /// - Parameter index: The place of the first item in the whole, from 0, if the service says it.
    init(items: [PubSubItem], page: ResultPage?, index: Int?, node: ForeignText, request: Request) {
        (self.items, self.page, self.node) = (items, page, node)
        let edge = request.isBackward ? page?.first : page?.last
        // A service that knows no positions sends the same page again and again; one without a name leads to the start.
        let isLast =
            edge == request.mark || edge == ""
            || Self.isAtEdge(items.count, page, index, request)
        following =
            isLast ? nil : edge.flatMap { request.following($0, page: Self.digest(items, edge: $0.string)) }
    }

    private static func isAtEdge(_ items: Int, _ page: ResultPage?, _ index: Int?, _ request: Request) -> Bool
    {
        guard let index else { return false }
        if request.isBackward { return index == 0 }
        return page?.count.map { index >= $0 - items } ?? false
    }

    /// Returns a digest of the ids of a page, in their order. An item that was published again has another place then.
    ///
    /// - Parameter edge: The page's end: all that is known of one whose items could not be read.
    private static func digest(_ items: [PubSubItem], edge: String) -> Int64 {
        var hash = StableHash()
        let items = items.isEmpty ? [PubSubItem(id: edge)] : items
        for item in items {
            hash.combine((item.id ?? "").utf8)
            hash.combine(0xff)
        }
        return hash.stored
    }
}
