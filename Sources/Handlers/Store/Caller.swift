/// The processes that may call a due row: rows that this process cannot take now must not block those it can.
///
/// Stored in the column `lane`, whose name is older than the lanes that a program names; see ``LaneRule``.
package enum Caller: Int64, CaseIterable {
    /// Any process, in its step.
    case inStep = 0
    /// The main program, in its step.
    case inStepOfMain = 1
    /// Any process, under a lease.
    case leased = 2
    /// The main program, under a lease.
    case leasedToMain = 3

    init(_ definition: Definition) {
        self =
            switch (definition.isAsync, definition.availability) {
            case (false, .everywhere): .inStep
            case (false, .mainOnly): .inStepOfMain
            case (true, .everywhere): .leased
            case (true, .mainOnly): .leasedToMain
            }
    }

    /// Whether its rows run under a lease.
    var isLeased: Bool { self == .leased || self == .leasedToMain }

    /// Whether only the main program may call its rows.
    package var isOfMain: Bool { self == .inStepOfMain || self == .leasedToMain }

    /// The callers that a process can be.
    static func open(to role: HandlerStore.Role, leasing: Bool) -> [Caller] {
        var callers: [Caller] = role == .main ? [.inStep, .inStepOfMain] : [.inStep]
        if leasing { callers += role == .main ? [.leased, .leasedToMain] : [.leased] }
        return callers
    }
}
