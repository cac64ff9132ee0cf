/// What a caller of the page may do.
///
/// ```swift
/// let access = DashboardAccess.operator("ada", [.requeue, .runNow])
/// ```
public enum DashboardAccess: Sendable {
    /// Nothing: the page asks for a code.
    case none
    /// See everything but secrets.
    case viewer(name: String?)
    /// See everything but secrets, and change what the actions name.
    case `operator`(_ name: String, _ actions: Set<DashboardAction> = Set(DashboardAction.allCases))

    /// The actions that are allowed.
    var actions: Set<DashboardAction> {
        if case .operator(_, let actions) = self { actions } else { [] }
    }
    var name: String? {
        switch self {
        case .none: nil
        case .viewer(let name): name
        case .operator(let name, _): name
        }
    }
}

/// A change by the page.
public enum DashboardAction: String, Hashable, Sendable, CaseIterable {
    /// Requeues parked and quarantined handlers.
    case requeue
    /// Ends handlers; what was bound for that case runs.
    case invalidate
    /// Ends handlers, and nothing runs.
    case discard
    /// Has handlers called now that wait for their time.
    case runNow = "run-now"
    /// Pauses a timer.
    case pause
    /// Resumes a timer.
    case resume
    /// Gives a signal to a key.
    case signal
    /// Pauses a lane.
    case pauseLane = "pause-lane"
    /// Resumes a lane.
    case resumeLane = "resume-lane"
    /// Sets the limits of a lane.
    case limitLane = "limit-lane"
}
