package import Handlers
package import XMPPAccount
package import XMPPCore

/// Modules that the account of a world has in addition, with what the application, the peer and the server do for them.
///
/// A world makes no other choices without an extension, so that its seeds keep their runs.
package protocol WorldExtension: AnyObject {
    /// The tables of the modules.
    var schemas: [Schema] { get }
    /// The handlers of the application.
    var handlers: [any DurableHandler.Type] { get }
    /// The handlers that end what is in `world_bound`, by their ids.
    var endingHandlers: [String] { get }
    /// SQL that counts what is in `world_bound` and waits outside the table of handlers.
    var countOfWaiting: String { get }
    var modules: [any AccountModule] { get }
    /// The namespaces of the requests to the account and to the peer's server that ``receive(_:at:)`` answers.
    var namespaces: Set<String> { get }

    /// Prepares the account of a new process, before it connects.
    func prepare(_ account: Account, isMain: Bool) async throws
    /// Does a piece of work in a step.
    ///
    /// - Returns: Its number in `world_bound`.
    func work(_ account: Account, in step: borrowing Step) throws -> Int

    /// The peer's next message in the form of the modules, with the id `p-` and its number.
    ///
    /// - Returns: Nil when the peer can send a plain one only.
    func message(_ number: Int) -> Element?
    /// Whether a message of the peer is too old to be read, by the rules of the protocol.
    func isTooOld(_ id: String) -> Bool
    /// A message in the name of the peer that must have no effect; nil for none.
    func repetition(_ random: inout some RandomNumberGenerator) -> Element?
    /// Takes a stanza for the peer, or a request to an account.
    ///
    /// - Returns: False when it is none of the extension's.
    func receive(_ element: Element, at jid: JID) -> Bool
    /// The rows that a table of the modules may have.
    ///
    /// - Parameters:
    ///   - bound: The number of handlers that the application has bound.
    ///   - messages: The number of messages that the peer has sent.
    /// - Returns: Nil for a table that it does not know.
    func limit(of table: String, bound: Int, messages: Int) -> Int?
    /// Ends what the extension has in memory; the world is over.
    func close()
}
