import FoundationEssentials
package import Handlers
import Testing
package import XMPPAccount
package import XMPPCore

/// A log of everything, kept line by line.
package final class KeptLog: Sendable {
    package let log: AccountLog
    private let kept: Kept<[AccountLog.Entry]>

    package init(level: LogLevel = .verbose, showsXML: Bool = true) {
        let kept = Kept<[AccountLog.Entry]>([])
        self.kept = kept
        log = AccountLog(level: level) { entry in kept.withLock { $0.append(entry) } }
        log.showsSentXML = showsXML
        log.showsReceivedXML = showsXML
    }

    package var entries: [AccountLog.Entry] { kept.withLock { $0 } }
    package var text: String { lines.joined(separator: "\n") }
    package var lines: [String] { entries.map(\.description) }
    package func holds(_ text: String) -> Bool { lines.contains { $0.contains(text) } }
    /// The messages about everything but the XML.
    package var decisions: [String] { entries.filter { $0.module != "xml" }.map(\.message) }
    /// How the account logged in, time after time.
    package var logins: [String] {
        let start = "logged in by "
        return decisions.filter { $0.hasPrefix(start) }.map { String($0.dropFirst(start.count)) }
    }

    /// The password of an account on a real server must not be in it, nor a token of that account.
    package func expectNoSecrets(of account: Account) {
        let user = account.configuration.jid.local?.string ?? ""
        let lines = lines
        for secret in Secrets.forms(of: RealServers.password, user: user) + Secrets.tokens(in: account.store)
        where lines.contains(where: { $0.contains(secret) }) {
            Issue.record("a secret is in the log: \(secret)")
        }
    }
}

/// What must not be found in a log.
package enum Secrets {
    package static func base64(_ text: String) -> String { Data(text.utf8).base64EncodedString() }

    /// A password as it is and in every form in which it could leave: alone and in what PLAIN says.
    package static func forms(of password: String, user: String) -> [String] {
        let plain = "\0\(user)\0\(password)"
        // Base64 of what stands behind any number of other bytes, without what these have to do with.
        let shifted = (0..<3).map { shift in
            String(base64(String(repeating: "x", count: shift) + password).dropFirst(4).dropLast(4))
        }
        return [password, base64(password), base64(plain)] + shifted.filter { $0.count >= 6 }
    }

    /// The tokens that a store holds.
    package static func tokens(in store: HandlerStore) -> [String] {
        let tokens = try? store.step { step in
            try step.all("SELECT token FROM fast_token") { (row) throws(HandlerError) in row.text(0) }
        }
        return (tokens ?? []).flatMap { [$0, base64($0)] }
    }

    /// What SASL carried in an element, encoded and decoded.
    package static func payloads(in element: Element) -> [String] {
        let isSASL =
            [Namespaces.sasl, Namespaces.sasl2].contains(element.namespace) && element.name != "software"
        let own = isSASL && element.text.utf8.count > 4 ? [element.text.string] : []
        let decoded = own.compactMap { Data(base64Encoded: $0) }.map { String(decoding: $0, as: UTF8.self) }
        return own + decoded.filter { $0.count > 4 } + element.elements.flatMap { payloads(in: $0) }
    }
}
