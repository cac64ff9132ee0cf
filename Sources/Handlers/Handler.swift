// Handlers: callbacks that outlive the process that made them.
//
// A handler is a named type with Codable arguments. Binding it writes one row next to whatever it waits for; ending
// it deletes that row, writes its effects and leaves an ending, all in one SQLite transaction (a `Step`).
//
//     Handler ──Durable──▶ Step.bind ──▶ row "handler" ──Step.end──▶ HandlerRegistry ──▶ Handler.run(Call)
//     (arguments)              ▲                       (context)                         │
//                              │         row "ending" ◀───────── the same commit ◀──────┘ effects
//                              │
//     HandlerRunner ───────────┘ ends what is due: timers, deadlines, retries, async handlers

/// Name, version and stored arguments of a handler, synchronous or not.
///
/// Conform to ``Handler``, which runs inside the transaction, or to ``AsyncHandler``, which may wait.
public protocol DurableHandler: Codable, Sendable {
    /// Type of the value that the caller supplies. Need not be Codable.
    associatedtype Context: Sendable

    /// The name that is stored. It must never change; a renamed handler lists its old names in ``aliases``.
    ///
    /// There is no default on purpose: a name derived from a Swift name changes when the code is refactored, and
    /// rows that wait under the old name would never be found again.
    static var id: String { get }

    /// The version of the argument list, from 1. Raise it when arguments change incompatibly; see ``upcast(_:from:)``.
    ///
    /// A program with an older version parks the row with its call; a program with this version or a newer one calls it.
    static var version: Int { get }

    /// Former values of ``id`` under which rows may still wait.
    static var aliases: [String] { get }

    /// Turns arguments stored by an older version into those of the next version.
    ///
    /// - Parameters:
    ///   - arguments: The stored arguments by name, changed in place.
    ///   - version: The version to convert from, `1 ..< Self.version`; called once for each version in turn.
    /// - Throws: Any error; the row is then quarantined with it.
    static func upcast(_ arguments: inout Record, from version: Int) throws

    /// The number of attempts of a failing handler and the waits between them; ``RetryPolicy/standard`` unless said otherwise.
    static var retry: RetryPolicy { get }

    /// The processes in which the handler runs; ``Availability/everywhere`` unless said otherwise.
    static var availability: Availability { get }

    /// The bound arguments as a lock file lists them; see ``HandlerRegistry/checkSignatures(against:of:updating:)``.
    ///
    /// They are found by reflection unless said otherwise. Say it where a coding key has another name than its property,
    /// or where a missing argument has a default:
    ///
    /// ```swift
    /// static var storedArguments: [HandlerArgument] {
    ///     [.init("deviceid", UInt32.self), .init("tries", Int.self, hasDefault: true)]
    /// }
    /// ```
    ///
    /// - Throws: ``HandlerError`` with code `unknownSignature` when reflection does not show them.
    static var storedArguments: [HandlerArgument] { get throws(HandlerError) }
}

extension DurableHandler {
    public static var version: Int { 1 }
    public static var aliases: [String] { [] }
    public static func upcast(_ arguments: inout Record, from version: Int) throws {}
    public static var retry: RetryPolicy { .standard }
    public static var availability: Availability { .everywhere }

    /// This handler with its arguments, ready to be stored.
    ///
    /// - Throws: ``HandlerError`` with code `argumentNotEncodable` when an argument cannot be stored, for example
    ///   a `Double` that is not a number.
    public var durable: Durable<Context> { get throws(HandlerError) { try Durable(self) } }
}

