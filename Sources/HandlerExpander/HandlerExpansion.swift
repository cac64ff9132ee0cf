import SwiftSyntax
import SwiftSyntaxBuilder

/// Writes what `@Handler` adds beside a function.
///
/// Names of other modules are written with their module (`Handlers::Durable`), so that a type of the user's
/// which is called the same does no harm.
struct HandlerExpansion {
    /// The types that the added type declares, which hide the user's of the same name inside it.
    static let types: Set = ["CodingKeys", "Context"]
    /// The other names that hide the user's inside the added type, besides the arguments.
    static let members: Set = [
        "aliases", "arguments", "availability", "decoder", "durable", "id", "limit", "silence", "retry",
        "run",
        "storedArguments", "upcast", "version",
    ]

    let handler: HandlerDeclaration

    init(_ handler: HandlerDeclaration) { self.handler = handler }

    var peers: [DeclSyntax] { [definition, overload, record].map { "\(raw: $0)" } }

    private var arguments: [HandlerArgument] { handler.parameters.arguments }
    private var id: String { handler.attribute.id.description }
    private var typeName: String { "Handler_\(handler.name)".quotedName }
    private var availability: String { handler.availability.map { $0 + "\n" }.joined() }
    /// The access level before what stands beside the function: as there, because the compiler warns where one is
    /// repeated that an extension gives already.
    private var access: String { handler.access.map { $0.rawValue + " " } ?? "" }
    /// The access level before an implemented requirement.
    private var requirement: String { (handler.access ?? handler.owner.extensionAccess)?.ofRequirement ?? "" }
}

// MARK: - The type that is stored

extension HandlerExpansion {
    private var definition: String {
        let members = [constants, upcast, signature, properties, initializers, encoding, run].filter {
            !$0.isEmpty
        }
        return """
            /// The handler \(id): what it has bound, as it is stored.
            \(availability)\(access)nonisolated struct \(typeName): \(conformance) {
            \(members.joined(separator: "\n\n"))
            }
            """
    }

    private var conformance: String {
        switch handler.parameters.form {
        case .inStep: "Handlers::Handler"
        case .leased: "Handlers::AsyncHandler"
        case .flow: "Handlers::Workflow"
        }
    }

    private var constants: String {
        var lines = [
            "typealias Context = \(handler.parameters.context)",
            "static var id: Swift::String { \(id) }",
        ]
        if let version = handler.attribute.version {
            lines.append("static var version: Swift::Int { \(version) }")
        }
        if let aliases = handler.attribute.aliases {
            lines.append("static var aliases: [Swift::String] { \(aliases) }")
        }
        if let retry = handler.attribute.retry {
            lines.append("static var retry: Handlers::RetryPolicy { \(retry) }")
        }
        if let limit = handler.attribute.limit {
            lines.append("static var limit: Swift::Duration? { \(limit) }")
        }
        if let silence = handler.attribute.silence {
            lines.append("static var silence: Swift::Duration? { \(silence) }")
        }
        if let availability = handler.attribute.availability {
            lines.append("static var availability: Handlers::Availability { \(availability) }")
        }
        return lines.map { requirement + $0 }.joined(separator: "\n")
    }

    private var upcast: String {
        guard let upcast = handler.attribute.upcast else { return "" }
        return """
            \(requirement)static func upcast(
                _ __record: inout Handlers::Record, from __version: Swift::Int
            ) throws {
                let __upcast: (inout Handlers::Record, Swift::Int) throws -> Swift::Void = \(upcast)
                try __upcast(&__record, __version)
            }
            """
    }

    /// The entry for the lock file; written in the expansion, because reflection does not see labels and defaults.
    private var signature: String {
        if arguments.isEmpty { return "" }
        let listed = arguments.map { argument in
            let fallback = argument.storedDefault == nil ? "" : ", hasDefault: true"
            return ".init(\"\(argument.label)\", (\(argument.type)).self\(fallback))"
        }
        return """
            \(requirement)static var storedArguments: [Handlers::HandlerArgument] {
                [\(listed.joined(separator: ", "))]
            }
            """
    }

    /// The compiler reports at `__BoundArgument` that an argument is not Codable.
    private var properties: String {
        if arguments.isEmpty { return "" }
        let properties = arguments.map { "var \($0.property.quotedName): __BoundArgument<\($0.type)>" }
        let keys = arguments.map { argument in
            argument.property == argument.label
                ? "case \(argument.label.quotedName)"
                : "case \(argument.property.quotedName) = \"\(argument.label)\""
        }
        return """
            \(properties.joined(separator: "\n"))
            enum CodingKeys: Swift::String, Swift::CodingKey {
                \(keys.joined(separator: "\n"))
            }
            """
    }

