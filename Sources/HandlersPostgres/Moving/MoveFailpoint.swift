import Handlers

/// A named place in a move of a store at which a test makes the process kill itself.
///
/// Present like the runtime's own failpoints, and chosen by the same variable: `HANDLERS_FAILPOINT=name[:kill[:nth]]`.
enum MoveFailpoint: String, CaseIterable {
    /// The target's transaction has started; nothing is marked.
    case begun = "move-begun"
    /// The store that is left is marked; nothing is copied.
    case marked = "move-marked"
    /// A row was copied; nothing is committed.
    case copied = "move-copied"
    /// All rows are in the target and were compared; nothing is committed.
    case verified = "move-verified"
    /// The target has committed; the store that is left does not know it.
    case committed = "move-committed"
    /// The store that is left is retired.
    case retired = "move-retired"
    /// An undone move has not removed its mark.
    case undoing = "move-undoing"

    func hit() throws { try Failpoint.hit(named: rawValue) }
}
