/// What other tables hold of a handler, and what its ending concerns.
struct Relations: OptionSet {
    let rawValue: Int64

    /// A task waits for its ending; see ``HandlerStore/ending(of:)``.
    static let awaited = Relations(rawValue: 1)
    /// Another handler is called when it and others have ended.
    static let child = Relations(rawValue: 2)
    /// It is such a handler, and has children.
    static let parent = Relations(rawValue: 4)
    /// It has a key.
    static let keyed = Relations(rawValue: 8)
    /// It is a timer that follows a calendar.
    static let calendar = Relations(rawValue: 16)
    /// It is in a lane. Set when it is bound and never after.
    static let inLane = Relations(rawValue: 32)
    /// It is a workflow with a journal.
    static let workflow = Relations(rawValue: 64)
    /// Its calls wait for one another.
    static let ordered = Relations(rawValue: 128)
    /// It belongs to a chain with a limit.
    static let inChain = Relations(rawValue: 256)
    /// It has saved its progress.
    static let saved = Relations(rawValue: 512)
    /// Its journal has the order in which results came, so its function stays suspended while it waits; without it, one of the first engine.
    static let suspends = Relations(rawValue: 1024)
    /// A workflow has run it, and waits for its ending.
    static let awaitedByFlow = Relations(rawValue: 2048)
    /// It is a periodic timer that is paused.
    static let paused = Relations(rawValue: 4096)
}