    private var initializers: String {
        if arguments.isEmpty { return "" }
        let assigned = arguments.map { "self.\($0.property.quotedName) = \($0.property.quotedName)" }
        let decoded = arguments.map { argument in
            let fallback = argument.storedDefault.map { ", default: \($0)" } ?? ""
            let key = ".\(argument.property.quotedName)"
            return "self.\(argument.property.quotedName) = try arguments.__decodeArgument(\(key)\(fallback))"
        }
        return """
            init(\(arguments.map { $0.parameter() }.joined(separator: ", "))) {
                \(assigned.joined(separator: "\n"))
            }
            \(requirement)init(from decoder: any Swift::Decoder) throws {
                let arguments = try decoder.container(keyedBy: CodingKeys.self)
                \(decoded.joined(separator: "\n"))
            }
            """
    }

    private var encoding: String {
        if arguments.isEmpty { return "" }
        let encoded = arguments.map { argument in
            // A nil that differs from the default must be stored to be found again.
            let method = argument.storedDefault == nil ? "__encodeArgument" : "__encodeDefaultedArgument"
            let property = argument.property.quotedName
            return "try arguments.\(method)(self.\(property), .\(property))"
        }
        return """
            \(requirement)func encode(to encoder: any Swift::Encoder) throws {
                var arguments = encoder.container(keyedBy: CodingKeys.self)
                \(encoded.joined(separator: "\n"))
            }
            """
    }

    private var run: String {
        let name = handler.name.quotedName
        let owner = handler.owner.name
        let values = arguments.map { "\($0.label.argumentLabel): self.\($0.property.quotedName)" }
        let call = "\(name)(\((["call"] + values).joined(separator: ", ")))"
        // What keeps a result can throw.
        let keepsResult = handler.result != nil && handler.parameters.form != .flow
        let attempt = (handler.canThrow || keepsResult ? "try " : "") + (handler.isAsync ? "await " : "")
        func calling(_ instance: String) -> String {
            guard keepsResult else { return "\(attempt)\(instance).\(call)" }
            let keep = handler.isAsync ? "call.end(result: " : "call.setResult("
            return "\(attempt)\(keep)\(instance).\(call))"
        }
        var body = calling(owner)
        if let path = handler.attribute.path {
            let literal = path.argument.expression.trimmedDescription
            body = """
                let instance: \(owner) = try __resolveInstance(
                    call.context.\(path.text), handler: Self.id, path: \(literal))
                \(calling("instance"))
                """
        }
        let parameter = (handler.isAsync ? "" : "borrowing ") + handler.parameters.call
        var output = ""
        if handler.parameters.form == .flow {
            output = " -> \(handler.result ?? "Handlers::Nothing")"
            body = handler.result == nil ? "\(body)\nreturn Handlers::Nothing()" : "return \(body)"
        }
        return """
            \(requirement)func run(_ call: \(parameter)) \(handler.isAsync ? "async " : "")throws\(output) {
            \(body)
            }
            """
    }
}

// MARK: - Binding and registration

extension HandlerExpansion {
    private var overload: String {
        let parameters = arguments.map { $0.parameter(withDefault: true) }.joined(separator: ", ")
        let values = arguments.map { "\($0.property.argumentLabel): \($0.property.quotedName)" }
        let durable = "Handlers::Durable<\(handler.parameters.context)>"
        return """
            /// The handler \(id) with these arguments bound.
            \(availability)\(access)nonisolated static func \(handler.name.quotedName)(\(parameters)) throws(Handlers::HandlerError) -> \(durable) {
                try Handlers::Durable(\(typeName)(\(values.joined(separator: ", "))))
            }
            """
    }

    /// A function pointer in a section of its own: the linker lays all of them out as one array, which
    /// CHandlerRecords reads. Constant, so nothing runs before the registry asks.
    private var record: String {
        let file = handler.location.map { "\($0.file.trimmedDescription)" } ?? "#fileID"
        let line = handler.location.map { "\($0.line.trimmedDescription)" } ?? "#line"
        return """
            #if objectFormat(ELF)
            @section("dh_handlers") @used
            #elseif objectFormat(MachO)
            @section("__DATA,dh_handlers") @used
            #endif
            \(availability)private nonisolated static let \("__handlerRecord_\(handler.name)".quotedName):
                @convention(c) (Swift::UnsafeRawPointer) -> Swift::Void = {
                    __registerHandler(\(typeName).self, in: $0, file: \(file), line: \(line))
                }
            """
    }
}

extension HandlerArgument {
    /// The default value where it differs from nil, which a missing argument is anyway.
    fileprivate var storedDefault: String? { defaultValue == "nil" ? nil : defaultValue }

    /// As a parameter of an initializer or of the overload that binds.
    fileprivate func parameter(withDefault: Bool = false) -> String {
        let external = withDefault && label != property ? label.parameterLabel + " " : ""
        let fallback = withDefault ? defaultValue.map { " = \($0)" } ?? "" : ""
        return "\(external)\(property.parameterLabel): \(type)\(fallback)"
    }
}
