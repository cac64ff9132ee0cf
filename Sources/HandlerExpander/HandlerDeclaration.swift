import SwiftDiagnostics
import SwiftSyntax
import SwiftSyntaxMacros

/// A function with `@Handler` that was found to be a valid handler. It does not decide how the expansion
/// is written.
struct HandlerDeclaration {
    var attribute: HandlerAttribute
    /// The function's base name, without backticks.
    var name: String
    var owner: HandlerOwner
    var isStatic: Bool
    var canThrow: Bool
    /// Whether it is async, so that it runs outside the transaction.
    var isAsync: Bool { parameters.form != .inStep }
    /// What it returns, with `Self` spelled out: the result that is kept with its ending. Nil for nothing.
    var result: String?
    /// As written on the function.
    var access: AccessLevel?
    /// `@available(…)`, which the expansion must repeat.
    var availability: [String]
    var parameters: HandlerParameters
    /// The place of the attribute: `Module/File.swift` and the line.
    var location: AbstractSourceLocation?

    /// Reads a declaration and reports its errors; nil if too much is missing.
    init?(
        attribute node: AttributeSyntax, declaration: DeclSyntax, lexicalContext: [Syntax],
        location: AbstractSourceLocation?, report: inout HandlerReport
    ) {
        guard let function = declaration.as(FunctionDeclSyntax.self) else {
            report.error(.notAFunction, at: node)
            return nil
        }
        guard case .identifier = function.name.tokenKind else {
            report.error(.operatorFunction(function.name.text), at: function.name)
            return nil
        }
        let owner = HandlerOwner(of: function, in: lexicalContext, report: &report)
        let attribute = HandlerAttribute(node, report: &report)
        isStatic = function.modifiers.contains { ["static", "class"].contains($0.name.text) }
        Self.checkGenerics(of: function, report: &report)
        Self.checkModifiers(of: function, report: &report)
        let parameters = HandlerParameters(of: function, owner: owner?.name ?? "Self", report: &report)
        guard let owner, let attribute, let parameters else { return nil }
        Self.checkForm(of: function, parameters, attribute: node, report: &report)
        Self.checkIsolation(
            of: function, isStatic: isStatic, owner: owner, isWorkflow: parameters.form == .flow,
            report: &report)
        if parameters.form == .flow {
            Self.checkInstance(of: function, isStatic: isStatic, read: attribute, report: &report)
        } else {
            Self.checkPath(
                of: function, isStatic: isStatic, attribute: node, read: attribute, report: &report)
        }
        for limit in node.arguments?.as(LabeledExprListSyntax.self) ?? [] where parameters.form != .leased {
            guard let label = limit.label?.text, ["limit", "silence"].contains(label) else { continue }
            let isNil = limit.expression.is(NilLiteralExprSyntax.self)
            if !isNil { report.error(.limitInStep(label), at: limit) }
        }

        self.attribute = attribute
        self.attribute.retry = attribute.retry?.replacingSelf(with: owner.name)
        self.attribute.limit = attribute.limit?.replacingSelf(with: owner.name)
        self.attribute.silence = attribute.silence?.replacingSelf(with: owner.name)
        self.attribute.availability = attribute.availability?.replacingSelf(with: owner.name)
        self.attribute.upcast = attribute.upcast?.replacingSelf(with: owner.name)
        self.owner = owner
        self.parameters = parameters
        self.location = location
        name = function.name.plainName
        result = function.signature.returnClause.flatMap { clause in
            clause.type.isVoid ? nil : clause.type.replacingSelf(with: owner.name).trimmedDescription
        }
        canThrow = function.signature.effectSpecifiers?.throwsClause?.throwsSomething ?? false
        access = AccessLevel(function.modifiers)
        availability = function.attributes.compactMap { element in
            guard case .attribute(let attribute) = element,
                attribute.attributeName.trimmedDescription == "available"
            else { return nil }
            return attribute.trimmedDescription
        }
    }
}

// MARK: - Forbidden forms of a handler's function

extension HandlerDeclaration {
    private static func checkGenerics(of function: FunctionDeclSyntax, report: inout HandlerReport) {
        if let clause = function.genericParameterClause {
            report.error(.genericFunction(function.name.text), at: clause)
        }
    }

