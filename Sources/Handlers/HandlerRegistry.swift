import CHandlerRecords
import Synchronization

/// Finds the definition of a stored handler by its name.
///
/// ```swift
/// let registry = HandlerRegistry([Greet.self, Thank.self])   // explicit
/// let everything = HandlerRegistry.discovered()              // every @Handler in this program (ELF)
/// ```
public final class HandlerRegistry: Sendable {
    private let definitions = Mutex<[Name: Definition]>([:])
    /// The names of handlers that modules brought.
    private let moduleNames = Mutex<Set<Name>>([])
    let unknownArguments = UnknownArguments()
    /// What handlers need from outside, by its type.
    let services = Mutex<[ObjectIdentifier: any Sendable]>([:])

    /// Makes a registry of the listed handlers.
    ///
    /// - Parameters:
    ///   - handlers: The handlers, in any order. Two of one name trap; see ``register(_:file:line:)``.
    ///   - file: Where it is made, for the message about a duplicate.
    ///   - line: The line there.
    public init(
        _ handlers: [any DurableHandler.Type] = [], file: StaticString = #fileID, line: UInt = #line
    ) {
        for handler in handlers { register(handler, file: file, line: line) }
    }

    /// Makes a registry of all `@Handler` functions, plus the listed handlers.
    ///
    /// The macro leaves one record per handler in a section of the program file, so none can be forgotten. This
    /// needs a program in ELF format; elsewhere list the handlers.
    ///
    /// - Parameters:
    ///   - handlers: Those in plain form, which leave no record: `PubSubService.handlers`, for example.
    ///   - file: Where it is made, for the message about a duplicate.
    ///   - line: The line there.
    /// - Returns: The registry. Two handlers of one name trap; see ``register(_:file:line:)``.
    public static func discovered(
        and handlers: [any DurableHandler.Type] = [], file: StaticString = #fileID, line: UInt = #line
    ) -> HandlerRegistry {
        let registry = HandlerRegistry(handlers, file: file, line: line)
        let pointer = UnsafeRawPointer(Unmanaged.passUnretained(registry).toOpaque())
        for index in 0..<dh_handler_record_count() { dh_handler_record_at(index)?(pointer) }
        return registry
    }

    /// Adds a handler under its id and aliases.
    ///
    /// Two handlers of one name would make it a matter of luck which of them a stored row calls, so a duplicate
    /// traps at start and names both places; so does a type that is no ``Handler``, ``AsyncHandler`` or ``Workflow``.
    /// Registering the same type again does nothing.
    ///
    /// - Parameters:
    ///   - type: The handler.
    ///   - file: Where it is registered, for the message about a duplicate.
    ///   - line: The line there.
    public func register<H: DurableHandler>(_ type: H.Type, file: StaticString = #fileID, line: UInt = #line)
    {
        let definition = Definition(type, place: "\(file):\(line)", unknownArguments)
        definitions.withLock { definitions in
            for name in Self.names(of: type) {
                if let other = definitions[name] ?? Self.own(named: name),
                    other.type != ObjectIdentifier(type)
                {
                    // A programming error that would call the wrong code later: stop at the first start.
                    fatalError(
                        "two handlers are named '\(name)': \(String(reflecting: other.handler)), registered at \(other.place), and \(String(reflecting: type)), registered at \(file):\(line); rename one of them"
                    )
                }
                definitions[name] = definition
            }
        }
    }

    /// Adds the handlers of modules.
    func register(ofModules handlers: [any DurableHandler.Type]) {
        for handler in handlers { register(handler) }
        moduleNames.withLock { $0.formUnion(handlers.flatMap { Self.names(of: $0) }) }
    }

    private static func names(of handler: any DurableHandler.Type) -> [Name] {
        ([handler.id] + handler.aliases).map { Name($0) }
    }

    /// Returns whether a handler belongs to a module, or to the runtime, and not to the program.
    func isOfModule(_ name: Name) -> Bool {
        Self.own(named: name) != nil || moduleNames.withLock { $0.contains(name) }
    }

    /// The names and aliases of all registered handlers, sorted.
    package var names: [Name] { definitions.withLock { $0.keys.sorted() } }

    /// Returns whether a handler of that name or alias is registered.
    package func knows(_ name: Name) -> Bool { definition(named: name) != nil }

    /// Each definition once, whatever aliases it has.
    var distinctDefinitions: [Definition] {
        definitions.withLock { definitions in definitions.filter { $0.key == $0.value.id }.map(\.value) }
    }

    /// The longest that any handler waits between two attempts.
    var longestRetryDelay: Duration {
        let policies = definitions.withLock { $0.values.map(\.retry) } + [.standard]
        return policies.map(\.longestSpreadDelay).max() ?? .zero
    }

    func definition(named name: Name) -> Definition? {
        definitions.withLock { $0[name] } ?? Self.own(named: name)
    }

    /// The runtime's own handlers, which every program knows.
    package static let ownHandlers: [any DurableHandler.Type] = [
        FlowWoken.self, FlowSignaled.self, FlowJoined.self, FlowGivenUp.self, ChainAlarm.self,
        LaneFiller.self,
    ]

    /// One of the runtime's own handlers.
    ///
    /// Their table is only made for their names: to find out what types conform to takes a fifth of a short process.
    private static func own(named name: Name) -> Definition? {
        name.hasPrefix(FlowPlace.prefix) || name == ChainAlarm.id || name == LaneFiller.id ? own[name] : nil
    }

    private static let own = Dictionary(
        uniqueKeysWithValues: ownHandlers.map {
            (Name($0.id), Definition($0, place: "Durable Handlers", UnknownArguments()))
        })
}

// MARK: - Called by the code that @Handler expands to

/// Registers one handler from its record in the program file. Called by the expansion of `@Handler` only.
// swift-format-ignore: AlwaysUseLowerCamelCase
public func __registerHandler<H: DurableHandler>(
    _ type: H.Type, in registry: UnsafeRawPointer, file: StaticString, line: UInt
) {
    Unmanaged<HandlerRegistry>.fromOpaque(registry).takeUnretainedValue().register(
        type, file: file, line: line)
}

/// The instance on which a handler runs. Called by the expansion of `@Handler` only.
// swift-format-ignore: AlwaysUseLowerCamelCase
public func __resolveInstance<T>(_ instance: T, handler: String, path: String) throws(HandlerError) -> T {
    instance
}

/// The instance on which a handler runs, or an error that names the path. Called by the expansion of `@Handler` only.
// swift-format-ignore: AlwaysUseLowerCamelCase
public func __resolveInstance<T>(_ instance: T?, handler: String, path: String) throws(HandlerError) -> T {
    guard let instance else {
        throw HandlerError(
            .missingInstance,
            "the handler '\(handler)' found nothing at '\(path)' when it was called; create that object before the account starts"
        )
    }
    return instance
}
