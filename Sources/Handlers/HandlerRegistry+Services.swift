/// What handlers need from outside: clients of other services, configurations.
///
/// ```text
///   registry.providing(bank, as: (any Bank).self) ──▶ HandlerStore(registry:) ──▶ call.provided((any Bank).self)
/// ```
extension HandlerRegistry {
    /// Gives handlers what they need from outside, so that tests can give them something else.
    ///
    /// ```swift
    /// let registry = HandlerRegistry.discovered().providing(HTTPBank(url: "https://bank.example"), as: (any Bank).self)
    /// let store = try HandlerStore(path: "shop.db", registry: registry)
    /// ```
    ///
    /// - Parameters:
    ///   - service: The client or value. It lives as long as the registry.
    ///   - type: By which type handlers ask for it; a later one of the same type replaces it.
    /// - Returns: This registry.
    @discardableResult
    public func providing<Service: Sendable>(
        _ service: Service, as type: Service.Type = Service.self
    ) -> HandlerRegistry {
        services.withLock { $0[ObjectIdentifier(type)] = service }
        return self
    }

    func service<Service: Sendable>(_ type: Service.Type) throws(HandlerError) -> Service {
        if let service = services.withLock({ $0[ObjectIdentifier(type)] }) as? Service { return service }
        throw HandlerError(
            .missingInstance,
            "this program provides no \(type); give its registry one with providing(_:as:) before the store is opened"
        )
    }
}

extension Call {
    /// Returns what the program provides for its handlers.
    ///
    /// ```swift
    /// func run(_ call: borrowing Call<TimerFired>) throws { print(try call.provided(PriceList.self)) }
    /// ```
    ///
    /// - Parameter type: The type under which it was given to ``HandlerRegistry/providing(_:as:)``.
    /// - Returns: The service.
    /// - Throws: ``HandlerError`` `missingInstance` when the program provides none; the handler is tried again as its policy says.
    public func provided<Service: Sendable>(
        _ type: Service.Type = Service.self
    ) throws(HandlerError) -> Service { try step.transaction.registry.service(type) }
}

extension AsyncCall {
    /// Returns what the program provides for its handlers.
    ///
    /// ```swift
    /// func run(_ call: AsyncCall<TimerFired>) async throws {
    ///     print(try await call.provided((any Bank).self).charge(1999, key: call.idempotencyKey))
    /// }
    /// ```
    ///
    /// - Parameter type: The type under which it was given to ``HandlerRegistry/providing(_:as:)``.
    /// - Returns: The service.
    /// - Throws: ``HandlerError`` `missingInstance` when the program provides none; the handler is tried again as its policy says.
    public func provided<Service: Sendable>(
        _ type: Service.Type = Service.self
    ) throws(HandlerError) -> Service { try lease.store.registry.service(type) }
}
