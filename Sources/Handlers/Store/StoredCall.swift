/// The stored part of a call that could not be made yet, beside its context.
package struct StoredCall: Codable {
    /// The outcome of the handler once the call is made.
    var outcome: Outcome
    /// The reason of the invalidation; nil for a call of the handler itself.
    package var reason: InvalidationReason?
    /// The error that is the reason of the invalidation.
    var error: CallError?
    /// The call's own arguments, if there are any.
    var overrides: Record?

    init(
        _ outcome: Outcome, reason: InvalidationReason? = nil, error: CallError? = nil,
        overrides: Record = [:]
    ) {
        self.outcome = outcome
        self.reason = reason
        self.error = error
        self.overrides = overrides.isEmpty ? nil : overrides
    }

    package init(_ bytes: [UInt8], of handler: AnyHandlerID) throws(HandlerError) {
        self = try HandlerError.explaining(.databaseCorrupt) {
            try ArgumentCoding.value(StoredCall.self, from: bytes)
        } as: {
            "the call kept for the handler \(handler) cannot be read: \($0)"
        }
    }

    func bytes() throws(HandlerError) -> [UInt8] {
        try ArgumentCoding.encode(self, named: "the call's own arguments")
    }
}
