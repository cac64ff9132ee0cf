/// How a sender wants servers and clients to store and copy a message. They need not do it.
///
/// ```swift
/// let message = Message(to: peer, children: [state.element, ProcessingHint.noStore.element])
/// ```
///
/// Source: XEP-0334 section 4.
public enum ProcessingHint: String, Hashable, Sendable, CaseIterable, Codable, ForeignValue {
    /// Not in archives or logs, though it may wait for a recipient who is offline.
    case noPermanentStore = "no-permanent-store"
    /// Not at all, not even for a recipient who is offline.
    case noStore = "no-store"
    /// Not to other addresses than the one it is for, which must be a full one: no carbon copies.
    case noCopy = "no-copy"
    /// Even if it has no body.
    case store

    /// The hint as XML, to be added to a message.
    public var element: Element { Element(rawValue, namespace: Namespaces.hints) }
}

extension Message {
    /// How its sender wants this message to be stored and copied; in an error the hints say nothing (XEP-0334 section 5).
    public var hints: Set<ProcessingHint> {
        guard type != .error else { return [] }
        return Set(
            ProcessingHint.allCases.filter { element.child($0.rawValue, Namespaces.hints) != nil })
    }
}
