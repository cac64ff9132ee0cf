import SwiftSyntax

/// The type that a handler's function is a member of.
struct HandlerOwner {
    /// As it is written in expressions and types: `OmemoService`, or `Account.Omemo` in an extension.
    var name: String
    /// The access level that an extension gives to its members, if it gives one.
    var extensionAccess: AccessLevel?
    /// Whether functions of instances belong to an actor, and what it is called in a sentence.
    var actor: String?
    /// Whether static functions belong to that actor too.
    var isolatesStatic: Bool

    /// Finds the owner in the declarations around `function`, innermost first.
    init?(of function: FunctionDeclSyntax, in lexicalContext: [Syntax], report: inout HandlerReport) {
        guard let first = lexicalContext.first, first.is(ProtocolDeclSyntax.self) || first.typeName != nil
        else {
            report.error(.outsideOfType(function.name.text), at: function.name)
            return nil
        }
        guard let name = first.typeName else {
            report.error(.inProtocol(function.name.text), at: function.name)
            return nil
        }
        for syntax in lexicalContext where syntax.isGeneric {
            report.error(.genericOwner(syntax.typeName ?? name), at: function.name)
            return nil
        }
        let outermost = name.prefix { $0 != "." }
        if HandlerExpansion.types.contains(String(outermost)) {
            report.error(.hiddenOwner(name), at: function.name)
        }
        self.name = name
        let isMainActor = first.asProtocol((any WithAttributesSyntax).self)?.attributes.isMainActor ?? false
        actor = isMainActor ? "the main actor" : first.is(ActorDeclSyntax.self) ? "the actor '\(name)'" : nil
        isolatesStatic = isMainActor
        if let declaration = first.as(ExtensionDeclSyntax.self) {
            extensionAccess = AccessLevel(declaration.modifiers)
        }
    }
}

/// The access level of a function, and of the declarations beside it in the expansion.
enum AccessLevel: String {
    case `public`, package, `internal`, `fileprivate`, `private`

    /// The level that `modifiers` name.
    init?(_ modifiers: DeclModifierListSyntax) {
        for modifier in modifiers where modifier.detail == nil {
            // Nobody can override what the macro adds, so `open` is `public` there.
            let name = modifier.name.text == "open" ? "public" : modifier.name.text
            guard let level = AccessLevel(rawValue: name) else { continue }
            self = level
            return
        }
        return nil
    }

    /// The access modifier of a member that implements a requirement of the public protocol `Handler`.
    var ofRequirement: String {
        switch self {
        case .public, .package: rawValue + " "
        case .internal, .fileprivate, .private: ""
        }
    }
}

extension AttributeListSyntax {
    var isMainActor: Bool {
        contains { element in
            guard case .attribute(let attribute) = element else { return false }
            return attribute.attributeName.trimmedDescription == "MainActor"
        }
    }
}

extension Syntax {
    /// The name of the type that this declares or extends.
    fileprivate var typeName: String? {
        if let extended = self.as(ExtensionDeclSyntax.self) {
            return extended.extendedType.trimmedDescription
        }
        if self.is(ProtocolDeclSyntax.self) || !self.isProtocol((any DeclGroupSyntax).self) { return nil }
        return self.asProtocol((any NamedDeclSyntax).self)?.name.text
    }

    /// Whether this is a type, or an extension of a type, that plainly has generic parameters.
    fileprivate var isGeneric: Bool {
        if let extended = self.as(ExtensionDeclSyntax.self) {
            let arguments =
                extended.extendedType.as(IdentifierTypeSyntax.self)?.genericArgumentClause
                ?? extended.extendedType.as(MemberTypeSyntax.self)?.genericArgumentClause
            return arguments != nil || extended.genericWhereClause != nil
        }
        return self.asProtocol((any WithGenericParametersSyntax).self)?.genericParameterClause != nil
    }
}
