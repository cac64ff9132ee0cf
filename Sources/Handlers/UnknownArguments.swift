import Synchronization

/// Reports to a test the call-time arguments that their handler does not have.
///
/// A caller cannot know which handler it calls, so an argument that the handler does not name is ignored; in a test it
/// is most likely a misspelled one.
final class UnknownArguments: Sendable {
    typealias Report = @Sendable (_ handler: String, _ argument: String) -> Void

    private let report = Mutex<Report?>(nil)

    var onUnknown: Report? {
        get { report.withLock { $0 } }
        set { report.withLock { $0 = newValue } }
    }

    /// Reports the names in `overrides` that are no argument of the handler.
    func look<H: DurableHandler>(for handler: H.Type, in overrides: Record) throws(HandlerError) {
        guard !overrides.isEmpty, let report = onUnknown else { return }
        let known = Set(try handler.storedArguments.map(\.name))
        for name in overrides.values.keys.sorted() where !known.contains(name) { report(H.id, name) }
    }
}

extension HandlerRegistry {
    /// Called for each call-time argument that the called handler does not declare. Such arguments are otherwise
    /// ignored; a test can report them as misspelled.
    ///
    /// ```swift
    /// registry.onUnknownArgument = { Issue.record("the handler '\($0)' has no argument '\($1)'") }
    /// ```
    ///
    /// It is called before the handler runs. A handler whose arguments cannot be listed then fails with a
    /// ``HandlerError`` of code `unknownSignature`, which says what to write.
    public var onUnknownArgument: (@Sendable (_ handler: String, _ argument: String) -> Void)? {
        get { unknownArguments.onUnknown }
        set { unknownArguments.onUnknown = newValue }
    }
}
