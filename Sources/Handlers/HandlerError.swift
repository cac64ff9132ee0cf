/// An error of the handler runtime or its store.
///
/// ```swift
/// do {
///     try store.step { try $0.end(id, .result, with: payment) }
/// } catch let error as HandlerError where error.code == .noSuchHandler {
///     print(error)  // it has ended before
/// }
/// ```
public struct HandlerError: CodedError {
    /// Kind of the error.
    public let code: ErrorCode<HandlerError>
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
    public init(_ code: ErrorCode<HandlerError>, _ message: String, cause: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.cause = cause
    }

    public var description: String { message }

    /// Returns what a closure returns; its error becomes the cause of one with this code.
    ///
    /// - Parameter message: Makes the sentence from that of the closure's error.
    static func explaining<T>(
        _ code: ErrorCode<HandlerError>, _ body: () throws -> T, as message: (String) -> String
    ) throws(HandlerError) -> T {
        do { return try body() } catch {
            throw HandlerError(code, message(plainReason(error)), cause: error)
        }
    }

    /// Whether the store itself failed, so that the whole step must be given up and no handler is to blame.
    package var isStorageFailure: Bool {
        switch code {
        case .databaseLocked, .databaseReadOnly, .databaseCorrupt, .databaseUnavailable, .storageFailed,
            .databaseProtected, .storeSuspended:
            true
        default: false
        }
    }
}

extension HandlerError {
    /// - Parameter path: The file that the system has locked with the device.
    static func protected(_ path: String) -> HandlerError {
        HandlerError(
            .databaseProtected,
            "the file \(path) cannot be read before the device is unlocked; try again then, and give the files of the store the protection 'until first user authentication'"
        )
    }
}

