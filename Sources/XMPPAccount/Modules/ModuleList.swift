import Handlers
import XMPPCore

/// A module of an account with its hooks, which are registered once.
///
/// A class, so that a pass over the modules retains one object for each and not every hook.
final class RegisteredModule: Sendable {
    let module: any AccountModule
    let name: Name
    let hooks: ModuleHooks

    init(_ module: any AccountModule) {
        var hooks = ModuleHooks()
        module.register(in: &hooks)
        self.module = module
        self.hooks = hooks
        name = Name(type(of: module).name)
    }
}

/// An account's modules in the order in which they start: each after those that it depends on, else as configured.
struct ModuleList: Sendable {
    let modules: [RegisteredModule]
    /// Those of them that filter.
    let filters: [RegisteredModule]

    private init(sorted: [RegisteredModule]) {
        modules = sorted
        filters = sorted.filter { $0.hooks.filterIncoming != nil || $0.hooks.filterOutgoing != nil }
    }

    /// - Throws: ``AccountError`` `invalidConfiguration` when a module is there twice, lacks one that it depends on, or
    ///   depends on itself.
    init(_ configured: [any AccountModule]) throws(AccountError) {
        try self.init(registered: configured.map(RegisteredModule.init))
    }

    private init(registered: [RegisteredModule]) throws(AccountError) {
        var names: Set<Name> = []
        for module in registered where !names.insert(module.name).inserted {
            throw AccountError(
                .invalidConfiguration, "the module '\(module.name)' is configured twice; give it once")
        }
        for module in registered where module.name.utf8.count > NameBounds.name {
            throw AccountError(
                .invalidConfiguration,
                "the name of a module has \(NameBounds.name) bytes at most; shorten '\(module.name.prefix(bytes: 64))…'"
            )
        }
        var sorted: [RegisteredModule] = []
        var placed: Set<Name> = []
        var rest = registered
        while !rest.isEmpty {
            let next = rest.firstIndex { module in
                module.hooks.dependencies.allSatisfy { placed.contains(Name($0.name)) }
            }
            guard let next else { throw Self.unsatisfied(rest, names) }
            placed.insert(rest[next].name)
            sorted.append(rest.remove(at: next))
        }
        self.init(sorted: sorted)
    }

    /// - Throws: ``AccountError`` `invalidConfiguration` when there is one of that name, or it lacks one that it depends on.
    func adding(_ module: RegisteredModule) throws(AccountError) -> ModuleList {
        try ModuleList(registered: modules + [module])
    }

    /// - Throws: ``AccountError`` `invalidConfiguration` when another one depends on it.
    func removing(_ module: RegisteredModule) throws(AccountError) -> ModuleList {
        let dependent = modules.first { $0.hooks.dependencies.contains { Name($0.name) == module.name } }
        if let dependent {
            throw AccountError(
                .invalidConfiguration,
                "the module '\(dependent.name)' needs the module '\(module.name)'; remove that one first")
        }
        return without(module)
    }

    func without(_ module: RegisteredModule) -> ModuleList {
        ModuleList(sorted: modules.filter { $0.name != module.name })
    }

    /// - Throws: ``AccountError`` `invalidConfiguration` when the store was opened without the tables of one.
    func checkTables(in store: HandlerStore) throws(AccountError) {
        for module in modules {
            guard let schema = module.hooks.schema, !store.modules.contains(schema.module) else { continue }
            throw AccountError(
                .invalidConfiguration,
                "the store was opened without the tables of the module '\(module.name)'; give HandlerStore the schema of \(type(of: module.module)), beside Account.schemas"
            )
        }
    }

    private static func unsatisfied(_ rest: [RegisteredModule], _ names: Set<Name>) -> AccountError {
        for module in rest {
            let missing = module.hooks.dependencies.first { !names.contains(Name($0.name)) }
            guard let missing else { continue }
            return AccountError(
                .invalidConfiguration,
                "the module '\(module.name)' needs the module '\(missing.name)'; add that too")
        }
        let circle = rest.map { "'\($0.name)'" }.joined(separator: ", ")
        return AccountError(.invalidConfiguration, "the modules \(circle) depend on each other in a circle")
    }

    func first<Module>(of type: Module.Type) -> Module? {
        for registered in modules { if let module = registered.module as? Module { return module } }
        return nil
    }

