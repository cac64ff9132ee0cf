package import Handlers
package import IQTracker
public import XMPPCore

/// A question to a server, a service or another client.
///
/// An operation is a value. `Account` has three ways to send one:
///
/// ```swift
/// let item = RosterItem(juliet, name: "Juliet")
/// try await account.request(.roster.set(item))                           // waits here
/// try await account.send(.roster.set(item), then: Contacts.saved())      // stores the handler
/// try account.send(.roster.set(item), then: Contacts.saved(), in: step)  // commits with the step
/// ```
///
/// `Context` is what the stored handler is called with, `Value` what awaiting returns. A module adds its operations in an
/// extension; `init(_:value:)` makes them:
///
/// ```swift
/// extension AccountOperation where Context == IQReply, Value == ForeignText? {
///     static func version(of jid: JID) -> AccountOperation {
///         AccountOperation { _ in
///             IQ(type: .get, to: jid, id: StanzaID.random(), payload: Element("query", namespace: Namespaces.version))
///         } value: { $0?.child("version", Namespaces.version)?.text }
///     }
/// }
/// ```
public struct AccountOperation<Context: Sendable, Value: Sendable>: Sendable {
    /// Sends the request in a step; returns its id.
    let send: @Sendable (Account, Durable<Context>, RequestTerms, borrowing Step) throws -> String
    /// Sends the request and waits for the answer.
    let reply: @Sendable (Account, Duration?) async throws -> Context
    /// The value in an answer.
    let value: @Sendable (Context) throws -> Value

    /// Makes an operation of any number of requests.
    package init(
        send: @escaping @Sendable (Account, Durable<Context>, RequestTerms, borrowing Step) throws -> String,
        reply: @escaping @Sendable (Account, Duration?) async throws -> Context,
        value: @escaping @Sendable (Context) throws -> Value
    ) {
        self.send = send
        self.reply = reply
        self.value = value
    }

    /// Makes an operation of one request whose answer a module's own handler passes on.
    ///
    /// - Parameters:
    ///   - request: Makes the request, with a new id each time.
    ///   - bind: The module's handler around the program's.
    ///   - context: What the program's handler is called with.
    ///   - value: The value in it.
    package init(
        request: @escaping @Sendable (Account) throws -> IQ,
        bind: @escaping @Sendable (Durable<Context>) throws -> Durable<IQReply>,
        context: @escaping @Sendable (IQReply) throws -> Context,
        value: @escaping @Sendable (Context) throws -> Value
    ) {
        self.init { account, then, terms, step in
            let iq = try request(account)
            try account.send(request: iq, then: bind(then), terms, in: step)
            return iq.id.string
        } reply: { account, timeout in
            try await context(account.reply(to: try request(account), timeout: timeout))
        } value: {
            try value($0)
        }
    }
}

extension AccountOperation where Context == IQReply {
    /// Makes an operation of one request.
    ///
    /// - Parameters:
    ///   - request: Makes an IQ of type `get` or `set`, with a new id each time. What it throws is thrown where the
    ///     operation is sent.
    ///   - value: Reads the payload of a result; it throws what the caller of ``Account/request(_:timeout:)`` gets.
    public init(
        _ request: @escaping @Sendable (Account) throws -> IQ,
        value: @escaping @Sendable (Element?) throws -> Value
    ) {
        self.init(request: request, bind: { $0 }, context: { $0 }, value: { try value($0.result.payload) })
    }
}

extension AccountOperation where Context == IQReply, Value == IQ {
    /// Returns the operation for any request.
    ///
    /// ```swift
    /// let question = IQ(type: .get, to: juliet, id: StanzaID.random(), payload: Element("query", namespace: Namespaces.version))
    /// let version = try await account.request(.iq(question)).payload
    /// ```
    ///
    /// - Parameter iq: An IQ of type `get` or `set`, with an `id` that no pending request uses;
    ///   ``/XMPPCore/StanzaID/random()`` makes one.
    /// - Returns: The operation, to be sent or awaited; its value is the result.
    public static func iq(_ iq: IQ) -> AccountOperation {
        AccountOperation(request: { _ in iq }, bind: { $0 }, context: { $0 }, value: { try $0.result })
    }
}

extension IQReply {
    /// The answer, if it is a result.
    ///
    /// - Throws: `StanzaError` for an error; ``AccountError`` `timedOut` without an answer.
    var result: IQ {
        get throws {
            switch outcome {
            case .result: return iq
            case .error(let error): throw error
            case .timeout: throw timedOut
            }
        }
    }

    var timedOut: AccountError {
        AccountError(.timedOut, "\(iq.from?.description ?? "the server") has not answered '\(iq.id)' in time")
    }

    /// Returns the value of an operation, read from its answer in a stored handler.
    ///
    /// ```swift
    /// @Handler("rooms.configuration-read")
    /// static func read(_ call: borrowing Call<IQReply>, room: JID) throws {
    ///     let form = try call.context.value(of: .room(room).configuration)
    /// }
    /// ```
    ///
    /// - Parameter operation: The operation that was sent; only its way to read the answer is used.
    /// - Returns: The value.
    /// - Throws: `StanzaError` when the answer is an error; ``AccountError`` `timedOut` without an answer; what the
    ///   operation throws for an answer that holds something else.
    public func value<Value>(of operation: AccountOperation<IQReply, Value>) throws -> Value {
        try operation.value(self)
    }
}

/// The timeout of a request.
package struct RequestTerms: Sendable {
    /// Connected time; nil for the account's setting.
    package let timeout: Duration?
    /// The policy for the end of the timeout.
    package let policy: RequestTimeoutPolicy

    package init(_ timeout: Duration? = nil, _ policy: RequestTimeoutPolicy = .call) {
        self.timeout = timeout
        self.policy = policy
    }
}
