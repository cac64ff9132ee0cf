package import XMPPTransport

/// The passwords of a server's accounts, and what SCRAM keeps of them.
///
/// Keys are derived once for each account and hash: deriving them at a login would cost milliseconds, which would count
/// in the time that a client takes to connect.
package struct ServerCredentials: Sendable {
    private let passwords: [String: String]
    private let iterations: Int
    private var verifiers: [Crypto.Hash: [String: SCRAMVerifier]] = [:]

    /// - Parameters:
    ///   - passwords: The password of each account, by localpart.
    ///   - iterations: 1 or more; clients refuse fewer than 4096.
    package init(passwords: [String: String], iterations: Int) {
        self.passwords = passwords
        self.iterations = iterations
    }

    /// The localparts of the accounts.
    package var accounts: [String] { passwords.keys.sorted() }

    /// Derives the keys that these mechanisms need, those that are there already excepted.
    ///
    /// - Throws: `ErrorCode<SASLError>.forbiddenCredentials` when a password cannot be used.
    package mutating func prepare(for mechanisms: [String]) throws {
        for hash in mechanisms.compactMap({ SCRAMMechanism(name: $0)?.hash }) where verifiers[hash] == nil {
            verifiers[hash] = try passwords.mapValues {
                try SCRAMVerifier(hash: hash, password: $0, iterations: iterations)
            }
        }
    }

    package func verifier(of account: String, hash: Crypto.Hash) -> SCRAMVerifier? {
        verifiers[hash]?[account]
    }

    package func isPassword(_ password: String, of account: String) -> Bool { passwords[account] == password }
}
