public import XMPPCore

/// The metadata of a user's avatar. The picture itself is on another node, or on the web.
///
/// ```swift
/// let avatar = AvatarMetadata([.init(id: sha1, bytes: 4096, width: 64, height: 64)])
/// try await account.request(.pubsub(.publish(avatar)))
/// ```
///
/// Source: XEP-0084 section 4.2.
public struct AvatarMetadata: PubSubPayload, Hashable {
    public static let node = "urn:xmpp:avatar:metadata"

    /// A variant of the picture.
    public struct Info: Hashable, Sendable {
        /// The SHA-1 of the data, in hexadecimal digits: under this id they are on the node `urn:xmpp:avatar:data`.
        public var id: ForeignText
        /// The size in bytes.
        public var bytes: Int
        /// Its media type. One form must be `image/png`.
        public var type: ForeignText
        /// In pixels.
        public var width: Int?
        /// In pixels.
        public var height: Int?
        /// The address on the web; nil for the data node.
        public var url: ForeignText?

        /// Describes one form of the picture.
        ///
        /// - Parameters:
        ///   - id: The SHA-1 of the data, in hexadecimal digits.
        ///   - bytes: How many bytes it has, 1 or more.
        ///   - type: Its media type.
        ///   - width: In pixels; nil when that is not known.
        ///   - height: In pixels; nil when that is not known.
        ///   - url: Where it is on the web; nil for the data node.
        public init(
            id: any TextConvertible, bytes: Int, type: any TextConvertible = "image/png", width: Int? = nil,
            height: Int? = nil, url: (any TextConvertible)? = nil
        ) {
            (self.id, self.bytes, self.type) = (id.foreignText, bytes, type.foreignText)
            (self.width, self.height, self.url) = (width, height, url?.foreignText)
        }
    }

    /// The forms of the picture; none: the user shows none any more.
    public var infos: [Info]

    /// Makes the metadata of a picture.
    ///
    /// - Parameter infos: The forms of the picture, of the same picture each; none to show none any more.
    public init(_ infos: [Info]) { self.infos = infos }

    /// The id of the picture's first form, as XEP-0084 section 3.2 shows it.
    public var itemID: ForeignText? { infos.first?.id ?? "current" }

    /// Forms that lack what they must have are left out.
    ///
    /// - Parameters:
    ///   - element: What the item holds.
    ///   - itemID: The item's id, which is not looked at.
    /// - Throws: ``PubSubPayloadError`` `unreadable` when it holds something else.
    public init(_ element: Element, itemID: ForeignText?) throws {
        guard element.has(name: "metadata", namespace: Self.node) else {
            throw PubSubPayloadError.unexpected(element, on: Self.node)
        }
        infos = element.children("info", Self.node).compactMap { try? Info($0) }
    }

    public var element: Element { Element("metadata", namespace: Self.node, children: infos.map(\.element)) }
}

extension AvatarMetadata.Info {
    init(_ element: Element) throws(ElementValueError) {
        self.init(
            id: try element.value(of: "id", as: ForeignText.self), bytes: try element.value(of: "bytes"),
            type: try element.value(of: "type", as: ForeignText.self), width: try? element.value(of: "width"),
            height: try? element.value(of: "height"), url: element["url"])
    }

    var element: Element {
        Element(
            "info", namespace: AvatarMetadata.node,
            attributes: [
                "bytes": String(bytes), "height": height.map(String.init), "id": id, "type": type,
                "url": url, "width": width.map(String.init),
            ])
    }
}
