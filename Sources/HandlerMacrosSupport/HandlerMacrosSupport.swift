// HandlerMacrosSupport: `@Handler`, the short way to write a handler.
//
//     @Handler("id") func f(_ call:, a:) ──▶ struct Handler_f: Handler      what is stored (AsyncHandler: async)
//                                        ──▶ static func f(a:) -> Durable   what binds it
//                                        ──▶ a record in the program file   what finds it after a restart

@_exported public import Handlers

/// Makes a function a handler: a callback that is stored with its arguments and may be called by another process.
///
/// ```swift
/// enum Profile {
///     @Handler("profile.nick-fetched")
///     static func nickFetched(
///         _ call: borrowing Call<PubSubFetch>, contact: Int64, then: Durable<Reply>? = nil
///     ) throws { … }
/// }
///
/// try await account.send(.pubsub(.items(of: node), at: juliet), then: Profile.nickFetched(contact: 42))
/// ```
///
/// The first parameter is what the call supplies: `_ call: borrowing Call<X>`. The labeled ones after it are the
/// **bound** arguments: Codable and Sendable, and stored under their labels. Calling the function's name with the
/// first one left out binds the others and gives a `Durable<X>`. An optional or defaulted argument may be missing
/// where the handler is read again.
///
/// A function that is not `async` runs inside the step, exactly once; see ``/Handlers/Handler`` for what that promises.
/// One that waits is `async`, takes an ``/Handlers/AsyncCall`` and runs outside, at least once, as an
/// ``/Handlers/AsyncHandler``:
///
/// ```swift
/// @Handler("upload.slot-given", retry: .init(attempts: 10), limit: .seconds(600), availability: .mainOnly)
/// static func slotGiven(_ call: AsyncCall<UploadSlot>, file: String) async throws {
///     try await put(file, at: call.url, key: call.idempotencyKey)
///     try call.end { step in try step.execute("UPDATE upload SET done = 1 WHERE file = ?", file) }
/// }
/// ```
///
/// What either returns is kept with the ending, as a result that ``/Handlers/Ending/result(as:)`` reads. An async one ends with what it
/// returns; it calls `end` itself where the ending has effects, and returns nothing.
///
/// Either may throw, and is declared in a type without generic parameters, under a name that no other
/// handler in that type has. Actors and types on the main actor declare it `nonisolated` or `async`; an `async` one
/// runs on its actor.
///
/// Beside the function `f` this adds
/// - `struct Handler_f: Handler` or `AsyncHandler`, the plain form with the same access level, to be listed in a ``/Handlers/HandlerRegistry``;
/// - `static func f(…) throws(HandlerError) -> Durable<X>`, which binds it;
/// - a record in the program file (ELF or Mach-O), through which ``/Handlers/HandlerRegistry/discovered(and:file:line:)``
///   finds it.
///
/// - Parameters:
///   - id: The name that is stored: a plain string literal, unique in the program. It must never change.
///   - version: The version of the argument list, from 1. Raise it when the arguments change incompatibly.
///   - aliases: Former ids, as plain string literals: rows that wait under them still find the handler.
///   - path: For a function of an instance: how the call finds that instance, as source relative to
///     ``/Handlers/Call/context``, such as `"account.omemo"` or `"account?.omemo"`. It is looked up when the handler
///     is called; nil is then a ``/Handlers/HandlerError`` with code `missingInstance`.
///   - upcast: Turns arguments stored by an older version into those of the next one, as
///     ``/Handlers/DurableHandler/upcast(_:from:)`` does: `{ arguments, version in arguments.rename("deviceid", to:
///     "device") }`.
///   - retry: How often and how long it is tried again when it fails.
///   - limit: How long one attempt of an async function may take; see ``/Handlers/AsyncHandler/limit``.
///   - silence: How long an attempt of an async function may go on without saving its progress; see ``/Handlers/AsyncHandler/silence``.
///   - availability: In which processes it runs: `.mainOnly` for what is too much for a short-lived worker.
@attached(peer, names: overloaded, prefixed(Handler_), prefixed(__handlerRecord_))
public macro Handler(
    _ id: String, version: Int = 1, aliases: [String] = [], on path: String? = nil,
    upcast: ((inout Record, Int) throws -> Void)? = nil, retry: RetryPolicy = .standard,
    limit: Duration? = nil, silence: Duration? = nil, availability: Availability = .everywhere
) = #externalMacro(module: "HandlerMacros", type: "HandlerMacro")

/// Turns an async function into a workflow, whose progress is kept; see ``/Handlers/Workflow``.
///
/// ```swift
/// @Workflow("shop.order")
/// static func order(_ flow: Flow, number: String) async throws -> Payment? {
///     try await flow.step { try $0.execute("INSERT INTO letter VALUES (?)", "pay order \(number)") }
///     return try await flow.signal("payment-\(number)", within: .seconds(3 * 24 * 3600))
/// }
/// ```
///
/// `step.start(Shop.order(number: "17"))` starts it. The parameters after the flow are stored, and what it returns is kept with the ending. It
/// adds the same beside the function as
/// ``Handler(_:version:aliases:on:upcast:retry:limit:silence:availability:)``.
///
/// - Parameters:
///   - id: The name that is stored: a plain string literal, unique in the program. It must never change.
///   - version: The version of the argument list, from 1; for changes of the code see ``/Handlers/Flow/version(_:in:)``.
///   - aliases: Former ids, as plain string literals.
///   - upcast: Turns arguments stored by an older version into those of the next one.
///   - retry: How often and how long it is tried again when its process dies, without having come further.
///   - availability: In which processes it runs.
@attached(peer, names: overloaded, prefixed(Handler_), prefixed(__handlerRecord_))
public macro Workflow(
    _ id: String, version: Int = 1, aliases: [String] = [],
    upcast: ((inout Record, Int) throws -> Void)? = nil, retry: RetryPolicy = .standard,
    availability: Availability = .everywhere
) = #externalMacro(module: "HandlerMacros", type: "HandlerMacro")

/// Never compiles: a handler needs an id that never changes. It exists so that the error says what to write.
///
/// - Parameters:
///   - version: As in the macro with an id; so are the others.
///   - aliases: See there.
///   - path: See there.
///   - upcast: See there.
///   - retry: See there.
///   - limit: See there.
///   - silence: See there.
///   - availability: See there.
@attached(peer)
public macro Handler(
    version: Int = 1, aliases: [String] = [], on path: String? = nil,
    upcast: ((inout Record, Int) throws -> Void)? = nil, retry: RetryPolicy = .standard,
    limit: Duration? = nil, silence: Duration? = nil, availability: Availability = .everywhere
) = #externalMacro(module: "HandlerMacros", type: "HandlerMacro")
