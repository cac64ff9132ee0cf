import Handlers
import XMPPCore
import XMPPTransport

// The login itself, in either profile of SASL.
extension SessionOpening {
    // MARK: The first message

    /// Chooses how to log in and sends the first message.
    ///
    /// - Parameters:
    ///   - isAhead: Whether the offer is the remembered one. The password is never sent on the strength of that.
    ///   - mayUseToken: False when a token has just been refused.
    mutating func start(_ offer: ServerOffer, isAhead: Bool = false, mayUseToken: Bool = true) async throws
        -> Attempt
    {
        let bindings = stream.connection.tls?.channelBindings ?? ChannelBindings()
        // That it is not listed here says nothing: ejabberd shows it behind the login only.
        if offer.extensible?.bindFeatures?.contains(Namespaces.csi) == true { learned.hasClientState = true }
        if mayUseToken, configuration.usesExtensibleLogin,
            let attempt = try await startWithToken(offer, bindings)
        {
            return attempt
        }
        if configuration.usesExtensibleLogin, let extensible = offer.extensible,
            !extensible.login.mechanisms.isEmpty
        {
            do {
                let exchange = try exchange(extensible.login, bindings, isAhead: isAhead)
                return try await start(exchange, extensible, bindings)
            } catch let error as SASLError where error.code == .noCommonMechanism {
                // The older profile may offer more.
                if offer.classic.mechanisms.isEmpty { throw error }
            }
        }
        let exchange = try exchange(offer.classic, bindings, isAhead: isAhead)
        try await stream.send(
            Element(
                "auth", namespace: Namespaces.sasl, attributes: ["mechanism": exchange.mechanismName],
                text: Self.text(exchange.initialResponse)))
        return Attempt(exchange: exchange, isExtensible: false)
    }

    /// One round trip: the token, and everything else with it.
    private func startWithToken(_ offer: ServerOffer, _ bindings: ChannelBindings) async throws -> Attempt? {
        guard configuration.usesTokens, configuration.authentication == .password,
            let mechanism = known.tokenMechanism, let extensible = offer.extensible,
            extensible.tokenMechanisms.contains(mechanism.name),
            mechanism.binding.map({ bindings[$0] != nil }) ?? true,
            // The count is committed here, before anything is made of it.
            let spent = try opener.login.spendToken(),
            let exchange = HashedTokenClient(
                spent.mechanism, user: configuration.jid.local?.string ?? "", token: spent.secret,
                bindings: bindings)
        else { return nil }
        return try await start(exchange, extensible, bindings, spent: spent)
    }

    private func start(
        _ exchange: any SASLExchange, _ offer: ServerOffer.Extensible, _ bindings: ChannelBindings,
        spent: SpentToken? = nil
    ) async throws -> Attempt {
        var attempt = Attempt(exchange: exchange, isExtensible: true, spent: spent)
        if spent == nil, configuration.usesTokens, configuration.authentication != .anonymous {
            attempt.requested = HashedTokenMechanism.best(offer.tokenMechanisms, bindings: bindings)
        }
        var request = SASL2Request(
            mechanism: exchange.mechanismName, initialResponse: exchange.initialResponse, agent: known.agent,
            tokenMechanism: attempt.requested?.name, tokenCount: spent?.count)
        if configuration.bindsInline, let features = offer.bindFeatures {
            let canManage = features.contains(Namespaces.sm)
            request.bind = .init(
                tag: opener.resource, enable: canManage ? StreamOpener.enableElement(configuration) : nil)
        }
        guard offer.canResume || request.bind != nil else {
            try await stream.send(request.element)
            return attempt
        }
        attempt.startsSession = true
        try withResumption { resumption in
            if offer.canResume {
                request.resumption = resumption
                attempt.resumption = resumption
            }
            try stream.sendAtOnce([request.element])
        }
        // A token is the first and the last word.
        if attempt.resumption != nil, spent != nil { try Failpoint.afterResumeSent.hit() }
        return attempt
    }

