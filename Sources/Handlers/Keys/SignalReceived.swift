/// The context of a signal: a handler that was bound with a key receives it from ``Step/signal(_:_:keptFor:)``.
///
/// ```swift
/// struct Paid: Handler {
///     static let id = "shop.paid"
///     var order: String
///     func run(_ call: borrowing Call<SignalReceived<Payment>>) throws {
///         try call.step.execute("UPDATE bill SET paid = ? WHERE name = ?", call.value.cents, order)
///     }
/// }
/// try step.bind(Paid(order: "17").durable, key: "payment-17")
/// ```
public struct SignalReceived<Value: Codable & Sendable>: SignalContext {
    /// What was sent with the signal.
    public let value: Value

    package func stored() throws -> [UInt8] { try ArgumentCoding.encode(StoredValue(value: value)) }

    package init(restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?) throws {
        value = try HandlerError.explaining(.wrongArgument) {
            try ArgumentCoding.value(StoredValue<Value>.self, from: bytes).value
        } as: {
            "the value of the signal is no \(Value.self): \($0); send one, or let the handler take what is sent"
        }
    }
}

/// The contexts of signals, whatever their values.
package protocol SignalContext: StoredContext {}

/// A signal whose handler's type is not known yet.
struct Signal: StoredContext, ConvertibleContext {
    let bytes: [UInt8]

    init(bytes: [UInt8]) { self.bytes = bytes }

    init(_ value: some Encodable) throws(HandlerError) {
        bytes = try ArgumentCoding.encode(StoredValue(value: value), named: "the value of a signal")
        guard bytes.count <= HandlerResult.maximumBytes, !ArgumentCoding.isTooDeep(bytes) else {
            throw HandlerError(
                .argumentNotEncodable,
                "the value of a signal has \(bytes.count) bytes, at most \(HandlerResult.maximumBytes), and is nested at most \(ArgumentCoding.maximumDepth) deep; keep it in a table of your own and send its key"
            )
        }
    }

    package func stored() -> [UInt8] { bytes }

    package init(restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?) {
        self.init(bytes: bytes)
    }

    package func converted(to context: any Sendable.Type) throws -> (any Sendable)? {
        try (context as? any SignalContext.Type)?.init(restoring: bytes, in: nil)
    }
}
