import TestThreads
import Testing
import ParserVerifier
import XMPPCore

/// The tables of RFC 6120, compared with the RFC's own words.
@Suite(.ownThread) struct ErrorConditionTests {
    /// RFC 6120 section 8.3.3, in its order: the condition and the error type associated with it.
    static let stanzaConditions: [(OpenName<StanzaError>, String, String)] = [
        (.badRequest, "bad-request", "modify"),
        (.conflict, "conflict", "cancel"),
        (.featureNotImplemented, "feature-not-implemented", "cancel"),
        (.forbidden, "forbidden", "auth"),
        (.gone, "gone", "cancel"),
        (.internalServerError, "internal-server-error", "cancel"),
        (.itemNotFound, "item-not-found", "cancel"),
        (.jidMalformed, "jid-malformed", "modify"),
        (.notAcceptable, "not-acceptable", "modify"),
        (.notAllowed, "not-allowed", "cancel"),
        (.notAuthorized, "not-authorized", "auth"),
        (.policyViolation, "policy-violation", "modify"),
        (.recipientUnavailable, "recipient-unavailable", "wait"),
        (.redirect, "redirect", "modify"),
        (.registrationRequired, "registration-required", "auth"),
        (.remoteServerNotFound, "remote-server-not-found", "cancel"),
        (.remoteServerTimeout, "remote-server-timeout", "wait"),
        (.resourceConstraint, "resource-constraint", "wait"),
        (.serviceUnavailable, "service-unavailable", "cancel"),
        (.subscriptionRequired, "subscription-required", "auth"),
        (.undefinedCondition, "undefined-condition", "cancel"),
        (.unexpectedRequest, "unexpected-request", "wait"),
    ]

    /// RFC 6120 section 4.9.3, in its order.
    static let streamConditions: [(StreamError.Condition, String)] = [
        (.badFormat, "bad-format"), (.badNamespacePrefix, "bad-namespace-prefix"), (.conflict, "conflict"),
        (.init(rawValue: "connection-timeout"), "connection-timeout"), (.hostGone, "host-gone"),
        (.hostUnknown, "host-unknown"), (.init(rawValue: "improper-addressing"), "improper-addressing"),
        (.init(rawValue: "internal-server-error"), "internal-server-error"),
        (.invalidFrom, "invalid-from"), (.invalidNamespace, "invalid-namespace"),
        (.invalidXML, "invalid-xml"),
        (.notAuthorized, "not-authorized"), (.notWellFormed, "not-well-formed"),
        (.policyViolation, "policy-violation"),
        (.init(rawValue: "remote-connection-failed"), "remote-connection-failed"),
        (.reset, "reset"), (.resourceConstraint, "resource-constraint"), (.restrictedXML, "restricted-xml"),
        (.seeOtherHost, "see-other-host"), (.systemShutdown, "system-shutdown"),
        (.undefinedCondition, "undefined-condition"), (.unsupportedEncoding, "unsupported-encoding"),
        (.unsupportedFeature, "unsupported-feature"), (.unsupportedStanzaType, "unsupported-stanza-type"),
        (.init(rawValue: "unsupported-version"), "unsupported-version"),
    ]

    /// Reads one element as a server would send it.
    private func parse(_ xml: String) throws -> Element {
        try #require(try ParserVerifier.outcome(of: [Array((testHeader + xml).utf8)]).elements.first)
    }

    @Test("X2 the stanza error conditions are those of RFC 6120, each with its type")
    func stanzaTable() throws {
        for (condition, name, kind) in Self.stanzaConditions {
            let stanza = try parse(
                "<iq type='error' id='1'><error type='\(kind)'><\(name) xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>"
                    + "</error></iq>")
            let error = try #require(try IQ(element: stanza).error)
            #expect(error.condition == condition)
            #expect(error.kind.rawValue == kind)
            #expect(condition.defaultKind.rawValue == kind)
            #expect(StanzaError(condition).element == stanza.firstElement)
        }
    }

    @Test("X3 the stream error conditions are those of RFC 6120")
    func streamTable() throws {
        for (condition, name) in Self.streamConditions {
            let element = try parse(
                "<stream:error><\(name) xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>")
            #expect(StreamError(element)?.condition == condition)
            #expect(StreamError(condition).element == element)
        }
    }

