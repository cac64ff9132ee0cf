import Platform
import XMPPTransport
public import XMPPCore

/// The encrypted content: the text, and other elements if the version can carry them.
///
/// ```swift
/// try await account.perform { try account.omemo.send(OmemoContent(body: "Good night"), to: juliet, in: $0) }
/// ```
public struct OmemoContent: Hashable, Sendable {
    /// The text; nil when there is none.
    public var body: ForeignText?
    /// Other elements, such as a reply or a reaction.
    ///
    /// omemo:2 encrypts them. The legacy version encrypts the text only: beside it go in clear corrections, replies with
    /// the fallback for their quotes, requests for receipts and markers, chat states and threads, which servers can
    /// therefore read and change. A link to a file (XEP-0066, XEP-0447) is left out if the text contains it. With any other
    /// element, a device that speaks the legacy version only gets no message.
    public var elements: [Element]

    /// Says something.
    ///
    /// - Parameters:
    ///   - body: The text; nil for none.
    ///   - elements: Other elements; see ``elements`` for what a device of the legacy version gets of them.
    public init(body: (any TextConvertible)?, elements: [Element] = []) {
        self.body = body?.foreignText
        self.elements = elements
    }

    /// Everything, as the children of a message.
    var children: [Element] {
        (body.map { [Element("body", namespace: Namespaces.client, text: $0)] } ?? []) + elements
    }

    init(children: [Element]) {
        let isBody = { (element: Element) in element.has(name: "body", namespace: Namespaces.client) }
        self.init(body: children.first(where: isBody)?.text, elements: children.filter { !isBody($0) })
    }
}

/// `<envelope/>`: the content with what binds it to its stanza.
///
/// Source: XEP-0420 sections 4 to 6, and the profile in XEP-0384 section 5.5.
enum OmemoEnvelope {
    static let namespace = "urn:xmpp:sce:1"

    /// The longest padding, in bytes; its length is random, so that the length of the text cannot be read off.
    static let maximumPadding = 200

    /// - Parameters:
    ///   - room: The room, for a message to a room: it must be named, so that the message cannot be turned into a private one.
    ///   - padding: The number of padding characters, 0 to ``maximumPadding``; nil for a random one.
    static func bytes(_ content: OmemoContent, from: JID, room: JID?, padding: Int? = nil) -> [UInt8] {
        var generator = Randomness()
        let padding = padding ?? Int.random(in: 0...maximumPadding, using: &generator)
        // Only what others wrote, or a name of theirs, needs the serializer.
        let serializer = Serializer(standaloneIn: namespace)
        var bytes = Array("<envelope xmlns='\(namespace)'><content>".utf8)
        for child in content.children { serializer.append(child, to: &bytes) }
        bytes += "</content><rpad>".utf8
        bytes += Crypto.base64(Crypto.randomBytes(padding)).utf8.prefix(padding)
        bytes += "</rpad>".utf8
        for (name, jid) in [("from", from), ("to", room)] {
            guard let address = jid?.bare.description else { continue }
            serializer.append(Element(name, namespace: namespace, attributes: ["jid": address]), to: &bytes)
        }
        bytes += "</envelope>".utf8
        return bytes
    }

    /// Opens an envelope.
    ///
    /// - Parameters:
    ///   - sender: Who sent the stanza.
    ///   - recipient: A user, or the room in which it was sent.
    ///   - parser: Reads it, and others after it.
    /// - Throws: ``OmemoError`` `envelopeRejected` when it is malformed or contradicts the stanza.
    static func open(
        _ bytes: [UInt8], sender: JID, recipient: JID, isRoom: Bool,
        with parser: EnvelopeParser = EnvelopeParser()
    ) throws(OmemoError) -> OmemoContent {
        guard let envelope = parser.element(bytes), envelope.has(name: "envelope", namespace: namespace),
            let content = envelope.child("content", namespace)
        else { throw OmemoError(.envelopeRejected, "what was decrypted is no envelope of XEP-0420") }
        guard envelope.child("rpad", namespace) != nil else {
            throw OmemoError(.envelopeRejected, "the envelope has no padding, which XEP-0384 demands")
        }
        if let from = envelope.child("from", namespace), jid(from) != sender.bare {
            throw OmemoError(.envelopeRejected, "the envelope names another sender than the message")
        }
        let to = envelope.child("to", namespace)
        if isRoom && to == nil {
            throw OmemoError(.envelopeRejected, "the envelope of a message to a room does not name the room")
        }
        if let to, jid(to) != recipient.bare {
            throw OmemoError(.envelopeRejected, "the envelope names another recipient than the message")
        }
        return OmemoContent(children: content.elements.filter(isPermitted))
    }

    private static func jid(_ element: Element) -> JID? {
        element["jid"].flatMap { try? JID(received: $0) }?.bare
    }

    /// Returns whether an element may be encrypted: not if only servers may send it, or if it must be plain (XEP-0420
    /// section 9).
    private static func isPermitted(_ element: Element) -> Bool {
        let barred: [String] = [
            Namespaces.encryptionMark, OmemoVersion.legacy.namespace, OmemoVersion.omemo2.namespace,
        ]
        return !isPlain(element) && !barred.contains(element.namespace)
    }

    /// Returns whether an element is for servers or of servers, and so never in an envelope.
    static func isPlain(_ element: Element) -> Bool {
        let namespaces: [String] = [
            Namespaces.hints, Namespaces.sid, Namespaces.addresses, Namespaces.delay, Namespaces.occupantID,
            Namespaces.mucUser,
        ]
        return namespaces.contains(element.namespace)
    }
}

/// Reads complete elements, one after the other in one stream: a parser costs more than an envelope.
final class EnvelopeParser {
    private var stream: StreamParser?

    /// - Returns: Nil when the bytes are not exactly one well-formed element within the limits.
    func element(_ bytes: [UInt8]) -> Element? {
        guard let stream = stream ?? Self.makeStream() else { return nil }
        // Given up, unless nothing of this element is left in it for the next one.
        self.stream = nil
        guard let events = try? stream.parse(bytes), events.count == 1,
            case .element(let element) = events[0],
            stream.isBetweenElements
        else { return nil }
        self.stream = stream
        return element
    }

    private static func makeStream() -> StreamParser? {
        guard let stream = try? StreamParser(),
            (try? stream.parse(Serializer.streamHeader(to: nil, contentNamespace: ""))) != nil
        else { return nil }
        return stream
    }
}