extension ErrorCode where Failure == HandlerError {
    /// No handler of that name is registered in this program.
    package static var unknownHandler: Self { Self(rawValue: "unknown-handler") }
    /// The row was written by a newer version of the handler than this program has.
    package static var newerVersion: Self { Self(rawValue: "newer-version") }
    /// The handler expects another context than the one it was called with.
    package static var wrongContext: Self { Self(rawValue: "wrong-context") }
    /// A mandatory argument is missing.
    package static var missingArgument: Self { Self(rawValue: "missing-argument") }
    /// An argument has another type than the handler declares.
    public static var wrongArgument: Self { Self(rawValue: "wrong-argument") }
    /// Arguments stored by an older version could not be converted; the sentence is the converter's own.
    package static var upcastFailed: Self { Self(rawValue: "upcast-failed") }
    /// An argument cannot be stored.
    public static var argumentNotEncodable: Self { Self(rawValue: "argument-not-encodable") }
    /// The path to the handler's instance gave nil.
    public static var missingInstance: Self { Self(rawValue: "missing-instance") }
    /// The handler row has ended or never existed.
    public static var noSuchHandler: Self { Self(rawValue: "no-such-handler") }
    /// A handler that is invalidated by hand must be invalidated by a process of its program.
    public static var cannotRunHere: Self { Self(rawValue: "cannot-run-here") }
    /// A handler was not called because too many processes died while it ran.
    package static var deadly: Self { Self(rawValue: "deadly") }
    /// The context of a call cannot be stored until the handler can run.
    package static var contextNotRestorable: Self { Self(rawValue: "context-not-restorable") }
    /// An async handler was ended after it had lost its lease or had ended.
    public static var leaseLost: Self { Self(rawValue: "lease-lost") }
    /// An attempt of an async handler took longer than its limit.
    public static var tookTooLong: Self { Self(rawValue: "took-too-long") }
    /// An attempt of an async handler saved no progress for longer than its ``AsyncHandler/silence``.
    public static var fellSilent: Self { Self(rawValue: "fell-silent") }
    /// A handler cannot wait for so many others.
    public static var tooManyChildren: Self { Self(rawValue: "too-many-children") }
    /// Another handler waits for a handler already.
    public static var alreadyJoined: Self { Self(rawValue: "already-joined") }
    /// A handler has ended without a result.
    public static var noResult: Self { Self(rawValue: "no-result") }
    /// A step or a read was started inside a step on the same thread, or a read inside a read.
    package static var nestedStep: Self { Self(rawValue: "nested-step") }
    /// Handlers ended each other deeper than any program means to.
    package static var nestedTooDeep: Self { Self(rawValue: "nested-too-deep") }
    /// Two schemas carry the name of one module.
    package static var duplicateSchema: Self { Self(rawValue: "duplicate-schema") }
    /// A file of the store is encrypted while the device is locked.
    public static var databaseProtected: Self { Self(rawValue: "database-protected") }
    /// The store was suspended; steps and reads go on when it is resumed.
    public static var storeSuspended: Self { Self(rawValue: "store-suspended") }
    /// Another process holds the database's write lock.
    public static var databaseLocked: Self { Self(rawValue: "database-locked") }
    /// The database or its folder cannot be written.
    public static var databaseReadOnly: Self { Self(rawValue: "database-read-only") }
    /// The file is damaged or no SQLite database.
    public static var databaseCorrupt: Self { Self(rawValue: "database-corrupt") }
    /// The database was written by a newer version of this library.
    public static var databaseNewer: Self { Self(rawValue: "database-newer") }
    /// The database was written by an older version of this library, and is only being read.
    package static var databaseOlder: Self { Self(rawValue: "database-older") }
    /// The file is a SQLite database of another program.
    package static var databaseForeign: Self { Self(rawValue: "database-foreign") }
    /// The store was moved to another database, or is being moved; see `StoreMove` of `HandlersPostgres`.
    public static var databaseMoved: Self { Self(rawValue: "database-moved") }
    /// The file cannot be opened.
    public static var databaseUnavailable: Self { Self(rawValue: "database-unavailable") }
    /// The disk is full or failed.
    package static var storageFailed: Self { Self(rawValue: "storage-failed") }
    /// A runner was used after it had been closed.
    package static var runnerClosed: Self { Self(rawValue: "runner-closed") }
    /// The system gives no more threads or files.
    package static var resourcesExhausted: Self { Self(rawValue: "resources-exhausted") }
    /// So many events of a kind wait that no more may be posted.
    public static var tooManyEvents: Self { Self(rawValue: "too-many-events") }
    /// Another handler that has not ended has the key.
    public static var keyTaken: Self { Self(rawValue: "key-taken") }
    /// An operation of a workflow failed, in this run or an earlier one; the sentence is that of the error.
    public static var operationFailed: Self { Self(rawValue: "operation-failed") }
    /// A workflow has more operations than its journal may hold.
    package static var tooManyEntries: Self { Self(rawValue: "too-many-entries") }
    /// The journal of a workflow does not fit the code of this program.
    package static var journalMisfit: Self { Self(rawValue: "journal-misfit") }
    /// A workflow awaits something that is not its flow's.
    package static var foreignWait: Self { Self(rawValue: "foreign-wait") }
    /// A calendar cannot be read, or this machine does not know its time zone.
    public static var invalidCalendar: Self { Self(rawValue: "invalid-calendar") }
    /// The interval of a timer is shorter than a millisecond.
    public static var invalidInterval: Self { Self(rawValue: "invalid-interval") }
    /// A key is empty, too long or holds a character that cannot be stored; or the name of a handler, an event, a module or a scope is
    /// too long.
    public static var invalidKey: Self { Self(rawValue: "invalid-key") }
    /// The name, a limit or a place of a lane is out of its range.
    public static var invalidLane: Self { Self(rawValue: "invalid-lane") }
    /// So many signals wait for a handler with a key that no more may be sent.
    public static var tooManySignals: Self { Self(rawValue: "too-many-signals") }
    /// Another SQLite error: a faulty statement, a constraint.
    public static var sql: Self { Self(rawValue: "sql") }
}