    func first(named name: Name) -> RegisteredModule? { modules.first { $0.name == name } }

    /// Whether own messages may come back: without modules there are no carbons, archives or rooms.
    var giveBackMessages: Bool { !modules.isEmpty }

    /// Returns the features of all modules at this moment.
    func features(of account: Account, in step: borrowing Step) throws -> Set<String> {
        var features: Set<String> = []
        for module in modules {
            features.formUnion(try module.hooks.currentFeatures?(account, step) ?? module.hooks.features)
        }
        return features
    }

    // MARK: Kept in the store

    static let schema = Schema(
        module: "xmpp-modules",
        migrations: [
            """
            -- The modules that an account was used with.
            CREATE TABLE module(
                account INTEGER NOT NULL,
                name TEXT NOT NULL,
                PRIMARY KEY(account, name)) WITHOUT ROWID;
            """,
            """
            -- The session in which it began; 0 for none yet, NULL for that in which it was found by this version.
            ALTER TABLE module ADD COLUMN session INTEGER;
            """,
        ])

    /// Notes the modules of an account. A process without one of them would take in what that module is to see.
    func record(account: Int64, retired: Set<String>, in step: borrowing Step) throws {
        for name in retired {
            try step.write("DELETE FROM module WHERE account = ? AND name = ?", account, name)
        }
        let known = try step.all("SELECT name FROM module WHERE account = ?", account) { $0.foreignText(0) }
        let names = modules.map(\.name)
        if let missing = known.first(where: { !names.contains($0) }) {
            throw AccountError(
                .missingModule,
                "the account was used with the module '\(missing)', which this process does not have; add it to configuration.modules, or name it in configuration.retiredModules when it is not used any more"
            )
        }
        for name in names where !known.contains(name) {
            try step.write("INSERT INTO module(account, name, session) VALUES (?, ?, 0)", account, name)
        }
    }

    /// Whether the account was used with just these modules.
    func isRecorded(account: Int64, in snapshot: borrowing Snapshot) throws(HandlerError) -> Bool {
        let known = try snapshot.all("SELECT name FROM module WHERE account = ?", account) {
            $0.foreignText(0)
        }
        return Set(known) == Set(modules.map(\.name))
    }

    /// Returns the names of modules that were not started yet in a running session.
    static func late(account: Int64, session: Int64, in step: borrowing Step) throws(HandlerError) -> [Name] {
        try step.all("SELECT name FROM module WHERE account = ? AND session <> ?", account, session) {
            $0.foreignText(0)
        }
    }

    static func setStarted(account: Int64, session: Int64, in step: borrowing Step) throws(HandlerError) {
        try step.write("UPDATE module SET session = ? WHERE account = ?", session, account)
    }
}

// MARK: - The lives of streams and sessions

extension Account {
    /// A new session was bound, or one was resumed: what ended with the last one is forgotten, and what is needed now is
    /// asked for, in order of dependency.
    func startModules(_ scope: ModuleScope, in step: borrowing Step) throws {
        try resetModules(scope, in: step)
        let session = try sessions.number(in: step)
        if scope == .session { try ModuleList.setStarted(account: id, session: session, in: step) }
        let late = try ModuleList.late(account: id, session: session, in: step)
        let modules = modules.modules.filter { !late.contains($0.name) }
        for module in modules where module.hooks.startsBeforePresence {
            try startModule(module, scope, in: step)
        }
        if scope == .session, configuration.sendsInitialPresence { try sendInitialPresence(in: step) }
        for module in modules where !module.hooks.startsBeforePresence {
            try startModule(module, scope, in: step)
        }
        try startLate(session, in: step)
        if scope == .stream { try announceLate(in: step) }
    }

    private func sendInitialPresence(in step: borrowing Step) throws {
        let presence = try currentPresence(in: step)
        try ownPresence.set(Presence().element, in: step)
        guard let element = try filtered(unasked: presence.element, in: step) else { return }
        try outbox.append(
            .presence, id: nil, xml: Serializer().bytes(element), in: step)
    }

    func resetModules(_ scope: ModuleScope, in step: borrowing Step) throws {
        if scope == .session { try ownPresence.remove(in: step) }
        for module in modules.modules.reversed() {
            try guarding(module, in: step) { try module.hooks.reset?(scope, self, step) }
        }
    }