    private func exchange(
        _ offer: LoginOffer, _ bindings: ChannelBindings, isAhead: Bool
    ) throws -> any SASLExchange {
        let user = configuration.jid.local?.string ?? ""
        let policy = LoginPolicy(
            credentials: configuration.credentials, allowsPlain: configuration.allowsPlain && !isAhead,
            pinned: known.pinned)
        switch try LoginChoice.best(offer, policy, bindings: bindings) {
        case .scram(let choice):
            var scram = try SCRAMClient(
                choice, user: user, password: configuration.password, cachedKeys: opener.memory.keys)
            let isSameHash = choice.mechanism.hash == known.pinned?.hash
            scram.leastIterations = isSameHash ? known.iterations : 0
            return scram
        case .plain: return try PlainClient(user: user, password: configuration.password)
        case .external: return ExternalClient(identity: configuration.jid.description)
        case .anonymous: return AnonymousClient()
        }
    }

    // MARK: The rest of the exchange

    /// Answers challenges until the server has decided.
    ///
    /// - Returns: `<success/>`, once the server has proved itself too, or `<failure/>`.
    func converse(_ attempt: inout Attempt, _ offer: ServerOffer) async throws -> Verdict {
        let namespace = attempt.isExtensible ? Namespaces.sasl2 : Namespaces.sasl
        if var scram = attempt.exchange as? SCRAMClient {
            scram.offer = attempt.isExtensible ? offer.extensible?.login : offer.classic
            attempt.exchange = scram
        }
        while true {
            let answer = try await stream.element()
            guard answer.namespace == namespace else { throw unexpected(answer) }
            switch answer.name {
            case "challenge":
                let challenge = try Self.data(answer.text)
                try await derive(&attempt.exchange, for: challenge)
                let response = try attempt.exchange.received(challenge: challenge)
                try await respond(response, attempt, namespace)
            case "success":
                // A server that succeeds without its signature has not proved that it knows the password.
                let data = attempt.isExtensible ? try SASL2Success(answer).data : try Self.data(answer.text)
                try attempt.exchange.finish(success: data)
                return .success(answer)
            case "failure": return .failure(answer)
            case "continue":
                throw AccountError(
                    .notAuthorized,
                    "\(domain) wants a further step after the password (such as a one-time code), which is not known here; ask its operator for another way to log in"
                )
            default: throw unexpected(answer)
            }
        }
    }

    /// Computes the keys of a password where it holds up no other account.
    private func derive(_ exchange: inout any SASLExchange, for challenge: [UInt8]) async throws {
        guard let derivations = opener.derivations, var scram = exchange as? SCRAMClient,
            let derivation = scram.derivation(for: challenge)
        else { return }
        // Kept for the next attempt, which may need the same: the server decides how long this takes.
        scram.keys = try await stream.keys(derivation, for: ServerPlace(configuration), by: derivations)
        opener.memory.keys = scram.keys
        exchange = scram
    }

    enum Verdict {
        case success(Element), failure(Element)
    }

    /// With the last response the server acts upon the request: it resumes or binds. So it leaves only while no other process
    /// can have taken the account over.
    private func respond(_ response: [UInt8], _ attempt: Attempt, _ namespace: String) async throws {
        let element = Element(
            "response", namespace: namespace, text: Self.text(response, isExtensible: attempt.isExtensible))
        guard attempt.startsSession else { return try await stream.send(element) }
        try withResumption { resumption in
            guard attempt.resumption == nil || resumption == attempt.resumption else {
                throw AccountError(
                    .connectionFailed, "the session changed while the login was under way; it is tried again")
            }
            try stream.sendAtOnce([element])
        }
        if attempt.resumption != nil { try Failpoint.afterResumeSent.hit() }
    }

    private func unexpected(_ answer: Element) -> AccountError {
        AccountError(.protocolViolation, "the server sent <\(answer.name)/> during authentication")
    }

    /// An empty first message is written as `=` (RFC 6120 section 6.4.2); in the newer profile as nothing.
    private static func text(_ bytes: [UInt8], isExtensible: Bool = false) -> String {
        bytes.isEmpty && !isExtensible ? "=" : Crypto.base64(bytes)
    }

    /// The bytes that a SASL element carries.
    private static func data(_ text: ForeignText) throws -> [UInt8] {
        if text.isEmpty || text == "=" { return [] }
        guard let bytes = Crypto.bytes(base64: text) else {
            throw AccountError(.protocolViolation, "the server sent broken base64 during authentication")
        }
        return bytes
    }
}