/// A named callback whose arguments are stored and which may be called by another process.
///
/// The stored properties of the conforming type are the **bound** arguments: they are encoded by name when the
/// handler is bound. What only the call knows (the live account, a reply) arrives as ``Call/context``.
///
/// ```swift
/// struct Greet: Handler {
///     static let id = "demo.greet"
///     var name: String
///     func run(_ call: borrowing Call<Reply>) throws {
///         try call.step.execute("INSERT INTO greeting(text) VALUES (?)", "\(call.word), \(name)")
///     }
/// }
/// ```
///
/// `run` is synchronous and runs inside the transaction: what it writes through ``Call/step`` commits or rolls back
/// together with the handler's ending, so every effect in the database happens exactly once.
public protocol Handler: DurableHandler {
    // Said again so that the compiler finds it by looking at `run`.
    associatedtype Context

    /// Runs inside the step.
    ///
    /// - Parameter call: What the call supplies: the context and the step. It is lent and cannot be kept.
    /// - Throws: Any error; the handler's writes are undone, and it is tried again as ``DurableHandler/retry`` says
    ///   and then quarantined with the error.
    func run(_ call: borrowing Call<Context>) throws
}

/// A handler that may wait: for the network, a disk, another task.
///
/// It runs outside the transaction, under a lease and **at least once**: when its process dies, another one runs it
/// again, at once. It ends with one closing step, ``AsyncCall/end(_:)``, whose effects in the database happen exactly
/// once; a process that has lost its lease cannot close. Effects elsewhere may be repeated: give
/// ``AsyncCall/idempotencyKey`` to the service that performs them.
///
/// ```swift
/// struct Upload: AsyncHandler {
///     static let id = "demo.upload"
///     var file: String
///     func run(_ call: AsyncCall<UploadSlot>) async throws {
///         try await put(file, at: call.url, key: call.idempotencyKey)
///         try call.end { step in try step.execute("UPDATE upload SET done = 1 WHERE file = ?", file) }
///     }
/// }
/// ```
public protocol AsyncHandler: DurableHandler where Context: RestorableContext {
    // Said again so that the compiler finds it by looking at `run`.
    associatedtype Context

    /// How long one attempt may take, by the machine's clock; nil, unless said otherwise, for any time.
    ///
    /// Then its task is canceled, and the attempt has failed with `tookTooLong`, unless it ends the handler all the same. If the task goes on, the
    /// runner waits for it no longer than ``HandlerRunner/Configuration/grace``.
    static var limit: Duration? { get }

    /// How long an attempt may go on without ``AsyncCall/save(_:note:)``, by the machine's clock; nil, unless said otherwise, for any time.
    ///
    /// A handler that saves its progress shows that it is alive. One that is silent for so long, and up to a quarter longer, has hung: its
    /// task is canceled, and the attempt has failed with `fellSilent`, as with ``limit``.
    static var silence: Duration? { get }

    /// Runs under a lease, outside the transaction.
    ///
    /// Its task is canceled at its ``limit`` or after its ``silence``, when the handler is invalidated or discarded, and when the runner is closed.
    ///
    /// Returning without having called ``AsyncCall/end(_:)`` ends the handler without further effects.
    ///
    /// - Parameter call: The context and the means to end.
    /// - Throws: Any error; it is tried again as ``DurableHandler/retry`` says and then quarantined. An
    ///   error after `end` changes nothing.
    func run(_ call: AsyncCall<Context>) async throws
}

extension AsyncHandler {
    public static var limit: Duration? { nil }
    public static var silence: Duration? { nil }
}

/// The processes in which a handler runs.
///
/// ```swift
/// static let availability = Availability.mainOnly  // in a handler that re-indexes everything
/// ```
public enum Availability: Hashable, Sendable {
    /// Every process that knows the handler.
    case everywhere
    /// The main program only, for work that would be too much for a short-lived worker: a worker leaves it, with
    /// what arrived for it, to the main program.
    case mainOnly
}

