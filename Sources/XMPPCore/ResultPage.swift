/// A page of a long result, with the ids to request the next one.
///
/// ```swift
/// let page = ResultPage(in: answer)
/// let next = page?.last.map { ResultPage.request(.after($0), limit: 50) }
/// ```
///
/// Source: XEP-0059.
public struct ResultPage: Hashable, Sendable {
    /// The id of the first item; nil in an empty page.
    public var first: ForeignText?
    /// The id of the last item; nil in an empty page.
    public var last: ForeignText?
    /// The number of items in the whole result, if the server sends it. It may be an estimate.
    public var count: Int?

    /// Makes the description of a page; by default of an empty one.
    ///
    /// - Parameters:
    ///   - first: The id of the first item; nil for none.
    ///   - last: The id of the last item; nil for none.
    ///   - count: How many items there are in all, 0 or more; nil when that is not known.
    package init(first: ForeignText? = nil, last: ForeignText? = nil, count: Int? = nil) {
        (self.first, self.last, self.count) = (first, last, count)
    }

    /// Reads `<set/>` out of what holds it; nil when there is none.
    ///
    /// - Parameter parent: What holds it, such as `<fin/>` or `<pubsub/>`.
    public init?(in parent: Element) {
        guard let set = parent.child("set", Namespaces.rsm) else { return nil }
        first = Self.id("first", set)
        last = Self.id("last", set)
        count = (try? set.value(at: "count", as: Int.self)).flatMap { $0 >= 0 ? $0 : nil }
    }

    /// An id; nil for an empty one, which stands for an end of the result where it is sent back (XEP-0059 section 2.5).
    private static func id(_ name: String, _ set: Element) -> ForeignText? {
        set.child(name, Namespaces.rsm).map(\.text).flatMap { $0.isEmpty ? nil : $0 }
    }

    /// The position of a requested page.
    ///
    /// ```swift
    /// let newest = ResultPage.request(.end, limit: 20)
    /// ```
    public enum Position: Hashable, Sendable {
        /// The first one.
        case start
        /// Items after the one with this id.
        case after(ForeignText)
        /// The items before this one.
        case before(ForeignText)
        /// The last one.
        case end
    }

    /// Returns the element that requests a page.
    ///
    /// - Parameters:
    ///   - position: Where the page is.
    ///   - limit: How many items it may have; 1 or more.
    /// - Returns: A `<set/>`, to be put into the request (XEP-0059 section 2).
    public static func request(_ position: Position, limit: Int) -> Element {
        var set = Element(
            "set", namespace: Namespaces.rsm,
            children: [Element("max", namespace: Namespaces.rsm, text: String(limit))])
        switch position {
        case .start: break
        case .after(let id): set.append(Element("after", namespace: Namespaces.rsm, text: id))
        case .before(let id): set.append(Element("before", namespace: Namespaces.rsm, text: id))
        case .end: set.append(Element("before", namespace: Namespaces.rsm))
        }
        return set
    }
}