    @Test("X2 the error types are those of RFC 6120")
    func kinds() {
        #expect(
            StanzaError.Kind.allCases.map(\.rawValue) == ["auth", "cancel", "continue", "modify", "wait"])
    }

    @Test("X2 a stanza error keeps text, language, by, address and the extension's condition")
    func completeStanzaError() throws {
        let stanza = try parse(
            "<iq type='error' id='1'><error type='wait' by='pubsub.example.org'>"
                + "<gone xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'>xmpp:new@example.org</gone>"
                + "<text xmlns='urn:ietf:params:xml:ns:xmpp-stanzas' xml:lang='de'>weg</text>"
                + "<closed-node xmlns='http://jabber.org/protocol/pubsub#errors'/></error></iq>")
        let error = try #require(try IQ(element: stanza).error)
        #expect(error.condition == .gone && error.kind == .wait)
        #expect(error.text == "weg" && error.language == "de")
        #expect(error.by?.description == "pubsub.example.org")
        #expect(error.alternateAddress == "xmpp:new@example.org")
        #expect(
            error.applicationCondition?.has(name: "closed-node", namespace: Namespaces.pubsubErrors) == true)
        #expect(error.element == stanza.firstElement)
        #expect(error.description == "gone, closed-node (wait): weg")
    }

    @Test("X2 an odd stanza error still ends as an error")
    func oddStanzaErrors() throws {
        let stanzas = "xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'"
        for (xml, condition, kind) in [
            ("<error/>", "undefined-condition", StanzaError.Kind.cancel),
            ("<error type='nonsense'><forbidden \(stanzas)/></error>", "forbidden", .auth),
            ("<error code='404'><item-not-found \(stanzas)/></error>", "item-not-found", .cancel),
            ("<error type='modify'><brand-new \(stanzas)/></error>", "brand-new", .modify),
            (
                "<error type='cancel' by='@'><text \(stanzas)>only text</text></error>",
                "undefined-condition", .cancel
            ),
            ("<error type='cancel'><forbidden/></error>", "undefined-condition", .cancel),
        ] {
            let iq = try IQ(element: try parse("<iq type='error' id='1'>\(xml)</iq>"))
            #expect(iq.error?.condition.rawValue == condition, "\(xml)")
            #expect(iq.error?.kind == kind, "\(xml)")
        }
        #expect(StanzaError(Element("error", namespace: Namespaces.stream)) == nil)
        #expect(StanzaError(Element("err", namespace: Namespaces.client)) == nil)
    }

    @Test("X3 see-other-host and stream management's own condition are kept")
    func completeStreamErrors() throws {
        let redirect = try parse(
            "<stream:error><see-other-host xmlns='urn:ietf:params:xml:ns:xmpp-streams'>[2001:db8::1]:5222</see-other-host>"
                + "</stream:error>")
        #expect(StreamError(redirect)?.alternateAddress == "[2001:db8::1]:5222")
        #expect(StreamError(redirect)?.element == redirect)
        let tooHigh = try parse(
            "<stream:error><undefined-condition xmlns='urn:ietf:params:xml:ns:xmpp-streams'/>"
                + "<handled-count-too-high xmlns='urn:xmpp:sm:3' h='10' send-count='8'/></stream:error>")
        let error = try #require(StreamError(tooHigh))
        #expect(error.applicationCondition?["send-count"] == "8")
        #expect(error.element == tooHigh)
        #expect(error.description == "undefined-condition, handled-count-too-high")
        #expect(StreamError(Element("error", namespace: Namespaces.client)) == nil)
        #expect(StreamError(Element("error", namespace: Namespaces.stream))?.condition == .undefinedCondition)
    }

    @Test("X3 namespaces are those of their specifications")
    func namespaces() {
        for (name, specified) in [
            (Namespaces.client, "jabber:client"), (Namespaces.server, "jabber:server"),
            (Namespaces.component, "jabber:component:accept"),
            (Namespaces.stream, "http://etherx.jabber.org/streams"),
            (Namespaces.streams, "urn:ietf:params:xml:ns:xmpp-streams"),
            (Namespaces.stanzas, "urn:ietf:params:xml:ns:xmpp-stanzas"),
            (Namespaces.tls, "urn:ietf:params:xml:ns:xmpp-tls"),
            (Namespaces.sasl, "urn:ietf:params:xml:ns:xmpp-sasl"),
            (Namespaces.bind, "urn:ietf:params:xml:ns:xmpp-bind"),
            (Namespaces.session, "urn:ietf:params:xml:ns:xmpp-session"),
            (Namespaces.xml, "http://www.w3.org/XML/1998/namespace"),
            (Namespaces.xmlns, "http://www.w3.org/2000/xmlns/"),
            (Namespaces.sm, "urn:xmpp:sm:3"), (Namespaces.saslChannelBinding, "urn:xmpp:sasl-cb:0"),
            (Namespaces.sasl2, "urn:xmpp:sasl:2"), (Namespaces.bind2, "urn:xmpp:bind:0"),
            (Namespaces.fast, "urn:xmpp:fast:0"), (Namespaces.csi, "urn:xmpp:csi:0"),
            (Namespaces.push, "urn:xmpp:push:0"), (Namespaces.roster, "jabber:iq:roster"),
            (Namespaces.rosterVersions, "urn:xmpp:features:rosterver"),
            (Namespaces.nick, "http://jabber.org/protocol/nick"), (Namespaces.vcard, "vcard-temp"),
            (Namespaces.blocking, "urn:xmpp:blocking"), (Namespaces.ping, "urn:xmpp:ping"),
            (Namespaces.discoInfo, "http://jabber.org/protocol/disco#info"),
            (Namespaces.discoItems, "http://jabber.org/protocol/disco#items"),
            (Namespaces.caps, "http://jabber.org/protocol/caps"), (Namespaces.version, "jabber:iq:version"),
            (Namespaces.dataForms, "jabber:x:data"), (Namespaces.rsm, "http://jabber.org/protocol/rsm"),
            (Namespaces.delay, "urn:xmpp:delay"), (Namespaces.sid, "urn:xmpp:sid:0"),
            (Namespaces.receipts, "urn:xmpp:receipts"), (Namespaces.carbons, "urn:xmpp:carbons:2"),
            (Namespaces.forward, "urn:xmpp:forward:0"), (Namespaces.mam, "urn:xmpp:mam:2"),
            (Namespaces.chatStates, "http://jabber.org/protocol/chatstates"),
            (Namespaces.hints, "urn:xmpp:hints"), (Namespaces.correction, "urn:xmpp:message-correct:0"),
            (Namespaces.retraction, "urn:xmpp:message-retract:1"),
            (Namespaces.reactions, "urn:xmpp:reactions:0"), (Namespaces.replies, "urn:xmpp:reply:0"),
            (Namespaces.fallback, "urn:xmpp:fallback:0"), (Namespaces.markers, "urn:xmpp:chat-markers:0"),
            (Namespaces.outOfBand, "jabber:x:oob"), (Namespaces.fileSharing, "urn:xmpp:sfs:0"),
            (Namespaces.addresses, "http://jabber.org/protocol/address"),
            (Namespaces.encryptionMark, "urn:xmpp:eme:0"),
            (Namespaces.spoilers, "urn:xmpp:spoiler:0"), (Namespaces.occupantID, "urn:xmpp:occupant-id:0"),
            (Namespaces.displayed, "urn:xmpp:mds:displayed:0"),
            (Namespaces.muc, "http://jabber.org/protocol/muc"),
            (Namespaces.mucUser, "http://jabber.org/protocol/muc#user"),
            (Namespaces.mucAdmin, "http://jabber.org/protocol/muc#admin"),
            (Namespaces.mucOwner, "http://jabber.org/protocol/muc#owner"),
            (Namespaces.conference, "jabber:x:conference"),
            (Namespaces.pubsub, "http://jabber.org/protocol/pubsub"),
            (Namespaces.pubsubEvent, "http://jabber.org/protocol/pubsub#event"),
            (Namespaces.pubsubOwner, "http://jabber.org/protocol/pubsub#owner"),
            (Namespaces.pubsubErrors, "http://jabber.org/protocol/pubsub#errors"),
            (Namespaces.omemoLegacy, "eu.siacs.conversations.axolotl"),
        ] {
            #expect(name == specified)
        }
    }
}
