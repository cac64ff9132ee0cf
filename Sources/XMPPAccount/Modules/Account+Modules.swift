import Handlers

// Modules that come and go while the account runs.
extension Account {
    /// Adds a module while the account runs.
    ///
    /// In a session that is there it begins at once, and everybody who sees the account's presence learns of what the account
    /// understands now. Other processes need it in their configuration, and so does this one at its next start.
    ///
    /// ```swift
    /// try await account.add(CarbonsModule())  // the user switched copies on
    /// ```
    ///
    /// - Parameter module: The module; the store must have been opened with its `schema`.
    /// - Throws: ``AccountError`` `invalidConfiguration` when the account has a module of that name, lacks one that it depends on,
    ///   or the store lacks its tables; `ownershipLost` or `closed`. ``/Handlers/HandlerError`` when the store fails.
    public func add(_ module: some AccountModule) async throws {
        let module = RegisteredModule(module)
        let isPlaced = Kept(false)
        do {
            try await perform { step in try self.place(module, isPlaced, in: step) }
        } catch {
            // The step that was to commit it did not.
            if isPlaced.value { changeModules { $0.without(module) } }
            throw error
        }
    }

    private func place(_ module: RegisteredModule, _ isPlaced: Kept<Bool>, in step: borrowing Step) throws {
        let list = try modules.adding(module)
        try list.checkTables(in: store)
        try list.record(account: id, retired: [], in: step)
        changeModules { _ in list }
        isPlaced.value = true
        guard let session = try sessions.openNumber(in: step) else { return }
        try startLate(session, in: step)
        configuration.log(.info, .session, "added the module '\(module.name)'")
    }

    /// Removes a module while the account runs. The module ends what it started at the server, and receives nothing any
    /// more.
    ///
    /// What it stored stays. Other processes must not have it in their configuration any more, or they add it again.
    ///
    /// - Parameter type: The module's type.
    /// - Returns: The module as it was configured.
    /// - Throws: ``AccountError`` `missingModule` when there is none, `invalidConfiguration` when another one depends on it,
    ///   `ownershipLost` or `closed`. ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func remove<Module: AccountModule>(_ type: Module.Type) async throws -> Module {
        let removed = try module(type)
        guard let module = modules.first(named: Name(type.name)) else { throw missing(type) }
        let isWithdrawn = Kept(false)
        do {
            try await perform { step in try self.withdraw(module, isWithdrawn, in: step) }
        } catch {
            if isWithdrawn.value { changeModules { (try? $0.adding(module)) ?? $0 } }
            throw error
        }
        await module.hooks.stop?(self)
        return removed
    }

    private func withdraw(_ module: RegisteredModule, _ isWithdrawn: Kept<Bool>, in step: borrowing Step)
        throws
    {
        let list = try modules.removing(module)
        if try sessions.openNumber(in: step) != nil {
            try guarding(module, in: step) {
                try usingReserve(in: step) { try module.hooks.end?(self, step) }
            }
        }
        try guarding(module, in: step) { try module.hooks.reset?(.session, self, step) }
        try list.record(account: id, retired: [module.name.string], in: step)
        changeModules { _ in list }
        isWithdrawn.value = true
        try announceFeaturesAnyway(in: step)
        configuration.log(.info, .session, "removed the module '\(module.name)'")
    }

    /// Modules that were added since the session began have not asked for anything in it.
    func startLate(_ session: Int64, in step: borrowing Step) throws {
        let late = try ModuleList.late(account: id, session: session, in: step)
        guard !late.isEmpty else { return }
        for module in modules.modules where late.contains(module.name) {
            try startModule(module, .session, in: step)
        }
        try ModuleList.setStarted(account: id, session: session, in: step)
        try announceFeaturesAnyway(in: step)
    }
}

/// Says whether the list was changed in a step, to the one who waits for that step.
///
/// Unchecked: written by the loop before the continuation is resumed, read after it.
private final class Kept<Value>: @unchecked Sendable {
    var value: Value
    init(_ value: Value) { self.value = value }
}
