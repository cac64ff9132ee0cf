/// The person or program that changes handlers, lanes or timers by hand, and the reason.
///
/// ```swift
/// let author = RepairAuthor("ada", because: "the mail server is back")
/// try store.step { try $0.repair(id, .requeue, by: author) }
/// ```
public struct RepairAuthor: Hashable, Sendable {
    /// The way by which a change came.
    public enum Way: String, Hashable, Sendable, Codable, CaseIterable {
        /// Code of the program.
        case program
        /// `pushwake` on a command line.
        case command
        /// A page for operators.
        case dashboard
    }

    /// The name of the author. Longer than 128 bytes it is cut.
    public let name: String
    /// The reason of the author. Longer than 1024 bytes it is cut.
    public let reason: String?
    /// The way by which the change came.
    public let way: Way

    /// The maximum size of a name in bytes.
    static let longestName = 128
    /// The maximum size of a reason in bytes.
    static let longestReason = 1024

    /// Names an author.
    ///
    /// - Parameters:
    ///   - name: The name, such as `ada@desk`; at most 128 bytes are stored.
    ///   - reason: The reason for the change; at most 1024 bytes are stored. Nil for none.
    ///   - way: The way by which the change comes.
    public init(_ name: String, because reason: String? = nil, by way: Way = .program) {
        self.name = StoredReason(name).words.cut(toBytes: Self.longestName)
        self.reason = reason.map { StoredReason($0).words.cut(toBytes: Self.longestReason) }
        self.way = way
    }
}

/// A change of a handler by hand.
///
/// ```swift
/// try step.repair(id, .runNow, by: RepairAuthor("ada"))
/// ```
public enum HandlerRepair: String, Hashable, Sendable, Codable, CaseIterable {
    /// Requeues a parked or quarantined handler with its stored call.
    case requeue
    /// Ends a handler; what was bound with ``Durable/orElse(_:)`` runs.
    case invalidate
    /// Ends a handler without running anything.
    case discard
    /// Has a runner call a handler now that waits for its time or its next attempt.
    case runNow = "run-now"
    /// Stops the calls of a timer until it is resumed.
    case pause
    /// Has a paused timer called again.
    case resume
}

/// A change by hand, as it is stored.
///
/// ```swift
/// for repair in try store.read({ try $0.repairs(of: id) }) { print(repair) }
/// // 2026-11-28T05:10:14.000Z ada discarded 702 mail.refused: the address is gone
/// ```
public struct Repair: Hashable, Sendable, CustomStringConvertible {
    /// The number of the change; numbers grow.
    public let number: Int64
    /// When it was made, by the wall clock.
    public let at: Timestamp
    /// Who made it, and why.
    public let author: RepairAuthor
    /// What was done: the raw value of a ``HandlerRepair``, or `signal`, `pause-lane`, `resume-lane`, `limit-lane`.
    public let action: String
    /// The handler; nil for a lane, and for a signal that waits.
    public let handler: AnyHandlerID?
    /// The name of the handler or lane, or the key of the signal.
    public let name: String
    /// The state of the handler before the change; nil for a lane or a signal.
    public let stateBefore: HandlerStatus.State?

    public var description: String {
        let row = handler.map { "\($0) " } ?? ""
        return "\(at) \(author.name) \(action) \(row)\(name)\(author.reason.map { ": \($0)" } ?? "")"
    }
}
