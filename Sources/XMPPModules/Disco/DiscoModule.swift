public import Handlers
public import XMPPAccount
public import XMPPCore

/// Service discovery: answers requests about this account, and stores the features of others.
///
/// ```swift
/// configuration.modules = [
///     DiscoModule(identity: .init(category: "client", type: "bot"), software: (name: "Echo", version: "1.0"))
/// ]
/// ```
///
/// Source: XEP-0030, XEP-0115, XEP-0092.
public struct DiscoModule: LibraryModule, AccountModule {
    package static let moduleName = "disco"

    /// The identity of this account's client.
    package let identity: DiscoInfo.Identity
    /// The program's name and version, for those who ask (XEP-0092); nil to say neither.
    package let software: (name: String, version: String)?
    /// A web address that names the program, part of what presence says (XEP-0115 section 4).
    package let node: String

    /// The features of this module, and those of the program beside its modules.
    let features: Set<String>

    /// Makes the module.
    ///
    /// - Parameters:
    ///   - identity: What this account's client is.
    ///   - software: The program's name and version; nil to say neither.
    ///   - features: What the program understands beside its modules, such as `Namespaces.correction`.
    ///   - node: A web address that names the program.
    public init(
        identity: DiscoInfo.Identity = .init(category: "client", type: "pc"),
        software: (name: String, version: String)? = nil, features: Set<String> = [],
        node: String = "urn:durable-handlers"
    ) {
        self.identity = identity
        self.features = features.union([
            Namespaces.discoInfo, Namespaces.discoItems, Namespaces.caps, Namespaces.ping,
        ]).union(software == nil ? [] : [Namespaces.version])
        self.software = software
        self.node = node
    }

    package func install(in hooks: inout ModuleHooks) {
        hooks.startsBeforePresence = true
        hooks.schema = CapabilityTable.schema
        hooks.features = features
        hooks.extendPresence = extend
        hooks.answer = answer
        hooks.reset = reset
        hooks.receivePresence = receive(_:for:in:)
    }

    // MARK: What is said of this account

    private func info(of account: Account, in step: borrowing Step) throws -> DiscoInfo {
        DiscoInfo(identities: [identity], features: Array(try account.features(in: step)))
    }

    func extend(_ presence: inout Element, of account: Account, in step: borrowing Step) throws {
        guard let verification = try info(of: account, in: step).verification else { return }
        presence.append(
            Element(
                "c", namespace: Namespaces.caps,
                attributes: ["hash": "sha-1", "node": node, "ver": verification]))
    }

    func answer(_ request: IQ, for account: Account, in step: borrowing Step) throws -> ModuleAnswer? {
        guard request.type == .get, let payload = request.payload else { return nil }
        switch (payload.name, payload.namespace) {
        case ("query", Namespaces.discoInfo):
            let info = try info(of: account, in: step)
            let asked = payload["node"]
            // XEP-0115 section 6.2: the node of our presence stands for the whole; others do not exist.
            let own = info.verification.map { ForeignText("\(node)#\($0)") }
            guard asked == nil || asked == own else { return .error(StanzaError(.itemNotFound)) }
            return .result(info.element(node: asked))
        case ("query", Namespaces.discoItems):
            guard payload["node"] == nil else { return .error(StanzaError(.itemNotFound)) }
            return .result(Element("query", namespace: Namespaces.discoItems))
        case ("query", Namespaces.version):
            guard let software else { return .error(StanzaError(.serviceUnavailable)) }
            return .result(
                Element(
                    "query", namespace: Namespaces.version,
                    children: [
                        Element("name", namespace: Namespaces.version, text: software.name),
                        Element("version", namespace: Namespaces.version, text: software.version),
                    ]))
        default: return nil
        }
    }

    // MARK: What others say of themselves

    func reset(_ scope: ModuleScope, of account: Account, in step: borrowing Step) throws {
        guard scope == .session else { return }
        try CapabilityTable(account: account.id).forgetEntities(in: step)
    }

