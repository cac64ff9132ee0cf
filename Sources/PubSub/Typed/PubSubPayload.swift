import Handlers
public import XMPPCore

/// A value that the items of a node hold.
///
/// With it a program publishes, fetches and listens without writing XML.
///
/// A Codable type needs no more than its node's name; its items then hold JSON (XEP-0335):
///
/// ```swift
/// struct Mood: PubSubPayload, Codable {
///     static let node = "urn:example:mood"
///     var text: String
///     var since: Int64
/// }
/// enum Moods {
///     @Handler("moods.changed")
///     static func changed(_ call: borrowing Call<PubSubEvent.Of<Mood>>) throws { … }
/// }
/// try await account.request(.pubsub(.publish(Mood(text: "merry", since: 1))))
/// try await account.perform { try account.pubsub.listen(to: Mood.self, as: "moods", Moods.changed(), in: $0) }
/// ```
///
/// One that others have defined says how it looks; ``UserNick``, ``AvatarMetadata`` and ``RoomBookmark`` are such.
///
/// Source: XEP-0060 section 7.1, XEP-0163.
public protocol PubSubPayload: Sendable {
    /// The node's name.
    static var node: String { get }
    /// The options that the node must have for a value to be published; a missing node is created with them. None unless said
    /// otherwise, which for PEP means that contacts may read it.
    static var options: [PubSubOption] { get }

    /// Under which id the value is published: `current` unless said otherwise, so that the node holds one value
    /// (XEP-0060 section 13.21). Nil lets the service choose one.
    var itemID: ForeignText? { get }
    /// The value as XML.
    ///
    /// - Throws: When it cannot be published.
    var element: Element { get throws }

    /// Reads a value that was published.
    ///
    /// - Parameters:
    ///   - element: What the item holds. Anybody may publish anything: check it.
    ///   - itemID: The item's id; nil where items are not kept.
    /// - Throws: ``PubSubPayloadError`` or any other error when it is none.
    init(_ element: Element, itemID: ForeignText?) throws
}

extension PubSubPayload {
    public static var options: [PubSubOption] { [] }
    public var itemID: ForeignText? { "current" }

    /// The item that is published.
    func item() throws -> PubSubItem { PubSubItem(id: itemID, payload: try element) }
}

// MARK: - JSON

extension PubSubPayload where Self: Codable {
    /// The value as JSON in a container (XEP-0335).
    public var element: Element {
        get throws {
            let text: String
            do {
                text = String(decoding: try ArgumentCoding.encode(self), as: UTF8.self)
            } catch {
                throw PubSubPayloadError(
                    .unwritable, "a value for the node '\(Self.node)' cannot be written as JSON: \(error)")
            }
            return Element(JSONContainer.name, namespace: JSONContainer.namespace, text: text)
        }
    }

    /// Reads JSON out of its container (XEP-0335).
    ///
    /// - Parameters:
    ///   - element: What the item holds.
    ///   - itemID: The item's id, which is not looked at.
    /// - Throws: ``PubSubPayloadError`` `unreadable` when it holds something else, or other JSON.
    public init(_ element: Element, itemID: ForeignText?) throws {
        guard element.has(name: JSONContainer.name, namespace: JSONContainer.namespace) else {
            throw PubSubPayloadError.unexpected(element, on: Self.node)
        }
        do {
            self = try ArgumentCoding.value(Self.self, from: Array(element.text.utf8))
        } catch {
            throw PubSubPayloadError(
                .unreadable, "an item of the node '\(Self.node)' holds other JSON than \(Self.self): \(error)"
            )
        }
    }
}

/// The element around JSON (XEP-0335).
enum JSONContainer {
    static let name = "json"
    static let namespace = "urn:xmpp:json:0"
}

// MARK: - Errors

/// An error of a value that cannot be published or read.
///
/// ```swift
/// guard element.has(name: "mood", namespace: Mood.node) else {
///     throw PubSubPayloadError(.unreadable, "an item of \(Mood.node) holds <\(element.name)>; leave it out")
/// }
/// ```
public struct PubSubPayloadError: CodedError, Hashable {
    /// The kind of error.
    public let code: ErrorCode<PubSubPayloadError>
    /// A sentence that says what happened and what to do.
    public let message: String

    /// Makes an error, for payloads of a program's own.
    ///
    /// - Parameters:
    ///   - code: What kind of error it is.
    ///   - message: What happened and what to do, in one sentence.
    public init(_ code: ErrorCode<PubSubPayloadError>, _ message: String) {
        self.code = code
        self.message = message
    }

    /// Returns the error for an item with content that does not belong on its node.
    ///
    /// - Parameters:
    ///   - element: What the item holds.
    ///   - node: The node's name.
    /// - Returns: An error `unreadable` that names both.
    package static func unexpected(_ element: Element, on node: String) -> PubSubPayloadError {
        PubSubPayloadError(
            .unreadable,
            "an item of the node '\(node)' holds <\(element.name) xmlns='\(element.namespace)'/>, which is not what the node is for; leave it out"
        )
    }
}

// MARK: - Codes

extension ErrorCode where Failure == PubSubPayloadError {
    /// An item holds something else than its node is for.
    public static var unreadable: Self { Self(rawValue: "unreadable") }
    /// The value cannot be written.
    package static var unwritable: Self { Self(rawValue: "unwritable") }
}
