import XMPPCore

/// The tokens of all clients (XEP-0484): for each the current one, and a newer one that has not been used yet.
package struct ServerTokens: Sendable {
    package struct Token: Hashable, Sendable {
        var mechanism: ForeignText
        var secret: String
        /// The highest count that came with it.
        var count = 0
    }

    private struct Slots {
        var current: Token?
        var new: Token?
    }

    /// By account and the client's id.
    private var slots: [ForeignText: Slots] = [:]
    private var lastToken = 0

    package init() {}

    /// Gives a client a new token; the current one stays good until the new one is used.
    mutating func make(_ mechanism: ForeignText, for client: ForeignText) -> String {
        lastToken += 1
        let secret = "token-\(lastToken)"
        slots[client, default: Slots()].new = Token(mechanism: mechanism, secret: secret)
        return secret
    }

    /// Finds the token that a client used, and makes it the current one.
    ///
    /// - Returns: Nil when none fits, or when its count is not higher than the last.
    mutating func use(by client: ForeignText, count: Int?, where fits: (Token) -> Bool) -> Token? {
        guard var found = slots[client] else { return nil }
        if let new = found.new, fits(new) {
            found = Slots(current: new)
        } else if let current = found.current, fits(current) {
            found.current = current
        } else {
            return nil
        }
        guard let count, count > found.current?.count ?? 0 else { return nil }
        found.current?.count = count
        slots[client] = found
        return found.current
    }

    /// No token is good any more.
    mutating func revokeAll() { slots.removeAll() }
}
