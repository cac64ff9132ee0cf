import Handlers

/// The decision about the own device on the server: a rule without store.
enum OmemoAnnouncement: Hashable {
    /// Nothing, or nothing yet.
    case none
    /// Another device has our number: take another one.
    case renumber
    /// Publish the bundle; the list follows.
    case publishBundle
    /// Publish the list with our device on it.
    case publishList
    /// Another client removes our device again and again: stop.
    case giveUp

    /// The maximum number of times that the own device is put back on the list in ``window``.
    static let maximumAnnouncements = 3
    static let window = Duration.seconds(600)

    /// - Parameters:
    ///   - state: What of the own keys is on the server.
    ///   - isOnList: Whether the own list of this version names us; nil when it is not known.
    ///   - isOnAnyList: Whether a list of any version names us.
    ///   - wasEverPublished: Whether anything of this device was ever published, in any version.
    static func next(
        _ state: OmemoPublicationTable.State, isOnList: Bool?, isOnAnyList: Bool, wasEverPublished: Bool,
        now: Timestamp
    ) -> OmemoAnnouncement {
        // "A device MUST check whether that device id already exists, and if so, generate a new one" (section 6).
        if !wasEverPublished && isOnAnyList { return .renumber }
        guard let isOnList, !state.hasFailed else { return .none }
        if state.published < state.revision { return state.sending == nil ? .publishBundle : .none }
        if isOnList || state.isListSending { return .none }
        let isNewWindow = now - state.announcedAt > window
        return isNewWindow || state.announcements < maximumAnnouncements ? .publishList : .giveUp
    }
}