    /// Lets the modules learn what the server offers in a new session.
    func showModules(_ features: Set<ForeignText>, in step: borrowing Step) throws {
        for module in modules.modules {
            try guarding(module, in: step) { try module.hooks.receiveOffer?(features, self, step) }
        }
    }

    func startModule(_ module: RegisteredModule, _ scope: ModuleScope, in step: borrowing Step) throws {
        try guarding(module, in: step) {
            try usingReserve(in: step) { try module.hooks.start?(scope, self, step) }
        }
    }

    /// Undoes the changes of a module that throws, and reports the error; the rest of the step continues.
    func guarding(_ module: RegisteredModule, in step: borrowing Step, _ body: () throws -> Void) throws {
        do {
            try step.undoingOnError(body)
        } catch  where !step.isUsable {
            throw error
        } catch {
            let (hub, name) = (hub, module.name.string)
            step.afterCommit { hub.send(.moduleFailed(name, error)) }
        }
    }

    /// Shows something to the modules, in order, until one has had enough of it.
    ///
    /// One savepoint serves them all, as hardly any ever throws. If one does, all is undone and shown again with a
    /// savepoint for each, so that only that one's work is undone.
    ///
    /// - Parameters:
    ///   - stopsAtError: Whether one that throws has had enough, too.
    ///   - body: Shows it to one. Called again after an error, it must start again.
    /// - Returns: Whether one has had enough.
    @discardableResult
    func showModules(
        in step: borrowing Step, stopsAtError: Bool = false, _ body: (RegisteredModule) throws -> Bool
    ) throws -> Bool {
        guard !modules.modules.isEmpty else { return false }
        do {
            var isEnough = false
            try step.undoingOnError { isEnough = try modules.modules.contains(where: body) }
            return isEnough
        } catch  where !step.isUsable {
            throw error
        } catch {
            return try modules.modules.contains { module in
                var isEnough = stopsAtError
                try guarding(module, in: step) { isEnough = try body(module) }
                return isEnough
            }
        }
    }

    /// Shows something to every module.
    func showAll(in step: borrowing Step, _ body: (ModuleHooks) throws -> Void) throws {
        try showModules(in: step) { module in
            try body(module.hooks)
            return false
        }
    }

    /// The presence that says that the account is available, with what the modules add.
    func currentPresence(in step: borrowing Step) throws -> Presence {
        try Presence(element: extended(Presence().element, in: step))
    }

    /// Available presence with what the modules add to it.
    func extended(_ presence: Element, in step: borrowing Step) throws -> Element {
        guard !modules.modules.isEmpty, presence["type"] == nil else { return presence }
        var presence = presence
        for module in modules.modules {
            try guarding(module, in: step) { try module.hooks.extendPresence?(&presence, self, step) }
        }
        return presence
    }

    /// Returns a message to send with what the modules add. Only a message to a full address gets anything.
    func extended(message element: Element, to peer: JID?, in step: borrowing Step) throws -> Element {
        guard peer?.resource != nil, element["type"] != "groupchat", element["type"] != "error" else {
            return element
        }
        var element = element
        for module in modules.modules {
            try guarding(module, in: step) { try module.hooks.extendMessage?(&element, self, step) }
        }
        return element
    }

    /// Returns whether this account wrote a message of a room; nil when no module knows the room.
    func isOwn(_ message: Message, originID: ForeignText?, in step: borrowing Step) throws -> Bool? {
        var isOwn: Bool?
        try showModules(in: step) { module in
            isOwn = nil
            isOwn = try module.hooks.isOwn?(message, originID, self, step)
            return isOwn != nil
        }
        return isOwn
    }

    /// Lets the modules know that no deferred stanza is left to be marked.
    func endDeferrals(isLost: Bool, in step: borrowing Step) throws {
        try showAll(in: step) { try $0.deferralsEnded?(isLost, self, step) }
    }

    /// Returns the marks of received messages that the modules need together.
    func neededMarks(in step: borrowing Step) throws(HandlerError) -> NeededMarks {
        var needed = NeededMarks()
        for module in modules.modules {
            do {
                if let marks = try module.hooks.neededMarks?(self, step) { needed.add(marks) }
            } catch let error as HandlerError where !step.isUsable {
                throw error
            } catch {
                // A duplicate that is not recognized would be worse.
                needed.areAllNeeded = true
            }
        }
        return needed
    }
}
