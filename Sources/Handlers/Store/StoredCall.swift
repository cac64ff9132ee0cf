/// The stored part of a call that could not be made yet, beside its context.
struct StoredCall: Codable {
    /// The outcome of the handler once the call is made.
    var outcome: Outcome
    /// The reason of the invalidation; nil for a call of the handler itself.
    var reason: InvalidationReason?
    /// The call's own arguments, if there are any.
    var overrides: Record?

    init(_ outcome: Outcome, reason: InvalidationReason? = nil, overrides: Record = [:]) {
        self.outcome = outcome
        self.reason = reason
        self.overrides = overrides.isEmpty ? nil : overrides
    }

    init(_ bytes: [UInt8], of handler: AnyHandlerID) throws(HandlerError) {
        do {
            self = try ArgumentCoding.value(StoredCall.self, from: bytes)
        } catch {
            throw HandlerError(
                .databaseCorrupt,
                "the call kept for the handler \(handler) cannot be read: \(plainReason(error))",
                cause: error)
        }
    }

    func bytes() throws(HandlerError) -> [UInt8] {
        do {
            return try ArgumentCoding.encode(self)
        } catch {
            throw HandlerError(
                .argumentNotEncodable, "the call's own arguments cannot be stored: \(plainReason(error))",
                cause: error)
        }
    }
}
