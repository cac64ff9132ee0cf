/// The reason why a stream must end.
package struct StreamFault {
    package let error: AccountError
    /// Whether the session is of no use any more.
    package var endsSession: Bool

    init(_ error: AccountError, endsSession: Bool = false) {
        self.error = error
        self.endsSession = endsSession
    }
}
