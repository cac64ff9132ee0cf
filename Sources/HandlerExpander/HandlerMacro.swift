package import SwiftSyntax
package import SwiftSyntaxMacros

/// `@Handler`: turns a function into a handler that outlives the process.
///
/// ```text
/// AttributeSyntax + FunctionDeclSyntax ─▶ HandlerDeclaration ─▶ HandlerExpansion ─▶ [DeclSyntax]
///                                               └─▶ diagnostics, and then no expansion
/// ```
package struct HandlerMacro: PeerMacro {
    package static func expansion(
        of node: AttributeSyntax, providingPeersOf declaration: some DeclSyntaxProtocol,
        in context: some MacroExpansionContext
    ) throws -> [DeclSyntax] {
        var report = HandlerReport()
        let handler = HandlerDeclaration(
            attribute: node, declaration: DeclSyntax(declaration), lexicalContext: context.lexicalContext,
            location: context.location(of: node, at: .afterLeadingTrivia, filePathMode: .fileID),
            report: &report)
        for diagnostic in report.diagnostics { context.diagnose(diagnostic) }
        guard let handler, report.diagnostics.isEmpty else { return [] }
        return HandlerExpansion(handler).peers
    }
}
