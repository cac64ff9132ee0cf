import SwiftDiagnostics
import SwiftSyntax

/// The parameters of a handler's function: what the call supplies, then the bound arguments.
struct HandlerParameters {
    /// The types of the first parameter.
    enum Form: String {
        /// Inside the transaction.
        case inStep = "Call"
        /// Outside of it, under a lease.
        case leased = "AsyncCall"
        /// Again and again, with a journal.
        case flow = "Flow"
    }

    var form: Form
    /// The first parameter's type with its specifiers, the place of diagnostics about it.
    var callType: TypeSyntax
    /// That type without specifiers, and the context in it, both as written.
    var writtenCall: String
    var writtenContext: String
    /// The first parameter's type without `borrowing`: `Call<PubSubFetch>`.
    var call: String
    /// The context of that call: `PubSubFetch`.
    var context: String
    var arguments: [HandlerArgument] = []

    /// Reads the parameters of `function`, in which `Self` means `owner`.
    init?(of function: FunctionDeclSyntax, owner: String, report: inout HandlerReport) {
        let parameters = function.signature.parameterClause.parameters
        let call = Self.readCall(of: function, report: &report)
        // Where the call is missing, the first parameter is most likely a bound argument, and not looked at.
        for parameter in parameters.dropFirst() {
            guard
                let argument = HandlerArgument(parameter, after: arguments, owner: owner, report: &report)
            else { continue }
            arguments.append(argument)
        }
        for type in [call?.context.map { Syntax($0) }] + parameters.dropFirst().map({ Syntax($0.type) }) {
            guard let type, let name = type.hiddenName else { continue }
            report.error(.hiddenName(name, owner), at: type)
        }
        let members = HandlerExpansion.members.union(arguments.map(\.property))
        for value in parameters.dropFirst().compactMap(\.defaultValue?.value) {
            guard let reference = value.reference(toAnyOf: members) else { continue }
            report.error(.hiddenMember(reference.baseName.text), at: reference)
        }
        guard let call else { return nil }
        form = call.form
        callType = call.parameter
        writtenCall = call.type.trimmedDescription
        writtenContext = call.context?.trimmedDescription ?? "…"
        self.call = call.type.replacingSelf(with: owner).trimmedDescription
        context = call.context?.replacingSelf(with: owner).trimmedDescription ?? "Handlers::TimerFired"
    }

    /// The type of the first parameter.
    private struct CallParameter {
        var form: Form
        /// With specifiers.
        var parameter: TypeSyntax
        /// Without: `Call<X>`.
        var type: TypeSyntax
        /// The `X` in it; nil for a `Flow`.
        var context: GenericArgumentSyntax?
    }

    private static func readCall(
        of function: FunctionDeclSyntax, report: inout HandlerReport
    ) -> CallParameter? {
        let clause = function.signature.parameterClause
        guard let parameter = clause.parameters.first else {
            report.error(.noCall(isAsync: function.isAsync), at: clause)
            return nil
        }
        let attributed = parameter.type.as(AttributedTypeSyntax.self)
        let type = attributed?.baseType ?? parameter.type
        guard parameter.firstName.tokenKind == .wildcard, let (form, arguments) = type.call else {
            report.error(.noCall(isAsync: function.isAsync), at: parameter)
            return nil
        }
        let context = arguments?.arguments.first
        guard form == .flow || context != nil && arguments?.arguments.count == 1 else {
            report.error(.callWithoutContext(form), at: type)
            return nil
        }
        let call = CallParameter(form: form, parameter: parameter.type, type: type, context: context)
        // The other form will be asked for, and its specifiers with it.
        if (form != .inStep) == function.isAsync { checkOwnership(of: parameter, call, report: &report) }
        return call
    }

    /// A `Call` is lent; an `AsyncCall` and a `Flow` are values like any other.
    private static func checkOwnership(
        of parameter: FunctionParameterSyntax, _ call: CallParameter, report: inout HandlerReport
    ) {
        let specifiers = parameter.type.as(AttributedTypeSyntax.self)?.specifiers ?? []
        let type = call.type.trimmedDescription
        switch call.form {
        case .inStep where specifiers.map(\.trimmedDescription) != ["borrowing"] || parameter.ellipsis != nil:
            report.error(
                .notBorrowing(type), at: parameter.type,
                fixIts: [FixIt("Write 'borrowing'", .replacing(parameter.type, with: "borrowing \(type)"))])
        case .leased where !specifiers.isEmpty || parameter.ellipsis != nil,
            .flow where !specifiers.isEmpty || parameter.ellipsis != nil:
            report.error(
                .specifiedAsyncCall(type), at: parameter.type,
                fixIts: [FixIt("Write '\(type)'", .replacing(parameter.type, with: type))])
        case .inStep, .leased, .flow: break
        }
    }
}

/// A labeled parameter: stored with the handler under its label.
struct HandlerArgument {
    /// As stored, without backticks.
    var label: String
    /// The property that holds it in the expansion: the label, if it can name a property.
    var property: String
    /// Without specifiers, and with `Self` spelled out.
    var type: String
    /// With `Self` spelled out; nil where there is none.
    var defaultValue: String?