/// Retry policy of a handler.
///
/// The wait before attempt n + 1 is `firstDelay * factor^(n - 1)`, at most `longestDelay`, and up to a fifth more, so
/// that what failed together does not come back together.
///
/// ```swift
/// static let retry = RetryPolicy(attempts: 10, firstDelay: .seconds(5), longestDelay: .seconds(600))
/// ```
public struct RetryPolicy: Hashable, Sendable {
    /// Number of attempts before the handler has failed for good, from 1.
    package var attempts: Int
    /// The wait after the first failure.
    package var firstDelay: Duration
    /// The factor by which each wait is longer than the previous one, 1 or more.
    package var factor: Double
    /// The longest wait.
    package var longestDelay: Duration
    /// Number of process deaths during the handler before it has failed for good, from 1.
    package var deaths: Int
    /// Deaths count together while no more time than this lies between one and the next, by the wall clock: what runs for days may be
    /// interrupted now and then.
    public static let deathWindow = Duration.seconds(3600)
    /// Action after the last attempt has failed.
    package var finally: Finally

    /// Action for a handler that has used up its attempts or killed too many processes.
    ///
    /// ```swift
    /// static let retry = RetryPolicy(attempts: 3, finally: .orElse)  // then what was bound with orElse(_:) runs
    /// ```
    ///
    /// A handler that this program cannot call at all, for example because of a stored argument of another type, is
    /// quarantined in either case: a later version of the program can repair that. A failed call of a standing handler is
    /// quarantined too, as the handler itself stays bound.
    public enum Finally: Hashable, Sendable {
        /// Its row and its context stay in quarantine until repaired.
        ///
        /// Requeueing, invalidating or discarding repairs it.
        case quarantine
        /// It is invalidated with the reason `failed`, so what was bound with ``Durable/orElse(_:)`` runs.
        case orElse
    }

    /// Makes a policy. Numbers below their range count as the least that is allowed.
    ///
    /// - Parameters:
    ///   - attempts: How often the handler may throw before it has failed for good, from 1.
    ///   - firstDelay: The wait after the first failure, 0 or more; a part of a millisecond is dropped.
    ///   - factor: How much longer each wait is than the one before it, from 1.
    ///   - longestDelay: The longest wait, before the fifth at most that is added at random.
    ///   - deaths: How often its process may die while the handler runs before it fails for good, from 1. Deaths that are more than
    ///     ``deathWindow`` apart do not count together; the runs in which they were do not count any more either.
    ///   - finally: What happens when it has failed for good.
    public init(
        attempts: Int = 5, firstDelay: Duration = .seconds(1), factor: Double = 4,
        longestDelay: Duration = .seconds(3600), deaths: Int = 5, finally: Finally = .quarantine
    ) {
        self.attempts = max(1, attempts)
        self.firstDelay = firstDelay
        self.factor = max(1, factor)
        self.longestDelay = longestDelay
        self.deaths = max(1, deaths)
        self.finally = finally
    }

    /// Five attempts within about a minute and a half.
    public static let standard = RetryPolicy()
    /// The first error sends the handler to quarantine.
    public static let never = RetryPolicy(attempts: 1)

    /// More than any wait.
    var longestSpreadDelay: Duration {
        let longest = Duration.milliseconds(longestDelay.milliseconds)
        return longest + longest / 4 + .seconds(1)
    }

    /// Returns the wait after a failure, in whole milliseconds.
    ///
    /// - Parameters:
    ///   - attempts: How often the handler threw, from 1.
    ///   - seed: What the spread is drawn from, so that a row always waits equally long.
    package func delay(after attempts: Int, seed: Int64) -> Duration {
        let longest = Double(longestDelay.milliseconds)
        var delay = min(Double(firstDelay.milliseconds), longest)
        var step = 1
        while step < attempts, delay > 0, delay < longest, factor > 1 {
            delay = min(delay * factor, longest)
            step += 1
        }
        // Fibonacci hashing: neighboring rows get waits far apart.
        let hash = UInt64(bitPattern: seed &* 31 &+ Int64(attempts)) &* 0x9e37_79b9_7f4a_7c15
        let spread = delay * (1 + 0.2 * Double(hash >> 11) / Double(1 << 53))
        return .milliseconds(Int64(exactly: spread.rounded(.down)) ?? .max)
    }
}
