/// A stanza that arrived and counts as handled only when the program says so; see
/// ``MessageReceived/deferAcknowledgement(in:)``, ``PresenceReceived/deferAcknowledgement(in:)``, ``IQRequest/deferAcknowledgement(in:)`` and
/// ``IQReply/deferAcknowledgement(in:)``.
///
/// Store it with the work that is still to be done: any process can end it with ``Account/acknowledge(_:)``.
///
/// ```swift
/// let stanza = try call.context.deferAcknowledgement(in: call.step)
/// // … later, in any process:
/// try await account.acknowledge(stanza)
/// ```
public struct DeferredStanza: Codable, Hashable, Sendable {
    let session: Int64
    let number: UInt32
}