    func receive(_ presence: Presence, for account: Account, in step: borrowing Step) throws {
        guard let from = presence.from, presence.type == nil || presence.type == .unavailable else { return }
        let table = CapabilityTable(account: account.id)
        guard try mayBeAsked(from, by: account, in: step) else { return }
        guard presence.type == nil, let caps = presence.element.child("c", Namespaces.caps),
            let node = caps["node"], let verification = CapabilityTable.verification(caps)
        else { return try table.forget(from, in: step) }
        // One that is too long for a name is left out: an entity tells without it, too.
        let claim = CapabilityTable.Claim(jid: from, verification: verification, node: node.token)
        guard StanzaLimit.fits(claim.question.element), try table.set(claim, in: step) else { return }
        if try table.isKnown(verification, in: step) { return }
        let own = try info(of: account, in: step)
        if verification == own.verification { return try table.learn(verification, own, in: step) }
        guard try table.startQuery(verification, in: step) else { return }
        try table.ask(claim, by: account, in: step)
    }

    /// Returns whether to query the sender of a presence, which shows that the account is online: only contacts, the
    /// account's own clients, and occupants of its rooms. An account without a roster queries all senders.
    private func mayBeAsked(_ jid: JID, by account: Account, in step: borrowing Step) throws -> Bool {
        guard account.moduleIfPresent(RosterModule.self) != nil else { return true }
        if try jid.bare == account.ownAddress(in: step) { return true }
        if let contact = try account.roster.item(for: jid.bare, in: step), contact.subscription != .none {
            return true
        }
        return try account.knownRoom(jid, in: step).map { $0.state == .joining || $0.state == .joined }
            ?? false
    }
}

extension Account {
    /// Returns the information that an entity's presence refers to. Nil while it is not known.
    ///
    /// ```swift
    /// let info = try account.store.read { try account.knownInfo(of: juliet, in: $0) }
    /// ```
    ///
    /// - Parameters:
    ///   - jid: A full address from which presence came.
    ///   - source: The step or snapshot to read in.
    /// - Returns: What it says of itself, checked against its digest (XEP-0115 section 5.4).
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    public func knownInfo(of jid: JID, in source: borrowing some Readable) throws -> DiscoInfo? {
        try CapabilityTable(account: id).info(of: jid, in: source)
    }
}

extension AccountOperation where Context == IQReply, Value == DiscoInfo {
    /// Requests the identities and features of an entity.
    ///
    /// - Parameters:
    ///   - jid: The entity; nil for the own account.
    ///   - node: A part of it; nil for the whole.
    /// - Returns: The operation; an answer of another kind is ``/XMPPAccount/AccountError`` `protocolViolation`.
    ///
    /// Source: XEP-0030 section 3.1.
    public static func discoInfo(of jid: JID?, node: (any TextConvertible)? = nil) -> AccountOperation {
        ask(jid, Namespaces.discoInfo, node) { payload in
            guard let info = payload.flatMap({ DiscoInfo($0) }) else { throw Self.noAnswer(jid) }
            return info
        }
    }
}

extension AccountOperation where Context == IQReply, Value == [DiscoItem] {
    /// Requests the items of an entity, in its order. An item without a readable address is left out.
    ///
    /// - Parameters:
    ///   - jid: The entity; nil for the own account.
    ///   - node: A part of it; nil for the whole.
    /// - Returns: The operation; an answer of another kind is ``/XMPPAccount/AccountError`` `protocolViolation`.
    ///
    /// Source: XEP-0030 section 4.1.
    ///
    /// ```swift
    /// let items = try await account.request(.discoItems(of: JID("capulet.example")))
    /// ```
    public static func discoItems(of jid: JID?, node: (any TextConvertible)? = nil) -> AccountOperation {
        ask(jid, Namespaces.discoItems, node) { payload in
            guard let payload, payload.has(name: "query", namespace: Namespaces.discoItems) else {
                throw Self.noAnswer(jid)
            }
            return payload.children("item", Namespaces.discoItems).compactMap { item in
                guard let jid = item["jid"].flatMap({ try? JID(received: $0) }) else { return nil }
                return DiscoItem(jid: jid, node: item["node"], name: item["name"])
            }
        }
    }
}

