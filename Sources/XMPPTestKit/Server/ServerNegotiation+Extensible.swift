import XMPPTransport
import XMPPCore

// The extensible SASL profile (XEP-0388) with what can be done in the same round trip.
extension ServerNegotiation {
    func extensibleOffer(_ behavior: ServerBehavior) -> Element? {
        guard !behavior.extensibleMechanisms.isEmpty else { return nil }
        var offer = Element("authentication", namespace: Namespaces.sasl2)
        for name in behavior.extensibleMechanisms {
            offer.append(Element("mechanism", namespace: Namespaces.sasl2, text: name))
        }
        var inline = Element("inline", namespace: Namespaces.sasl2)
        if behavior.offersInlineBinding {
            let feature = Element("feature", namespace: Namespaces.bind2, attributes: ["var": Namespaces.sm])
            let state = Element("feature", namespace: Namespaces.bind2, attributes: ["var": Namespaces.csi])
            let features = Element(
                "inline", namespace: Namespaces.bind2,
                children: behavior.offersClientState ? [feature, state] : [feature])
            inline.append(Element("bind", namespace: Namespaces.bind2, children: [features]))
        }
        if behavior.offersStreamManagement { inline.append(Element("sm", namespace: Namespaces.sm)) }
        if !behavior.tokenMechanisms.isEmpty {
            let names = behavior.tokenMechanisms.map {
                Element("mechanism", namespace: Namespaces.fast, text: $0)
            }
            inline.append(Element("fast", namespace: Namespaces.fast, children: names))
        }
        offer.append(inline)
        return offer
    }

    mutating func authenticateExtensible(
        _ element: Element, _ credentials: ServerCredentials, _ behavior: ServerBehavior,
        _ tokens: inout ServerTokens
    ) -> [Action] {
        let text = element.child("initial-response", Namespaces.sasl2)?.text ?? element.text
        guard let message = Crypto.bytes(base64: text) else { return refuseExtensible("incorrect-encoding") }
        switch (element.name, phase) {
        case ("authenticate", .features):
            guard let name = element["mechanism"] else { return refuseExtensible("malformed-request") }
            if behavior.tokenMechanisms.contains(name) {
                return token(message, element, name, behavior, &tokens)
            }
            guard behavior.extensibleMechanisms.contains(name) else {
                return refuseExtensible("invalid-mechanism")
            }
            if name == "PLAIN" {
                let login = Self.plain(message, credentials)
                if let refusal = login.refusal { return refuseExtensible(refusal) }
                let token = token(for: login.account, element, behavior, &tokens)
                return succeed(login.account, nil, element, token: token)
            }
            guard let mechanism = SCRAMMechanism(name: name.string) else {
                return refuseExtensible("invalid-mechanism")
            }
            return start(mechanism, message, credentials, behavior, request: element)
        case ("response", .exchanging(let server, .some(let request))):
            return finish(server, message, request, behavior, &tokens)
        default: return refuseExtensible("malformed-request")
        }
    }

    private mutating func finish(
        _ server: SCRAMServer, _ message: [UInt8], _ request: Element, _ behavior: ServerBehavior,
        _ tokens: inout ServerTokens
    ) -> [Action] {
        do throws(SASLError) {
            let signature = try Self.signature(server, message, behavior)
            let account = server.user ?? ""
            let token = token(for: account, request, behavior, &tokens)
            return succeed(account, signature, request, token: token)
        } catch { return refuse(error, namespace: Namespaces.sasl2) }
    }

    /// The token that the request asks for.
    private func token(
        for account: String, _ request: Element, _ behavior: ServerBehavior, _ tokens: inout ServerTokens
    ) -> String? {
        guard let wanted = request.child("request-token", Namespaces.fast)?["mechanism"],
            behavior.tokenMechanisms.contains(wanted)
        else { return nil }
        return tokens.make(wanted, for: Self.client(account, request))
    }

    /// A login by token: the account's name, a zero byte, and a keyed hash.
    private mutating func token(
        _ message: [UInt8], _ request: Element, _ name: ForeignText, _ behavior: ServerBehavior,
        _ tokens: inout ServerTokens
    ) -> [Action] {
        guard let fast = request.child("fast", Namespaces.fast),
            let mechanism = HashedTokenMechanism(name: name.string),
            let end = message.firstIndex(of: 0)
        else { return refuseExtensible("malformed-request") }
        let account = String(decoding: message[..<end], as: UTF8.self)
        let data = mechanism.binding.flatMap { bindings[$0] } ?? []
        let client = Self.client(account, request)
        func hash(_ role: String, _ secret: String) -> [UInt8] {
            Crypto.hmac(mechanism.hash, key: SecretBytes(secret), Array(role.utf8) + data)
        }
        let used = tokens.use(by: client, count: fast["count"].flatMap { Int($0) }) {
            $0.mechanism == name && Crypto.isEqual(hash("Initiator", $0.secret), Array(message[(end + 1)...]))
        }
        guard let used else { return refuseExtensible("not-authorized") }
        let answer = behavior.answersTokensWrongly ? Crypto.randomBytes(32) : hash("Responder", used.secret)
        let next = behavior.rotatesTokens ? tokens.make(name, for: client) : nil
        return succeed(account, answer, request, token: next)
    }

    private static func client(_ account: String, _ request: Element) -> ForeignText {
        "\(account)/\(request.child("user-agent", Namespaces.sasl2)?["id"] ?? "")"
    }

    private mutating func succeed(
        _ account: String, _ data: [UInt8]?, _ request: Element, token: String?
    ) -> [Action] {
        self.account = account
        phase = .features
        var success = Element("success", namespace: Namespaces.sasl2)
        if let data {
            success.append(Element("additional-data", namespace: Namespaces.sasl2, text: Crypto.base64(data)))
        }
        if let token {
            success.append(
                Element(
                    "token", namespace: Namespaces.fast,
                    attributes: ["token": token, "expiry": "2999-01-01T00:00:00Z"]))
        }
        return [
            .complete(
                success, resume: request.child("resume", Namespaces.sm),
                bind: request.child("bind", Namespaces.bind2))
        ]
    }

    private mutating func refuseExtensible(_ condition: String) -> [Action] {
        refuse(condition, namespace: Namespaces.sasl2)
    }
}
