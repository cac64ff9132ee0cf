import SwiftParser
import SwiftSyntax

extension TokenSyntax {
    /// The name without backticks.
    var plainName: String { identifier?.name ?? text }
}

extension String {
    /// The name as it is written in source: in backticks where it is a keyword or has a space in it.
    var quotedName: String { isValidSwiftIdentifier(for: .variableName) ? self : "`\(self)`" }

    /// The name as a label in a call, where the compiler objects to backticks that are not needed: every keyword
    /// may stand there.
    var argumentLabel: String {
        ("_" + self).isValidSwiftIdentifier(for: .variableName) ? self : "`\(self)`"
    }

    /// A generic type's source with `old`, its name after all modules, replaced.
    func replacingLastName(_ old: String, with new: String) -> String {
        let name = prefix { $0 != "<" }
        guard name.hasSuffix(old) else { return self }
        return name.dropLast(old.count) + new + dropFirst(name.count)
    }

    /// The name as a label in a declaration.
    var parameterLabel: String { ["inout", "let", "var"].contains(self) ? "`\(self)`" : argumentLabel }
}

extension SyntaxProtocol {
    /// The same source with `Self` spelled as `owner`: in the type that the expansion adds, `Self` would mean
    /// that type.
    func replacingSelf(with owner: String) -> Self {
        SelfReplacer(owner: owner).rewrite(self).cast(Self.self)
    }
}

private final class SelfReplacer: SyntaxRewriter {
    let owner: String

    init(owner: String) { self.owner = owner }

    override func visit(_ token: TokenSyntax) -> TokenSyntax {
        token.tokenKind == .keyword(.Self) ? token.with(\.tokenKind, .identifier(owner)) : token
    }
}
