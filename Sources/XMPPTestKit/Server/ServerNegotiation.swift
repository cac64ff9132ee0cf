package import XMPPTransport
package import XMPPCore

/// The negotiation of a connection before its session: headers, TLS, SASL (RFC 6120 sections 4 to 7).
///
/// ```text
/// .opened ──▶ [.header, .send(features)]
/// <starttls/> ──▶ [.send(<proceed/>), .startTLS] ──▶ secured(bindings:) ──▶ a new stream
/// <auth/>, <response/> ──▶ [.send(<challenge/>)], [.send(<success/>), .restart] ──▶ a new stream
/// <iq><bind/></iq> ──▶ [.bind]        <resume/> ──▶ [.resume]
/// ```
package struct ServerNegotiation: Sendable {
    /// An action for the owner to perform.
    package enum Action: Hashable, Sendable {
        /// Send a stream header.
        case header(to: ForeignText?)
        case send(Element)
        /// Start TLS once everything before it is sent.
        case startTLS
        /// Expect a new stream.
        case restart
        /// A request to bind a resource.
        case bind(Element)
        /// A request to resume a session.
        case resume(Element)
        /// The login came about: resume or bind what came with it, and send all answers inside `<success/>`.
        case complete(Element, resume: Element?, bind: Element?)
        /// End the stream.
        case fail(StreamError)
    }

    enum Phase {
        case header
        case features
        case exchanging(SCRAMServer, Element?)
        case established
    }

    /// Whether TLS protects the stream.
    package private(set) var isSecure: Bool
    /// The localpart of the account that proved itself.
    package internal(set) var account: String?
    var phase = Phase.header
    private var refusals = 0
    var bindings = ChannelBindings()

    /// The maximum number of failed logins on one connection (RFC 6120 section 6.4.5 recommends 2 to 5).
    private static let maximumRefusals = 3

    package init(isSecure: Bool) { self.isSecure = isSecure }

    /// Handles the end of the TLS handshake.
    ///
    /// - Parameter bindings: What a login can be bound to.
    package mutating func secured(bindings: ChannelBindings) {
        isSecure = true
        phase = .header
        self.bindings = bindings
    }

    /// Marks the connection as one that carries a session.
    package mutating func establish() { phase = .established }

    // MARK: The header

    /// Whether the server has not started its stream: a stream error then needs a header first (RFC 6120 section 4.9.1.2).
    package var needsHeader: Bool {
        if case .header = phase { true } else { false }
    }

    /// Takes a stream header.
    package mutating func opened(_ header: Element, domain: String, behavior: ServerBehavior) -> [Action] {
        guard case .header = phase else { return [.fail(StreamError(.badFormat))] }
        let answer = Action.header(to: header["from"])
        phase = .features
        guard header["to"] == domain else { return [answer, .fail(StreamError(.hostUnknown))] }
        return [answer, .send(features(behavior))]
    }

    func features(_ behavior: ServerBehavior) -> Element {
        var features = Element("features", namespace: Namespaces.stream)
        if !isSecure {
            if behavior.offersStartTLS {
                features.append(
                    Element(
                        "starttls", namespace: Namespaces.tls,
                        children: [Element("required", namespace: Namespaces.tls)]))
            }
        } else if account == nil {
            for child in mechanisms(behavior) { features.append(child) }
        } else {
            features.append(Element("bind", namespace: Namespaces.bind))
            if behavior.offersStreamManagement { features.append(Element("sm", namespace: Namespaces.sm)) }
            if behavior.offersClientState { features.append(Element("csi", namespace: Namespaces.csi)) }
            if let limit = behavior.stanzaLimit, behavior.announcesStanzaLimit {
                let bytes = Element("max-bytes", namespace: Namespaces.streamLimits, text: String(limit))
                features.append(Element("limits", namespace: Namespaces.streamLimits, children: [bytes]))
            }
            if behavior.offersRosterVersions {
                features.append(Element("ver", namespace: Namespaces.rosterVersions))
            }
        }
        return features
    }

    private func mechanisms(_ behavior: ServerBehavior) -> [Element] {
        let names = behavior.mechanisms.map { Element("mechanism", namespace: Namespaces.sasl, text: $0) }
        var offers = [Element("mechanisms", namespace: Namespaces.sasl, children: names)]
        if let offer = extensibleOffer(behavior) { offers.append(offer) }
        let types = bindings.types.filter { behavior.bindingTypes.contains($0.rawValue) }
        if !types.isEmpty, Self.offersPlus(behavior) {
            let children = types.map {
                Element(
                    "channel-binding", namespace: Namespaces.saslChannelBinding,
                    attributes: ["type": $0.rawValue])
            }
            offers.append(
                Element("sasl-channel-binding", namespace: Namespaces.saslChannelBinding, children: children))
        }
        return offers
    }

    static func offersPlus(_ behavior: ServerBehavior) -> Bool {
        (behavior.mechanisms + behavior.extensibleMechanisms).contains { $0.hasSuffix("-PLUS") }
    }

    // MARK: Elements

    /// Takes a first-level element. Only before ``establish()``.
    package mutating func receive(
        _ element: Element, credentials: ServerCredentials, behavior: ServerBehavior,
        tokens: inout ServerTokens
    ) -> [Action] {
        switch element.namespace {
        case Namespaces.tls where element.name == "starttls":
            guard !isSecure, behavior.offersStartTLS else {
                return [
                    .send(Element("failure", namespace: Namespaces.tls)),
                    .fail(StreamError(.policyViolation)),
                ]
            }
            return [.send(Element("proceed", namespace: Namespaces.tls)), .startTLS]
        case Namespaces.sasl where isSecure && account == nil:
            return authenticate(element, credentials, behavior)
        case Namespaces.sasl2 where isSecure && account == nil:
            return authenticateExtensible(element, credentials, behavior, &tokens)
        case Namespaces.sm where account != nil:
            guard element.name == "resume", behavior.offersStreamManagement else {
                return [.send(ServerSession.failed("unexpected-request"))]
            }
            return [.resume(element)]
        case Namespaces.client where account != nil && element.child("bind", Namespaces.bind) != nil:
            return [.bind(element)]
        default: return [.fail(StreamError(.notAuthorized))]
        }
    }

    // MARK: SASL (RFC 6120 section 6)

    private mutating func authenticate(
        _ element: Element, _ credentials: ServerCredentials, _ behavior: ServerBehavior
    ) -> [Action] {
        // A single "=" stands for an empty message (RFC 6120 section 6.4.2).
        guard let message = element.text == "=" ? [] : Crypto.bytes(base64: element.text) else {
            return refuse("incorrect-encoding")
        }
        switch (element.name, phase) {
        case ("auth", .features):
            guard let name = element["mechanism"], behavior.mechanisms.contains(name) else {
                return refuse("invalid-mechanism")
            }
            if name == "PLAIN" {
                let login = Self.plain(message, credentials)
                return login.refusal.map { refuse($0) } ?? succeed(login.account, data: nil)
            }
            guard let mechanism = SCRAMMechanism(name: name.string) else {
                return refuse("invalid-mechanism")
            }
            return start(mechanism, message, credentials, behavior)
        case ("response", .exchanging(let server, nil)): return finish(server, message, behavior)
        case ("abort", _): return refuse("aborted")
        default: return refuse("malformed-request")
        }
    }

    /// Takes the client's first message of a SCRAM login.
    ///
    /// - Parameter request: The request of the extensible profile; nil for a login by the older one.
    mutating func start(
        _ mechanism: SCRAMMechanism, _ message: [UInt8], _ credentials: ServerCredentials,
        _ behavior: ServerBehavior, request: Element? = nil
    ) -> [Action] {
        let namespace = request == nil ? Namespaces.sasl : Namespaces.sasl2
        var server = SCRAMServer(mechanism, bindings: bindings, offersPlus: Self.offersPlus(behavior))
        do throws(SASLError) {
            let challenge = try server.receivedFirst(message) {
                credentials.verifier(of: $0, hash: mechanism.hash)
            }
            phase = .exchanging(server, request)
            return [.send(Element("challenge", namespace: namespace, text: Crypto.base64(challenge)))]
        } catch { return refuse(error, namespace: namespace) }
    }

    private mutating func finish(
        _ server: SCRAMServer, _ message: [UInt8], _ behavior: ServerBehavior
    ) -> [Action] {
        do throws(SASLError) {
            let signature = try Self.signature(server, message, behavior)
            return succeed(server.user ?? "", data: Crypto.base64(signature))
        } catch { return refuse(error, namespace: Namespaces.sasl) }
    }

    /// Returns the answer to the client's last message of a SCRAM login.
    static func signature(
        _ server: SCRAMServer, _ message: [UInt8], _ behavior: ServerBehavior
    ) throws(SASLError) -> [UInt8] {
        var server = server
        let signature = try server.receivedFinal(message)
        guard behavior.signsWrongly else { return signature }
        return Array("v=\(Crypto.base64(Crypto.randomBytes(server.mechanism.hash.size)))".utf8)
    }

    /// RFC 4616: an authorization identity, the user name and the password, with NUL in between.
    ///
    /// - Returns: The account, or the condition of the refusal.
    static func plain(_ message: [UInt8], _ credentials: ServerCredentials) -> (
        account: String, refusal: String?
    ) {
        let parts = message.split(separator: 0, omittingEmptySubsequences: false).map {
            String(decoding: $0, as: UTF8.self)
        }
        guard parts.count == 3 else { return ("", "malformed-request") }
        return (parts[1], credentials.isPassword(parts[2], of: parts[1]) ? nil : "not-authorized")
    }

    private mutating func succeed(_ account: String, data: String?) -> [Action] {
        self.account = account
        phase = .header
        return [.send(Element("success", namespace: Namespaces.sasl, text: data)), .restart]
    }

    mutating func refuse(_ error: SASLError, namespace: String) -> [Action] {
        refuse(
            error.code == .malformedMessage ? "malformed-request" : "not-authorized", namespace: namespace)
    }

    mutating func refuse(_ condition: String, namespace: String = Namespaces.sasl) -> [Action] {
        phase = .features
        refusals += 1
        let failure = Element(
            "failure", namespace: namespace, children: [Element(condition, namespace: Namespaces.sasl)])
        let isLast = refusals >= Self.maximumRefusals
        return [.send(failure)] + (isLast ? [.fail(StreamError(.policyViolation))] : [])
    }
}
