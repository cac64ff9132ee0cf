import AccountTestSupport
import ParserVerifier
import TestSupport
import Testing
import XMPPCore
import TestServers

extension RealServerTests {
    /// What real servers send, through the verifier of the parser: whole, byte by byte, glued, split everywhere.
    @Suite struct RecordedStreamTests {
        private static let texts = [
            "<body>plain</body>",
            "<body>&lt;&amp;&gt;&apos;&quot; &#13;&#10;&#x9; &#x1F600;</body>",
            "<body><![CDATA[<b>&amp;]]]]><![CDATA[></b>]]></body>",
            "<body>\u{1F469}\u{200D}\u{1F467} e\u{301} \u{5E9}\u{5DC}\u{5D5}\u{5DD} \u{10FFFD}</body>",
            "<body a='&lt;&#9;&#10;&apos;&quot;\u{E9}' xml:lang='he'>x</body>",
            "<p:a xmlns:p='urn:p' p:b='1'><p:a xmlns:p='urn:q' c='2'/><d xmlns='urn:d'><e xmlns='urn:e'/><f/></d></p:a>",
            "<x xmlns='urn:mixed'>one<y/>two<y>three</y>\n four \t</x>",
            "<deep xmlns='urn:deep'>" + String(repeating: "<d>", count: 40)
                + String(repeating: "</d>", count: 40)
                + "</deep>",
            "<body>" + String(repeating: "0123456789 \u{E9}&amp;", count: 1500) + "</body>",
        ]

        /// Makes the server send as many kinds of things as it has.
        private func talk(_ session: RecordedSession, _ home: RealHome) throws {
            let domain = home.server.domain
            try session.ask("<presence id='here'/>", until: "id='here'")
            try session.request("roster", to: home.jid.description, "<query xmlns='jabber:iq:roster'/>")
            for (index, name) in ["", "pubsub.", "conference."].enumerated() {
                for kind in ["info", "items"] {
                    try session.request(
                        "\(kind)\(index)", to: name + domain,
                        "<query xmlns='http://jabber.org/protocol/disco#\(kind)'/>")
                }
            }
            try session.request("unknown", to: domain, "<x xmlns='urn:nobody:knows'/>")
            try session.request(
                "publish", to: home.jid.description, type: "set",
                "<pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='urn:rec'><item id='1'>"
                    + "<x xmlns='urn:rec' \u{E9}='&lt;'>\u{1F600}</x></item></publish></pubsub>")
            try session.request(
                "items", to: home.jid.description,
                "<pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='urn:rec'/></pubsub>")
            try session.ask(
                "<presence id='room' to='room-\(home.jid.local ?? "")@conference.\(domain)/n\u{E9}'>"
                    + "<x xmlns='http://jabber.org/protocol/muc'/></presence>", until: "<subject")
            for (index, text) in Self.texts.enumerated() {
                try session.ask(
                    "<message to='\(home.jid)/rec' id='m\(index)' type='chat'>\(text)</message>"
                        + "<iq type='get' id='after\(index)'><ping xmlns='urn:xmpp:ping'/></iq>",
                    until: "id='m\(index)'")
            }
            try session.end()
        }

        @Test(
            "X3 what a server sends in whole sessions means the same however it is cut",
            arguments: ServerKind.allCases, [RealHome.Security.startTLS, .directTLS])
        func sessions(kind: ServerKind, security: RealHome.Security) async throws {
            try await withHome(kind) { home in
                let session = try RecordedSession(home, security)
                if security == .startTLS {
                    try session.startTLS()
                    try session.logIn()
                } else {
                    try session.logInExtensibly()
                }
                try talk(session, home)
                var outcomes: [ParserOutcome] = []
                for stream in session.streams { outcomes.append(try ParserVerifier.verifyRecording(stream)) }
                #expect(outcomes.allSatisfy { $0.code == nil })
                let last = try #require(outcomes.last)
                #expect(last.events.last == .closed)
                #expect(last.elements.count > 30)
                try checkMessages(last)
                let bytes = session.streams.joined().joined().count
                print("recorded on \(kind), \(security): \(session.streams.count) streams, \(bytes) bytes")
            }
        }

        /// What was sent to oneself came back as it was. Not so white space that had been escaped, and the order of
        /// attributes: servers do not keep these.
        private func checkMessages(_ outcome: ParserOutcome) throws {
            for (index, text) in Self.texts.enumerated() where !text.contains("&#") {
                let sent = try Element(parsing: text, defaultNamespace: Namespaces.client)
                let message = try #require(
                    outcome.elements.first { $0.name == "message" && $0["id"] == "m\(index)" })
                #expect(message.elements.contains(sent), "\(text.prefix(60))")
            }
        }
    }
}
