/// A hint of the sender to servers and clients: how to store and copy a message. They may ignore it.
///
/// ```swift
/// let message = Message(to: peer, children: [state.element, ProcessingHint.noStore.element])
/// ```
///
/// Source: XEP-0334 section 4.
public enum ProcessingHint: String, Hashable, Sendable, CaseIterable, Codable, ForeignValue {
    /// No copy in archives or logs. The message may be stored for an offline recipient.
    case noPermanentStore = "no-permanent-store"
    /// No storage at all, not even for an offline recipient.
    case noStore = "no-store"
    /// No carbon copies: delivery only to the recipient's full address.
    case noCopy = "no-copy"
    /// Even if it has no body.
    case store

    /// The hint as XML, to be added to a message.
    public var element: Element { Element(rawValue, namespace: Namespaces.hints) }
}

extension Message {
    /// The message's processing hints; ignored in an error (XEP-0334 section 5).
    public var hints: Set<ProcessingHint> {
        guard type != .error else { return [] }
        return Set(ProcessingHint.allCases.filter { element.child($0.rawValue, Namespaces.hints) != nil })
    }
}