    /// Reads `parameter`, which follows `others`; nil where it has no label.
    init?(
        _ parameter: FunctionParameterSyntax, after others: [HandlerArgument], owner: String,
        report: inout HandlerReport
    ) {
        guard parameter.firstName.tokenKind != .wildcard else {
            report.error(
                .unlabeled(parameter.secondName?.text ?? "value"), at: parameter.firstName,
                fixIts: Self.addingLabel(to: parameter))
            return nil
        }
        label = parameter.firstName.plainName
        if others.contains(where: { [label] in $0.label == label }) {
            report.error(.repeatedLabel(label), at: parameter.firstName)
        }
        property = label
        while Self.reserved.contains(property)
            || others.contains(where: { [property] in $0.property == property })
        {
            property += "_"
        }
        Self.check(parameter, label: label, report: &report)
        let type = parameter.type.as(AttributedTypeSyntax.self)?.baseType ?? parameter.type
        self.type = type.replacingSelf(with: owner).trimmedDescription
        defaultValue = parameter.defaultValue?.value.replacingSelf(with: owner).trimmedDescription
    }

    /// Names that mean something else after a dot, even in backticks.
    private static let reserved: Set = ["self", "Self", "Type", "Protocol", "init"]

    private static func addingLabel(to parameter: FunctionParameterSyntax) -> [FixIt] {
        guard let name = parameter.secondName else { return [] }
        return [FixIt("Make '\(name.text)' the label", .removing(parameter.firstName))]
    }

    /// Reports a type that cannot be bound, as far as its spelling shows it.
    private static func check(
        _ parameter: FunctionParameterSyntax, label: String, report: inout HandlerReport
    ) {
        let attributed = parameter.type.as(AttributedTypeSyntax.self)
        let specifiers = attributed?.specifiers.map { $0 } ?? []
        let type = attributed?.baseType ?? parameter.type
        if let specifier = specifiers.first(where: { $0.trimmedDescription == "inout" }) {
            report.error(
                .inoutArgument(label), at: parameter.type,
                fixIts: [FixIt("Remove 'inout'", .removing(specifier))])
        }
        let isIsolated = specifiers.contains { $0.trimmedDescription == "isolated" }
        if isIsolated || parameter.modifiers.contains(where: { $0.name.text == "isolated" }) {
            report.error(.isolatedArgument(label), at: parameter.type)
        }
        if let ellipsis = parameter.ellipsis {
            let array = "[\(type.trimmedDescription)]"
            report.error(
                .variadicArgument(label, type.trimmedDescription), at: parameter.type,
                fixIts: [FixIt("Write an array", .replacing(type, with: array), .removing(ellipsis))])
        }
        if let unwrapped = type.as(ImplicitlyUnwrappedOptionalTypeSyntax.self) {
            report.error(
                .implicitlyUnwrapped(label, unwrapped.wrappedType.trimmedDescription), at: type,
                fixIts: [FixIt("Write '?'", .replacing(unwrapped.exclamationMark, with: "?"))])
        }
        if type.tokens(viewMode: .sourceAccurate).contains(where: { $0.tokenKind == .keyword(.some) }) {
            report.error(.opaqueArgument(label), at: parameter.type)
        } else if let message = type.uncodable(label) {
            report.error(message, at: parameter.type)
        }
    }
}

extension Syntax {
    /// A name in this type that means something else inside the type in the expansion, where it is not written
    /// after a dot.
    fileprivate var hiddenName: String? {
        tokens(viewMode: .sourceAccurate).first { token in
            HandlerExpansion.types.contains(token.text) && token.parent?.is(IdentifierTypeSyntax.self) == true
        }?.text
    }
}

extension ExprSyntax {
    /// The first of `names` in this expression that is not written after a dot.
    func reference(toAnyOf names: Set<String>) -> DeclReferenceExprSyntax? {
        for token in tokens(viewMode: .sourceAccurate) where names.contains(token.plainName) {
            guard let reference = token.parent?.as(DeclReferenceExprSyntax.self) else { continue }
            let member = reference.parent?.as(MemberAccessExprSyntax.self)
            if member?.declName != reference { return reference }
        }
        return nil
    }
}

extension TypeSyntax {
    /// Which call `Call<…>` or `AsyncCall<…>` is, and its generic arguments: nil where this is another type.
    fileprivate var call: (form: HandlerParameters.Form, arguments: GenericArgumentClauseSyntax?)? {
        if let type = self.as(IdentifierTypeSyntax.self) {
            return HandlerParameters.Form(rawValue: type.name.text).map { ($0, type.genericArgumentClause) }
        }
        if let type = self.as(MemberTypeSyntax.self), type.baseType.trimmedDescription == "Handlers" {
            return HandlerParameters.Form(rawValue: type.name.text).map { ($0, type.genericArgumentClause) }
        }
        return nil
    }

    /// The reason why a type of this shape is never Codable; nil if it may be Codable.
    fileprivate func uncodable(_ label: String) -> HandlerMessage? {
        if let optional = self.as(OptionalTypeSyntax.self) { return optional.wrappedType.uncodable(label) }
        if let attributed = self.as(AttributedTypeSyntax.self) { return attributed.baseType.uncodable(label) }
        if let tuple = self.as(TupleTypeSyntax.self) {
            if tuple.elements.count == 1, let only = tuple.elements.first {
                return only.type.uncodable(label)
            }
            return .uncodableArgument(label, "a tuple")
        }
        if self.is(FunctionTypeSyntax.self) { return .closureArgument(label) }
        if self.is(MetatypeTypeSyntax.self) { return .uncodableArgument(label, "a metatype") }
        if self.is(SomeOrAnyTypeSyntax.self) || ["Any", "AnyObject"].contains(trimmedDescription) {
            return .uncodableArgument(label, "a value of any type")
        }
        return nil
    }
}
