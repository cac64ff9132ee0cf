public import XMPPCore

/// Some items of a node with many, and how to go on.
///
/// ```swift
/// func run(_ call: borrowing Call<PubSubAnswer<PubSubPage>>) throws {
///     guard case .success(let page) = call.outcome else { … }
///     for item in page.items { … }
///     guard let next = page.next else { … }  // that was all
///     try call.account.pubsub.send(next, to: call.service, then: PageFetched().durable, in: call.step)
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
    /// Where the page is in the whole; nil when the service knows no pages and sent everything it has.
    public let page: ResultPage?
    /// Asks for the page that follows, in the direction in which this one was asked for; nil when this is the last one.
    public var next: PubSubOperation<PubSubAnswer<PubSubPage>>? {
        guard let mark else { return nil }
        return .page(of: node, at: request.isBackward ? .before(mark) : .after(mark), limit: request.limit)
    }

    private let node: String
    private let request: Request
    /// The item at which the page that follows begins.
    private let mark: String?

    /// What a page was asked for with; stored.
    struct Request: Codable, Hashable, Sendable {
        var limit: Int
        /// The item at which the page was to begin; nil for the first or the last page.
        var mark: String?
        /// Whether pages are read from the end.
        var isBackward: Bool

        init(_ position: ResultPage.Position, limit: Int) {
            self.limit = limit
            switch position {
            case .start: (mark, isBackward) = (nil, false)
            case .after(let id): (mark, isBackward) = (id, false)
            case .before(let id): (mark, isBackward) = (id, true)
            case .end: (mark, isBackward) = (nil, true)
            }
        }
    }

    /// - Parameter index: The place of the first item in the whole, from 0, if the service says it.
    init(items: [PubSubItem], page: ResultPage?, index: Int?, node: String, request: Request) {
        (self.items, self.page, self.node, self.request) = (items, page, node, request)
        let edge = request.isBackward ? page?.first : page?.last
        // A service that knows no positions sends the same page again and again.
        let isLast = items.isEmpty || edge == request.mark || Self.isAtEdge(items.count, page, index, request)
        mark = isLast ? nil : edge
    }

    private static func isAtEdge(_ items: Int, _ page: ResultPage?, _ index: Int?, _ request: Request) -> Bool
    {
        guard let index else { return false }
        if request.isBackward { return index == 0 }
        return page?.count.map { index >= $0 - items } ?? false
    }
}
