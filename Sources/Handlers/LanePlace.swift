/// The place of a handler in a lane.
///
/// ```swift
/// LanePlace("mail", priority: 3, orderedBy: "customer-17")
/// ```
public struct LanePlace: Hashable, Sendable {
    /// The name of the lane.
    public var lane: String { name.string }
    let name: Name
    /// How urgent it is: one more is worth a minute of waiting.
    public let priority: Int
    /// Handlers of the lane with the same key run one after the other; nil for one that waits for no other.
    public var orderKey: String? { key?.string }
    let key: Name?
    /// Whose share of the lane it uses; nil for that of all handlers without one.
    public var share: String? { shareName?.string }
    let shareName: Name?
    /// How many of its share start while one starts of a share with the weight 1.
    public let weight: Int

    /// How much sooner one step of priority lets a handler start. One of a lower priority waits so much longer and no more.
    public static let agingTime = Duration.seconds(60)
    /// The priorities that a place may have.
    public static let priorities = -100...100
    /// The weights that a place may have.
    public static let weights = 1...1000

    /// Describes a place; the step that stores it checks it.
    ///
    /// - Parameters:
    ///   - lane: The name of the lane, 1 to 128 bytes of UTF-8, without U+0000. A lane that nobody described has no limits.
    ///   - priority: -100 to 100. A handler starts before all that came up to ``agingTime`` earlier and have one less.
    ///   - key: 1 to 512 bytes of UTF-8, without U+0000. Of the lane's handlers with this key, each starts when the one before it has
    ///     ended or is quarantined, in the order in which they came, whatever their priorities.
    ///   - share: Whose share of the lane it uses, 1 to 512 bytes of UTF-8, without U+0000: a customer, a tenant. While handlers of several
    ///     shares wait, these start by turns, so 10 000 of one customer hold up no three of another. Within a share the priority decides.
    ///     Handlers without one have a share together.
    ///   - weight: 1 to 1000. Of a share with the weight 3, three start while one starts of a share with the weight 1.
    public init(
        _ lane: String, priority: Int = 0, orderedBy key: String? = nil, share: String? = nil, weight: Int = 1
    ) {
        (name, self.priority, self.key) = (Name(lane), priority, key.map { Name($0) })
        (shareName, self.weight) = (share.map { Name($0) }, weight)
    }
}