    /// An async function takes an `AsyncCall`, and a function that runs inside the transaction a `Call`.
    private static func checkForm(
        of function: FunctionDeclSyntax, _ parameters: HandlerParameters, attribute node: AttributeSyntax,
        report: inout HandlerReport
    ) {
        let (type, context) = (parameters.callType, parameters.writtenContext)
        let isWorkflow = node.attributeName.trimmedDescription.hasSuffix("Workflow")
        switch (isWorkflow, parameters.form) {
        case (true, .inStep), (true, .leased): return report.error(.workflowWithoutFlow, at: type)
        case (false, .flow):
            return report.error(
                .flowInHandler, at: node.attributeName,
                fixIts: [FixIt("Write '@Workflow'", .replacing(node.attributeName, with: "Workflow"))])
        default: break
        }
        switch (parameters.form, function.isAsync) {
        case (.inStep, true):
            let asyncCall = parameters.writtenCall.replacingLastName("Call", with: "AsyncCall")
            var fixIts = [FixIt("Write '\(asyncCall)'", .replacing(type, with: asyncCall))]
            if let async = function.signature.effectSpecifiers?.asyncSpecifier {
                fixIts.append(FixIt("Remove 'async'", .removing(async)))
            }
            report.error(.asyncInStep(context), at: type, fixIts: fixIts)
        case (.leased, false):
            let call = "borrowing " + parameters.writtenCall.replacingLastName("AsyncCall", with: "Call")
            report.error(
                .syncLeased(context), at: type,
                fixIts: [
                    FixIt("Add 'async'", function.addingAsync),
                    FixIt("Write '\(call)'", .replacing(type, with: call)),
                ])
        case (.flow, false):
            report.error(.syncFlow, at: type, fixIts: [FixIt("Add 'async'", function.addingAsync)])
        case (.inStep, false), (.leased, true), (.flow, true): break
        }
    }

    private static func checkModifiers(of function: FunctionDeclSyntax, report: inout HandlerReport) {
        guard let mutating = function.modifiers.first(where: { $0.name.text == "mutating" }) else { return }
        report.error(.mutating, at: mutating, fixIts: [FixIt("Remove 'mutating'", .removing(mutating))])
    }

    /// Only the isolation that can be seen: the compiler finds the rest, in the expansion. A function that may wait
    /// can wait for its actor.
    private static func checkIsolation(
        of function: FunctionDeclSyntax, isStatic: Bool, owner: HandlerOwner, isWorkflow: Bool,
        report: inout HandlerReport
    ) {
        // A workflow runs on the thread of its step.
        if function.isAsync, !isWorkflow { return }
        let isNonisolated = function.modifiers.contains { $0.name.text == "nonisolated" }
        let inherited = isStatic && !owner.isolatesStatic ? nil : owner.actor
        let actor = function.attributes.isMainActor ? "the main actor" : isNonisolated ? nil : inherited
        guard let actor else { return }
        let fixIt = FixIt("Add 'nonisolated'", .replacing(function.funcKeyword, with: "nonisolated func"))
        // The attribute @MainActor would stay in its way, so then there is nothing to offer.
        report.error(
            .actorIsolated(actor), at: function.name,
            fixIts: function.attributes.isMainActor ? [] : [fixIt])
    }

    /// A workflow has nothing from which an instance could be found when it goes on elsewhere.
    private static func checkInstance(
        of function: FunctionDeclSyntax, isStatic: Bool, read: HandlerAttribute, report: inout HandlerReport
    ) {
        if !isStatic { report.error(.instanceWorkflow(function.name.text), at: function.name) }
        if let path = read.path { report.error(.pathOnStatic, at: path.argument) }
    }

    private static func checkPath(
        of function: FunctionDeclSyntax, isStatic: Bool, attribute node: AttributeSyntax,
        read: HandlerAttribute, report: inout HandlerReport
    ) {
        switch (isStatic, read.path) {
        case (true, let path?):
            report.error(
                .pathOnStatic, at: path.argument,
                fixIts: [HandlerAttribute.removing(path.argument, from: node)])
        case (false, nil):
            report.error(
                .instanceWithoutPath(function.name.text), at: function.name,
                fixIts: HandlerAttribute.addingPath(to: node))
        case (true, nil), (false, _?): break
        }
    }
}

extension FunctionDeclSyntax {
    var isAsync: Bool { signature.effectSpecifiers?.asyncSpecifier != nil }

    fileprivate var addingAsync: FixIt.Change {
        if let throwing = signature.effectSpecifiers?.throwsClause?.throwsSpecifier {
            return .replacing(throwing, with: "async " + throwing.text)
        }
        return .replacing(signature.parameterClause.rightParen, with: ") async")
    }
}

extension TypeSyntax {
    fileprivate var isVoid: Bool {
        if let tuple = self.as(TupleTypeSyntax.self) { return tuple.elements.isEmpty }
        return ["Void", "Swift.Void", "Swift::Void"].contains(trimmedDescription)
    }
}

extension ThrowsClauseSyntax {
    /// False for `throws(Never)`: a `try` before such a call is a warning.
    fileprivate var throwsSomething: Bool {
        !["Never", "Swift.Never", "Swift::Never"].contains(type?.trimmedDescription)
    }
}
