import XMPPCore
import XMPPTransport

/// `<authenticate/>` (XEP-0388 section 2.4): the login, and what shall be done in the same round trip.
struct SASL2Request {
    var mechanism: String
    var initialResponse: [UInt8]
    /// Names this installation; the same in all processes of an account (XEP-0388 section 2.4.1).
    var agent: String
    /// The session to resume. It comes before binding (XEP-0386 section 4).
    var resumption: StreamOpener.Resumption?
    /// The binding if nothing is resumed; nil to bind later.
    var bind: Bind?
    /// The mechanism to ask a token for.
    var tokenMechanism: String?
    /// The number of uses of the token, this one included; nil without a token.
    var tokenCount: Int64?

    struct Bind {
        /// The beginning of the resource.
        var tag: String
        /// The `<enable/>` of stream management, if the server offers it.
        var enable: Element?
    }

    var element: Element {
        var element = Element(
            "authenticate", namespace: Namespaces.sasl2, attributes: ["mechanism": mechanism])
        element.append(
            Element("initial-response", namespace: Namespaces.sasl2, text: Crypto.base64(initialResponse)))
        element.append(
            Element(
                "user-agent", namespace: Namespaces.sasl2, attributes: ["id": agent],
                children: [Element("software", namespace: Namespaces.sasl2, text: "durable-handlers")]))
        if let resumption { element.append(resumption.element) }
        if let bind { element.append(bind.element) }
        if let tokenCount {
            element.append(
                Element("fast", namespace: Namespaces.fast, attributes: ["count": String(tokenCount)]))
        }
        if let tokenMechanism {
            element.append(
                Element(
                    "request-token", namespace: Namespaces.fast, attributes: ["mechanism": tokenMechanism]))
        }
        return element
    }
}

extension SASL2Request.Bind {
    fileprivate var element: Element {
        var element = Element("bind", namespace: Namespaces.bind2)
        element.append(Element("tag", namespace: Namespaces.bind2, text: tag))
        if let enable { element.append(enable) }
        return element
    }
}

extension StreamOpener.Resumption {
    var element: Element {
        Element("resume", namespace: Namespaces.sm, attributes: ["h": h.description, "previd": id])
    }
}

extension StreamOpener {
    /// XEP-0198 section 3: `max` is in whole seconds and, when there is one, greater than zero.
    static func enableElement(_ configuration: AccountConfiguration) -> Element {
        let seconds = configuration.resumptionWindow?.components.seconds ?? 0
        let resumes = configuration.resumesSessions
        return Element(
            "enable", namespace: Namespaces.sm,
            attributes: [
                "resume": resumes ? "true" : nil, "max": resumes && seconds > 0 ? String(seconds) : nil,
            ])
    }
}

/// `<success/>` (XEP-0388 section 2.6), with what was done in the same round trip.
struct SASL2Success {
    /// The server's last word in the exchange.
    var data: [UInt8]
    /// The account's address: a full one if a resource was bound or a session resumed.
    var address: JID?
    /// `<resumed/>` or `<failed/>`, the answer to `<resume/>`.
    var resumption: Element?
    /// `<bound/>` or `<failed/>`, the answer to `<bind/>`.
    var binding: Element?
    /// A new token, which takes the place of the one before.
    var token: FastToken?

    /// - Throws: ``AccountError`` `protocolViolation` when it cannot be understood.
    init(_ element: Element) throws {
        let text = element.child("additional-data", Namespaces.sasl2)?.text ?? ""
        guard let data = text.isEmpty || text == "=" ? [] : Crypto.bytes(base64: text) else {
            throw AccountError(.protocolViolation, "the server sent broken base64 during authentication")
        }
        self.data = data
        // The examples of two specifications name it otherwise than the one that defines it.
        let address =
            element.child("authorization-identifier", Namespaces.sasl2)
            ?? element.child("authorization-identity", Namespaces.sasl2)
        self.address = address.flatMap { try? JID(received: $0.text) }
        resumption = element.elements.first {
            $0.namespace == Namespaces.sm && ["resumed", "failed"].contains($0.name)
        }
        binding = element.elements.first {
            $0.namespace == Namespaces.bind2 && ["bound", "failed"].contains($0.name)
        }
        token = element.child("token", Namespaces.fast).flatMap { token in
            token["token"].map { FastToken(secret: SecretBytes($0.string), expiry: token["expiry"]) }
        }
    }
}

/// A login token of the server (XEP-0484). It is as secret as a password.
struct FastToken: Sendable {
    var secret: SecretBytes
    /// When it ends, as the server wrote it (XEP-0082); nil when it did not.
    var expiry: ForeignText?

    /// Returns whether the token has surely ended. A date of another form than `2027-01-31T12:00:00Z` says nothing; the server
    /// refuses the token then.
    static func isOver(_ expiry: ForeignText?, now: String) -> Bool {
        guard let expiry, expiry.utf8.last == UInt8(ascii: "Z"), expiry.utf8.count >= 20 else { return false }
        return expiry.prefix(bytes: 19) < ForeignText(now).prefix(bytes: 19)
    }
}
