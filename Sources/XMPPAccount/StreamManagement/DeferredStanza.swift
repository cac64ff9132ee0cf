/// A received stanza that counts once the program says so.
///
/// See ``DeferrableContext/deferAcknowledgement(in:)``.
///
/// Store it with the work that is still to be done: any process can end it with ``Account/acknowledge(_:in:)``.
///
/// ```swift
/// let stanza = try call.context.deferAcknowledgement(in: call.step)
/// // … later, in any process:
/// try await account.perform { try account.acknowledge(stanza, in: $0) }
/// ```
public struct DeferredStanza: Codable, Hashable, Sendable {
    let session: Int64
    let number: UInt32
}
