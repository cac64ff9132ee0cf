// The compiler plugin: everything it does stands in HandlerExpander, a plain library, so that tests need no plugin.

import HandlerExpander
import SwiftSyntaxMacros

#if SWIFT_SYNTAX_PACKAGE
    import SwiftCompilerPlugin
    import SwiftSyntax

    /// The package's plugin finds a macro by the name of the module that declares it.
    struct HandlerMacro: PeerMacro {
        static func expansion(
            of node: AttributeSyntax, providingPeersOf declaration: some DeclSyntaxProtocol,
            in context: some MacroExpansionContext
        ) throws -> [DeclSyntax] {
            try HandlerExpander.HandlerMacro.expansion(of: node, providingPeersOf: declaration, in: context)
        }
    }

    @main struct Plugin: CompilerPlugin {
        let providingMacros: [any Macro.Type] = [HandlerMacro.self]
    }
#else
    @_spi(PluginMessage) import SwiftCompilerPluginMessageHandling

    /// The toolchain has no `SwiftCompilerPlugin` module, so the plugin speaks to the compiler itself.
    @main struct Plugin: PluginProvider {
        struct UnknownMacro: Error, CustomStringConvertible {
            let description: String
        }

        let macros: [String: any Macro.Type] = ["HandlerMacro": HandlerMacro.self]

        func resolveMacro(moduleName: String, typeName: String) throws -> any Macro.Type {
            guard let macro = macros[typeName] else {
                throw UnknownMacro(description: "the plugin \(moduleName) has no macro \(typeName)")
            }
            return macro
        }

        static func main() throws {
            try CompilerPluginMessageListener(connection: StandardIOMessageConnection(), provider: Plugin())
                .main()
        }
    }
#endif
