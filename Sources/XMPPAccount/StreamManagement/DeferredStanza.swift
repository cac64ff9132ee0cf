/// A stanza that arrived and counts as handled only when the program says so; see
/// ``MessageReceived/deferHandled(in:)``, ``PresenceReceived/deferHandled(in:)``, ``IQRequest/deferHandled(in:)`` and
/// ``IQReply/deferHandled(in:)``.
///
/// Store it with the work that is still to be done: any process can end it with ``Account/markHandled(_:)``.
///
/// ```swift
/// let stanza = try call.context.deferHandled(in: call.step)
/// // … later, in any process:
/// try await account.markHandled(stanza)
/// ```
public struct DeferredStanza: Codable, Hashable, Sendable {
    let session: Int64
    let number: UInt32
}
