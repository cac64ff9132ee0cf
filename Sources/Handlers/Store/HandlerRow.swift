/// A row of `handler` as it is written. Of a plain handler, most columns are empty.
struct HandlerRow {
    let name: Name
    let version: Int
    let arguments: [UInt8]
    /// The stored invalidation handler.
    var orElseBytes: [UInt8]?
    var kind = Transaction.Kind.once
    var state = Transaction.State.pending
    /// The root of its chain; nil when it is that itself.
    var trace: AnyHandlerID?
    var scope: HandlerScope?
    var caller = Caller.inStep
    /// When it is called or expires, by the wall clock, and in connected time.
    var due: Timestamp?
    var connectedDue: Duration?
    var period: Duration?
    var attempts = 0
    /// The call that a runner makes, and its context.
    var call: [UInt8]?
    var input: [UInt8]?
    var reason: StoredReason?
    /// The number of bytes in the row of a call of a standing handler.
    var size: Int?
    // An empty literal would be made by a loop over nothing, for each handler.
    var relations = Relations(rawValue: 0)
    /// What the program calls it, and its chain with a limit; in tables of their own.
    var key: String?
    var chain: Int64?

    init(_ name: Name, _ version: Int, _ arguments: [UInt8], trace: AnyHandlerID?) {
        (self.name, self.version, self.arguments, self.trace) = (name, version, arguments, trace)
    }

    init<Context>(_ handler: Durable<Context>, trace: AnyHandlerID?) {
        self.init(handler.storedName, handler.version, handler.arguments, trace: trace)
        orElseBytes = handler.orElseBytes
    }

    /// Whether it has no other values than a handler that was bound with nothing but its arguments.
    var isPlain: Bool {
        relations.isEmpty && scope == nil && due == nil && connectedDue == nil && call == nil && size == nil
    }

    /// Whether only the code that keeps its id calls it and ends it.
    var isKept: Bool {
        relations.subtracting(.inChain).isEmpty && due == nil && connectedDue == nil && call == nil
            && key == nil
    }

    /// The values of the columns that every handler has.
    func plainValues(_ now: Timestamp) -> [any SQLConvertible] {
        [name, version, arguments, orElseBytes, kind.rawValue, now, trace]
    }

    /// The values of all columns.
    func values(_ now: Timestamp) -> [any SQLConvertible] {
        [
            name, version, arguments, orElseBytes, kind.rawValue, now, trace, state.rawValue, scope?.rawValue,
            caller.rawValue, due, connectedDue?.milliseconds, period?.milliseconds, attempts, call, input,
            reason, size, relations.rawValue,
        ]
    }
}
