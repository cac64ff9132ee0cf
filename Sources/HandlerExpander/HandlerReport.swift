import SwiftDiagnostics
import SwiftSyntax

/// Collects every mistake in one declaration, so that a user sees them all at once.
struct HandlerReport {
    private(set) var diagnostics: [Diagnostic] = []

    mutating func error(_ message: HandlerMessage, at node: some SyntaxProtocol, fixIts: [FixIt] = []) {
        diagnostics.append(Diagnostic(node: node, message: message, fixIts: fixIts))
    }
}

/// One of the `HandlerMessage` sentences: what is wrong, and what to write instead.
struct HandlerMessage: DiagnosticMessage, ExpressibleByStringInterpolation {
    let message: String
    var diagnosticID: MessageID { MessageID(domain: "HandlerMacros", id: message) }
    var severity: DiagnosticSeverity { .error }

    init(_ message: String) { self.message = message }
    init(stringLiteral message: String) { self.init(message) }
}

/// The title of a fix-it.
struct HandlerFixIt: FixItMessage {
    let message: String
    var fixItID: MessageID { MessageID(domain: "HandlerMacros", id: message) }

    init(_ message: String) { self.message = message }
}

/// Fix-its change as little as they can, so that those of several mistakes can be applied together.
extension FixIt {
    init(_ title: String, _ changes: Change...) { self.init(message: HandlerFixIt(title), changes: changes) }
}

extension FixIt.Change {
    /// Writes `text` instead of `old`, keeping the white space around it.
    static func replacing(_ old: some SyntaxProtocol, with text: String) -> Self {
        let new = TokenSyntax(
            .identifier(text), leadingTrivia: old.leadingTrivia, trailingTrivia: old.trailingTrivia,
            presence: .present)
        return .replace(oldNode: Syntax(old), newNode: Syntax(new))
    }

    /// Removes `old` and the white space after it.
    static func removing(_ old: some SyntaxProtocol) -> Self {
        let nothing = TokenSyntax(.identifier(""), leadingTrivia: old.leadingTrivia, presence: .present)
        return .replace(oldNode: Syntax(old), newNode: Syntax(nothing))
    }
}