extension AccountOperation where Context == IQReply {
    fileprivate static func ask(
        _ jid: JID?, _ namespace: String, _ node: (any TextConvertible)?,
        value: @escaping @Sendable (Element?) throws -> Value
    ) -> AccountOperation {
        let query = Element("query", namespace: namespace, attributes: ["node": node])
        return AccountOperation({ _ in IQ(type: .get, to: jid, payload: query) }, value: value)
    }

    fileprivate static func noAnswer(_ jid: JID?) -> AccountError {
        AccountError(
            .protocolViolation,
            "\(jid?.description ?? "the account") answered something else than was asked for")
    }
}

/// Takes over what an entity says of itself, if it is what its presence promised.
struct CapabilitiesFetched: Handler {
    static let id = "disco.capabilities-fetched"
    var verification: String

    func run(_ call: borrowing Call<IQReply>) throws {
        let (account, step) = (call.account, call.step)
        let table = CapabilityTable(account: account.id)
        let verification = ForeignText(verification)
        // XEP-0115 section 5.4: one that does not fit its digest is not kept, or anybody could speak for all others. Another
        // entity with that digest may know better.
        if case .result(let payload?) = call.outcome, let info = DiscoInfo(payload),
            case let (hash, digest) = CapabilityTable.Claim.parts(of: verification),
            info.isVerified(by: digest, hash: hash)
        {
            try table.learn(verification, info, in: step)
            return try table.endQuery(verification, in: step)
        }
        try table.askNext(verification, by: account, in: step)
    }
}

/// The time has come to ask again those who have a digest.
struct CapabilitiesDue: Handler {
    static let id = "disco.capabilities-due"
    var verification: String

    func run(_ call: borrowing Call<TimerFired>) throws {
        let account = try call.context.account
        let table = CapabilityTable(account: account.id)
        let verification = ForeignText(verification)
        guard try table.startAgain(verification, in: call.step) else { return }
        guard try table.unasked(verification, in: call.step) != nil else {
            return try table.endQuery(verification, in: call.step)
        }
        try table.askNext(verification, by: account, in: call.step)
    }
}

extension CapabilityTable.Claim {
    /// The request for what the digest stands for, which repeats text of the entity.
    fileprivate var question: IQ {
        let node = node.map { ForeignText("\($0)#\(Self.parts(of: verification).digest)") }
        let query = Element("query", namespace: Namespaces.discoInfo, attributes: ["node": node])
        return IQ(type: .get, to: jid, id: StanzaID.random(), payload: query)
    }
}

extension CapabilityTable {
    /// Asks another entity with that digest; when none is left, all of them again after some minutes.
    fileprivate func askNext(
        _ verification: ForeignText, by account: Account, in step: borrowing Step
    ) throws {
        if try isKnown(verification, in: step) { return try endQuery(verification, in: step) }
        if let next = try unasked(verification, in: step) {
            return try account.usingReserve(in: step) { try ask(next, by: account, in: step) }
        }
        guard let wait = try giveUp(verification, in: step) else { return }
        try step.schedule(
            CapabilitiesDue(verification: verification.string).durable, after: wait, in: account.scope)
    }

    /// Asks an entity what its digest stands for.
    fileprivate func ask(_ claim: Claim, by account: Account, in step: borrowing Step) throws {
        try recordAsked(claim.jid, in: step)
        account.log(.verbose, .disco, "asks \(claim.jid) what it understands", after: step)
        try account.send(
            .iq(claim.question),
            then: CapabilitiesFetched(verification: claim.verification.string).durable, in: step)
    }
}
