/// An error of the handler runtime or its store, with a sentence that says what to do.
///
/// ```swift
/// do {
///     try store.step { try $0.end(id, .result, with: payment) }
/// } catch let error as HandlerError where error.code == .noSuchHandler {
///     print(error)  // it has ended before
/// }
/// ```
public struct HandlerError: Error, Sendable, CustomStringConvertible {
    /// Kind of error; open for new kinds.
    public struct Code: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }
        public var description: String { rawValue }

        /// No handler of that name is registered in this program.
        package static let unknownHandler = Code(rawValue: "unknown-handler")
        /// The row was written by a newer version of the handler than this program has.
        package static let newerVersion = Code(rawValue: "newer-version")
        /// The handler expects another context than the one it was called with.
        package static let wrongContext = Code(rawValue: "wrong-context")
        /// A mandatory argument is missing.
        package static let missingArgument = Code(rawValue: "missing-argument")
        /// An argument has another type than the handler declares.
        package static let wrongArgument = Code(rawValue: "wrong-argument")
        /// Arguments stored by an older version could not be converted; the sentence is the converter's own.
        package static let upcastFailed = Code(rawValue: "upcast-failed")
        /// An argument cannot be stored.
        package static let argumentNotEncodable = Code(rawValue: "argument-not-encodable")
        /// The path to the handler's instance gave nil.
        package static let missingInstance = Code(rawValue: "missing-instance")
        /// The handler row has ended or never existed.
        public static let noSuchHandler = Code(rawValue: "no-such-handler")
        /// A handler was not called because too many processes died while it ran.
        package static let deadly = Code(rawValue: "deadly")
        /// The context of a call cannot be stored until the handler can run.
        package static let contextNotRestorable = Code(rawValue: "context-not-restorable")
        /// An async handler was ended after it had lost its lease or had ended.
        public static let leaseLost = Code(rawValue: "lease-lost")
        /// A step or a read was started inside a step on the same thread, or a read inside a read.
        package static let nestedStep = Code(rawValue: "nested-step")
        /// Handlers ended each other deeper than any program means to.
        package static let nestedTooDeep = Code(rawValue: "nested-too-deep")
        /// Two schemas carry the name of one module.
        package static let duplicateSchema = Code(rawValue: "duplicate-schema")
        /// Another process holds the database's write lock.
        public static let databaseLocked = Code(rawValue: "database-locked")
        /// The database or its folder cannot be written.
        public static let databaseReadOnly = Code(rawValue: "database-read-only")
        /// The file is damaged or no SQLite database.
        public static let databaseCorrupt = Code(rawValue: "database-corrupt")
        /// The database was written by a newer version of this library.
        public static let databaseNewer = Code(rawValue: "database-newer")
        /// The database was written by an older version of this library, and is only being read.
        package static let databaseOlder = Code(rawValue: "database-older")
        /// The file is a SQLite database of another program.
        package static let databaseForeign = Code(rawValue: "database-foreign")
        /// The file cannot be opened.
        public static let databaseUnavailable = Code(rawValue: "database-unavailable")
        /// The disk is full or failed.
        package static let storageFailed = Code(rawValue: "storage-failed")
        /// A runner was used after it had been closed.
        package static let runnerClosed = Code(rawValue: "runner-closed")
        /// The system gives no more threads or files.
        package static let resourcesExhausted = Code(rawValue: "resources-exhausted")
        /// So many events of a kind wait that no more may be posted.
        public static let tooManyEvents = Code(rawValue: "too-many-events")
        /// Another SQLite error: a faulty statement, a constraint.
        public static let sql = Code(rawValue: "sql")
    }

    /// Kind of the error.
    public let code: Code
    /// A sentence that says what happened and what to do.
    public let message: String
    /// The error beneath, if there is one.
    public let cause: (any Error)?

    /// Makes an error, for handlers and upcasts of a program's own.
    ///
    /// - Parameters:
    ///   - code: What went wrong.
    ///   - message: A sentence that says what happened and what to do.
    ///   - cause: The error beneath; nil for none.
    public init(_ code: Code, _ message: String, cause: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.cause = cause
    }

    public var description: String { message }

    /// Whether the store itself failed, so that the whole step must be given up and no handler is to blame.
    package var isStorageFailure: Bool {
        switch code {
        case .databaseLocked, .databaseReadOnly, .databaseCorrupt, .databaseUnavailable, .storageFailed: true
        default: false
        }
    }
}
