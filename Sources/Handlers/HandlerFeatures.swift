/// All features of handlers: the only code that names them together.
struct HandlerFeatures {
    /// In the order in which a handler that was kept or has ended leaves them: its chain stays until nothing else needs it.
    static let all: [any HandlerFeature.Type] = [
        Calendars.self, Journals.self, Joins.self, Lanes.self, OrderedCalls.self, SavedProgress.self,
        Chains.self,
    ]

    // What they keep in memory until the end of a step.

    /// The lanes that were read.
    var lanes = OpenLanes()
    /// The chains to which more handlers are bound.
    var openChains: Set<Int64> = []
    /// The workflows that have results which were not delivered when they came.
    var filled: Set<AnyHandlerID> = []

    /// Whether anything in memory is to be stored.
    var hasChanges: Bool { !lanes.changed.isEmpty }

    /// What a savepoint needs to restore.
    var mark: (byName: [Name: OpenLane], changed: Set<Name>) { (lanes.byName, lanes.changed) }

    mutating func undo(to mark: (byName: [Name: OpenLane], changed: Set<Name>)) { lanes.undo(to: mark) }
}

extension Transaction {
    /// Stores what features keep in memory: before the commit, and before a statement that may read it.
    func storeChanges() throws(HandlerError) {
        if features.hasChanges { try lanes.storeChanges() }
    }
}
