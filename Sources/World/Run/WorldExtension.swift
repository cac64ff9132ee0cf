package import Handlers
package import XMPPAccount
package import XMPPCore

/// Additional modules of a world's account, with the code that the application, the peer and the server run for them.
///
/// A world without an extension makes the same random choices as before, so that its seeds keep their runs.
package protocol WorldExtension: AnyObject {
    /// The tables of the modules.
    var schemas: [Schema] { get }
    /// The handlers of the application.
    var handlers: [any DurableHandler.Type] { get }
    /// The ids of the handlers that end entries of `world_bound`.
    var endingHandlers: [String] { get }
    /// SQL that counts the waiting entries of `world_bound` outside the table of handlers.
    var countOfWaiting: String { get }
    var modules: [any AccountModule] { get }
    /// The namespaces of requests to the account and to the peer's server that ``receive(_:at:)`` answers.
    var namespaces: Set<String> { get }

    /// Prepares the account of a new process, before it connects.
    func prepare(_ account: Account, isMain: Bool) async throws
    /// Does a piece of work in a step.
    ///
    /// - Returns: Its number in `world_bound`.
    func work(_ account: Account, in step: borrowing Step) throws -> Int

    /// Makes the peer's next message in the modules' form, with the id `p-` followed by its number.
    ///
    /// - Returns: Nil if the peer can only send a plain message.
    func message(_ number: Int) -> Element?
    /// Whether the protocol considers a message of the peer too old to be read.
    func isTooOld(_ id: String) -> Bool
    /// A message from the peer that must have no effect; nil for none.
    func repetition(_ random: inout some RandomNumberGenerator) -> Element?
    /// Receives a stanza for the peer, or a request to an account.
    ///
    /// - Returns: False if the stanza does not belong to the extension.
    func receive(_ element: Element, at jid: JID) -> Bool
    /// The maximum number of rows of a table of the modules.
    ///
    /// - Parameters:
    ///   - bound: The number of handlers that the application has bound.
    ///   - messages: The number of messages that the peer has sent.
    /// - Returns: Nil for an unknown table.
    func limit(of table: String, bound: Int, messages: Int) -> Int?
    /// Frees the extension's memory when the world is over.
    func close()
}
