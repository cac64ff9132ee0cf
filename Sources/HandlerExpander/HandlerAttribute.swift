import SwiftDiagnostics
import SwiftParser
import SwiftSyntax

/// The arguments of `@Handler(…)`, each as it will be pasted into the expansion.
struct HandlerAttribute {
    /// The string literal.
    var id: ExprSyntax
    /// The value of the literal.
    var idText: String
    var version: ExprSyntax?
    var aliases: ExprSyntax?
    var upcast: ExprSyntax?
    var retry: ExprSyntax?
    var limit: ExprSyntax?
    var silence: ExprSyntax?
    var availability: ExprSyntax?
    /// The argument `on:`, and the path in it.
    var path: (argument: LabeledExprSyntax, text: String)?

    /// Reads `attribute`; nil where there is no usable id.
    init?(_ attribute: AttributeSyntax, report: inout HandlerReport) {
        let arguments = attribute.arguments?.as(LabeledExprListSyntax.self) ?? []
        guard let first = arguments.first, first.label == nil else {
            report.error(.noID, at: attribute)
            return nil
        }
        id = first.expression.trimmed
        guard let text = id.plainString else {
            report.error(.idNotLiteral, at: first.expression)
            return nil
        }
        idText = text
        if text.isEmpty { report.error(.emptyID, at: first.expression) }
        for argument in arguments.dropFirst() where !argument.expression.is(NilLiteralExprSyntax.self) {
            switch argument.label?.text {
            case "version": readVersion(argument.expression, report: &report)
            case "aliases": readAliases(argument.expression, report: &report)
            case "upcast": readUpcast(argument.expression, report: &report)
            case "retry": retry = readPolicy(argument.expression, report: &report)
            case "limit": limit = readPolicy(argument.expression, report: &report)
            case "silence": silence = readPolicy(argument.expression, report: &report)
            case "availability": availability = readPolicy(argument.expression, report: &report)
            case "on": readPath(argument, report: &report)
            // The compiler refuses it too; a tool that only expands does not.
            default: report.error(.unknownArgument(argument.label?.text), at: argument)
            }
        }
        checkUpcastIsCalled(in: arguments, of: attribute, report: &report)
    }

    private mutating func readVersion(_ expression: ExprSyntax, report: inout HandlerReport) {
        version = expression.trimmed
        if let number = expression.integer, number < 1 {
            report.error(
                .version(number), at: expression,
                fixIts: [FixIt("Write 1", .replacing(expression, with: "1"))])
        }
    }

    private mutating func readAliases(_ expression: ExprSyntax, report: inout HandlerReport) {
        guard let array = expression.as(ArrayExprSyntax.self) else {
            return report.error(.aliasesNotLiteral, at: expression)
        }
        var seen: Set<String> = []
        for element in array.elements {
            guard let alias = element.expression.plainString else {
                report.error(.aliasesNotLiteral, at: element.expression)
                continue
            }
            if alias.isEmpty {
                report.error(.emptyAlias, at: element.expression)
            } else if alias == idText {
                report.error(.aliasIsID(alias), at: element.expression)
            } else if !seen.insert(alias).inserted {
                report.error(.repeatedAlias(alias), at: element.expression)
            }
        }
        if !array.elements.isEmpty { aliases = expression.trimmed }
    }

    private mutating func readUpcast(_ expression: ExprSyntax, report: inout HandlerReport) {
        upcast = expression.trimmed
        let name = expression.as(DeclReferenceExprSyntax.self)?.baseName.text
        if let name, HandlerExpansion.members.contains(name) {
            report.error(.hiddenMember(name), at: expression)
        }
    }

    /// An expression that is pasted into a static property of the expansion.
    private func readPolicy(_ expression: ExprSyntax, report: inout HandlerReport) -> ExprSyntax {
        if let reference = expression.reference(toAnyOf: HandlerExpansion.members) {
            report.error(.hiddenMember(reference.baseName.text), at: reference)
        }
        return expression.trimmed
    }

    private func checkUpcastIsCalled(
        in arguments: LabeledExprListSyntax, of attribute: AttributeSyntax, report: inout HandlerReport
    ) {
        // A version that is no literal may be anything.
        guard let argument = arguments.first(where: { $0.label?.text == "upcast" }), upcast != nil,
            version.map({ $0.integer == 1 }) ?? true
        else { return }
        report.error(.uncalledUpcast, at: argument, fixIts: [Self.removing(argument, from: attribute)])
    }

    private mutating func readPath(_ argument: LabeledExprSyntax, report: inout HandlerReport) {
        path = (argument, argument.expression.plainString ?? "")
        guard let text = argument.expression.plainString else {
            return report.error(.pathNotLiteral, at: argument.expression)
        }
        let source = "call.context." + text
        var parser = Parser(source)
        let expression = ExprSyntax.parse(from: &parser)
        let isWhole = !expression.hasError && expression.description == source
        guard isWhole, !expression.is(OptionalChainingExprSyntax.self), let unwraps = expression.pathUnwraps
        else { return report.error(.path(text), at: argument.expression) }
        if unwraps { report.error(.pathUnwraps, at: argument.expression) }
    }

    /// Removes one of the arguments of `attribute`.
    static func removing(_ argument: LabeledExprSyntax, from attribute: AttributeSyntax) -> FixIt {
        let arguments = attribute.arguments?.as(LabeledExprListSyntax.self) ?? []
        var changes: [FixIt.Change] = [.removing(argument)]
        // A comma is part of the argument before it.
        if argument == arguments.last, let comma = arguments.dropLast().last?.trailingComma {
            changes.append(.removing(comma))
        }
        return FixIt(message: HandlerFixIt("Remove '\(argument.label?.text ?? ""):'"), changes: changes)
    }

    /// Adds `on:` to `attribute`, with a placeholder for the path.
    static func addingPath(to attribute: AttributeSyntax) -> [FixIt] {
        guard let end = attribute.rightParen else { return [] }
        return [FixIt("Add 'on:'", .replacing(end, with: ", on: \"<#path#>\")"))]
    }
}

extension ExprSyntax {
    /// Returns the value of a string literal on one line and without interpolation.
    fileprivate var plainString: String? {
        guard let literal = self.as(StringLiteralExprSyntax.self),
            literal.openingQuote.tokenKind != .multilineStringQuote
        else { return nil }
        return literal.representedLiteralValue
    }

    /// Returns the value of an integer literal, with or without a minus sign before it.
    fileprivate var integer: Int? {
        if let minus = self.as(PrefixOperatorExprSyntax.self), minus.operator.text == "-" {
            return minus.expression.integer.map { -$0 }
        }
        return self.as(IntegerLiteralExprSyntax.self)?.representedLiteralValue
    }

    /// Whether a path unwraps by force; nil where this is no path, that is anything but a chain of members,
    /// `?`, `!`, calls and subscripts.
    fileprivate var pathUnwraps: Bool? {
        if self.is(DeclReferenceExprSyntax.self) { return false }
        if let member = self.as(MemberAccessExprSyntax.self) { return member.base?.pathUnwraps }
        if let chain = self.as(OptionalChainingExprSyntax.self) { return chain.expression.pathUnwraps }
        if let call = self.as(FunctionCallExprSyntax.self) { return call.calledExpression.pathUnwraps }
        if let item = self.as(SubscriptCallExprSyntax.self) { return item.calledExpression.pathUnwraps }
        if let unwrap = self.as(ForceUnwrapExprSyntax.self) {
            return unwrap.expression.pathUnwraps.map { _ in true }
        }
        return nil
    }
}
