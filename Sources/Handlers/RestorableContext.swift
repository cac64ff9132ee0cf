/// A context that is stored with its handler for a later call.
///
/// A handler that failed is tried again, one that this process does not know or must not run waits for another
/// process, and an ``AsyncHandler`` runs after the step: each needs what it was called with a second time. What cannot
/// be stored, such as a live account, comes from the **environment** in which it is made again.
///
/// A Codable context needs nothing more than the conformance:
///
/// ```swift
/// struct UploadSlot: RestorableContext, Codable { var url: String }
/// ```
public protocol RestorableContext: Sendable {
    /// The environment of the call. Nil if the context can be restored without one.
    var environment: (any HandlerEnvironment)? { get }

    /// How the context is stored and made again; given for a Codable context.
    static var storage: ContextStorage<Self> { get }
}

/// The stored form of a context: bytes, and how they are made and read.
///
/// ```swift
/// struct Word: RestorableContext {
///     let text: String
///     static let storage = ContextStorage<Word>(
///         encode: { Array($0.text.utf8) }, decode: { bytes, _ in Word(text: String(decoding: bytes, as: UTF8.self)) })
/// }
/// ```
public struct ContextStorage<Context: Sendable>: Sendable {
    let encode: @Sendable (Context) throws -> [UInt8]
    let decode: @Sendable ([UInt8], (any HandlerEnvironment)?) throws -> Context
    let fingerprint: (@Sendable (Context) -> UInt64)?

    /// Makes a stored form.
    ///
    /// - Parameters:
    ///   - encode: Returns bytes in any form that `decode` reads. If it throws, the call cannot be kept, and the handler is
    ///     quarantined as with a context that is not restorable.
    ///   - decode: Makes the context again from its bytes and from the object that serves the same scope in this process; nil
    ///     for a context without one. If it throws, the row is quarantined with the error.
    ///   - fingerprint: Returns a number that differs between calls of a standing handler, so that the call which kills its
    ///     process is found. It is computed before each such call; nil for a hash of the bytes.
    public init(
        encode: @escaping @Sendable (Context) throws -> [UInt8],
        decode: @escaping @Sendable ([UInt8], (any HandlerEnvironment)?) throws -> Context,
        fingerprint: (@Sendable (Context) -> UInt64)? = nil
    ) {
        (self.encode, self.decode, self.fingerprint) = (encode, decode, fingerprint)
    }
}

extension RestorableContext {
    public var environment: (any HandlerEnvironment)? { nil }

    /// The bytes from which ``restored(from:in:)`` makes the context again.
    func storedBytes() throws -> [UInt8] { try Self.storage.encode(self) }

    static func restored(from bytes: [UInt8], in environment: (any HandlerEnvironment)?) throws -> Self {
        try storage.decode(bytes, environment)
    }

    /// Distinguishes one call of a standing handler from another.
    var callFingerprint: UInt64 {
        let storage = Self.storage
        if let fingerprint = storage.fingerprint { return fingerprint(self) }
        return StableHash((try? storage.encode(self)) ?? []).value
    }
}

extension RestorableContext where Self: Codable {
    public static var storage: ContextStorage<Self> {
        ContextStorage(
            encode: { try ArgumentCoding.encode($0) },
            decode: { bytes, _ in try ArgumentCoding.value(Self.self, from: bytes) })
    }
}

/// A context whose bytes the library makes and reads.
package protocol StoredContext: RestorableContext {
    /// Differs between calls of a standing handler; given as a hash of the bytes.
    var fingerprint: UInt64 { get }

    func stored() throws -> [UInt8]
    init(restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?) throws
}

extension StoredContext {
    package var fingerprint: UInt64 { StableHash((try? stored()) ?? []).value }

    public static var storage: ContextStorage<Self> {
        ContextStorage(
            encode: { try $0.stored() }, decode: Self.init(restoring:in:), fingerprint: { $0.fingerprint })
    }
}

/// A context that handlers may also take in another form, such as one with a payload's type.
///
/// Only the handler's type says in which form it takes what arrived, and that type is known when its row is called. Where
/// both forms can be stored, they are stored in the same way, so that a call that was quarantined or parked finds its handler too.
package protocol ConvertibleContext: Sendable {
    /// - Returns: Nil when there is no such form.
    /// - Throws: ``HandlerError`` `wrongArgument` when what arrived does not have that form.
    func converted(to context: any Sendable.Type) throws -> (any Sendable)?
}

/// Environment of handlers, such as one account.
///
/// Handlers are stored with its ``scope``; whatever object serves the same scope, in this process or another one,
/// makes their contexts again. ``HandlerRunner/attach(_:isConnected:)`` gives it to a runner.
///
/// ```swift
/// final class Shop: HandlerEnvironment {
///     let scope = HandlerScope(rawValue: "shop")
/// }
/// try runner.attach(Shop())
/// ```
public protocol HandlerEnvironment: Sendable {
    /// The name under which it is stored: the same in every process.
    var scope: HandlerScope { get }
}

/// The stored name of a ``HandlerEnvironment``.
///
/// ```swift
/// try step.schedule(CloseShop().durable, after: .seconds(3600), in: HandlerScope(rawValue: "shop"))
/// ```
public struct HandlerScope: PrintedRawValue, RawRepresentable, Hashable, Sendable, Codable,
    CustomStringConvertible
{
    public var rawValue: String { name.string }
    private let name: Name

    /// Makes a scope.
    ///
    /// - Parameter rawValue: What is stored: 512 bytes of UTF-8 at most, the same in every process and never changed. Two scopes are equal if
    ///   its bytes are.
    public init(rawValue: String) { name = Name(rawValue) }
    package init(_ name: String) { self.init(rawValue: name) }

    // Written out, because those of every RawRepresentable compare the String.
    /// Returns whether both have the same bytes.
    public static func == (left: HandlerScope, right: HandlerScope) -> Bool { left.name == right.name }
    /// Hashes the bytes.
    public func hash(into hasher: inout Hasher) { hasher.combine(name) }
}

/// The context of a timer: a handler bound by ``Step/schedule(_:after:every:in:)``.
///
/// ```swift
/// struct Reminder: Handler {
///     static let id = "demo.reminder"
///     var text: String
///     func run(_ call: borrowing Call<TimerFired>) throws {
///         try call.step.execute("INSERT INTO reminded(text, at) VALUES (?, ?)", text, call.dueAt)
///     }
/// }
/// ```
public struct TimerFired: StoredContext, RestorableContext {
    /// When it was due, by the wall clock.
    public let dueAt: Timestamp
    /// The number of periods that passed while no process ran the timer. The handler is not called for them.
    public let missed: Int64
    /// The environment in which the timer was bound, for example an account. Nil when there is none.
    public let environment: (any HandlerEnvironment)?

    package init(dueAt: Timestamp, missed: Int64 = 0, environment: (any HandlerEnvironment)? = nil) {
        self.dueAt = dueAt
        self.missed = missed
        self.environment = environment
    }

    /// The due time only: after the death of a process the same call repeats later, with more missed periods.
    package var fingerprint: UInt64 { UInt64(bitPattern: dueAt.milliseconds) }

    private struct Stored: Codable {
        var due: Timestamp
        var missed: Int64
    }

    package func stored() throws -> [UInt8] { try ArgumentCoding.encode(Stored(due: dueAt, missed: missed)) }

    package init(restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?) throws {
        let stored = try ArgumentCoding.value(Stored.self, from: bytes)
        self.init(dueAt: stored.due, missed: stored.missed, environment: environment)
    }
}
