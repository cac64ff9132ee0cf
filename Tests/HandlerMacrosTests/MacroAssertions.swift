import HandlerExpander
import SwiftDiagnostics
import SwiftParser
import SwiftSyntax
import SwiftSyntaxMacroExpansion
import SwiftSyntaxMacros
import Testing

/// A source file after its macros were expanded.
struct Expansion {
    /// A diagnostic, where it stands in the file.
    struct Finding: Equatable, CustomStringConvertible {
        var line: Int
        var column: Int
        var message: String
        var description: String { "\(line):\(column): \(message)" }
    }

    /// The file, `@Handler` replaced by what it expands to.
    var source: String
    var findings: [Finding]
    /// The file after the first fix-it of each diagnostic; nil where there is none.
    var fixed: String?
    /// The titles of all fix-its.
    var fixIts: [String]

    init(_ source: String) {
        let file = Parser.parse(source: source)
        let context = BasicMacroExpansionContext(
            sourceFiles: [file: .init(moduleName: "Shop", fullFilePath: "Sources/Shop/Till.swift")])
        let expanded = file.expand(
            macros: ["Handler": HandlerMacro.self, "Workflow": HandlerMacro.self],
            contextGenerator: { node in
                BasicMacroExpansionContext(
                    sharingWith: context, lexicalContext: node.allMacroLexicalContexts())
            })
        self.source = expanded.description
        findings = context.diagnostics.map { diagnostic in
            let place = context.location(
                for: diagnostic.position, anchoredAt: diagnostic.node, fileName: "Till.swift")
            return Finding(line: place.line, column: place.column, message: diagnostic.message)
        }
        fixIts = context.diagnostics.flatMap(\.fixIts).map(\.message.message)
        fixed = Self.apply(context.diagnostics.compactMap(\.fixIts.first), to: source, in: context)
    }

    private static func apply(
        _ fixIts: [FixIt], to source: String, in context: BasicMacroExpansionContext
    ) -> String? {
        if fixIts.isEmpty { return nil }
        var bytes = Array(source.utf8)
        let edits = fixIts.flatMap(\.changes).compactMap { change -> (Range<Int>, String)? in
            guard case .replace(let old, let new) = change else { return nil }
            let place = context.location(for: old.position, anchoredAt: old, fileName: "Till.swift")
            return (place.offset..<place.offset + old.totalLength.utf8Length, new.description)
        }
        // From the end, so that the offsets before stay true.
        for (range, text) in edits.sorted(by: { $0.0.lowerBound > $1.0.lowerBound }) {
            bytes.replaceSubrange(range, with: text.utf8)
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

/// The tokens of `source`, so that two sources can be compared without their white space and comments.
func tokens(_ source: String) -> [String] {
    Parser.parse(source: source).tokens(viewMode: .sourceAccurate).map(\.text).filter { !$0.isEmpty }
}

/// Expects that `source` expands to `expected`, white space and comments aside.
func expectExpansion(
    _ source: String, _ expected: String, sourceLocation: Testing.SourceLocation = #_sourceLocation
) {
    let expansion = Expansion(source)
    #expect(expansion.findings == [], sourceLocation: sourceLocation)
    #expect(
        !Parser.parse(source: expansion.source).hasError, "\(expansion.source)",
        sourceLocation: sourceLocation)
    #expect(
        tokens(expansion.source) == tokens(expected), "expanded to\n\(expansion.source)",
        sourceLocation: sourceLocation)
}

/// Expects that `source` expands without complaint and that each of `parts` stands in the expansion, white space
/// and comments aside.
func expectExpansion(
    _ source: String, contains parts: String..., sourceLocation: Testing.SourceLocation = #_sourceLocation
) {
    let expansion = Expansion(source)
    #expect(expansion.findings == [], sourceLocation: sourceLocation)
    #expect(
        !Parser.parse(source: expansion.source).hasError, "\(expansion.source)",
        sourceLocation: sourceLocation)
    let whole = tokens(expansion.source)
    for part in parts {
        #expect(
            whole.contains(run: tokens(part)), "no '\(part)' in\n\(expansion.source)",
            sourceLocation: sourceLocation)
    }
}

/// Expects one diagnostic with `message` at each `▸` of `marked`, no expansion, and `fixed` after the fix-it.
func expectDiagnostic(
    _ marked: String, _ message: String, fixed: String? = nil,
    sourceLocation: Testing.SourceLocation = #_sourceLocation
) {
    var expected: [Expansion.Finding] = []
    var source = ""
    var place = (line: 1, column: 1)
    for character in marked {
        if character == "▸" {
            expected.append(.init(line: place.line, column: place.column, message: message))
            continue
        }
        source.append(character)
        place = character == "\n" ? (place.line + 1, 1) : (place.line, place.column + character.utf8.count)
    }
    let expansion = Expansion(source)
    #expect(expansion.findings == expected, sourceLocation: sourceLocation)
    #expect(expansion.fixed == fixed, sourceLocation: sourceLocation)
    #expect(
        !expansion.source.contains("Handler_"), "a wrong handler was expanded", sourceLocation: sourceLocation
    )
}

extension [String] {
    fileprivate func contains(run: [String]) -> Bool {
        guard !run.isEmpty, run.count <= count else { return false }
        return (0...(count - run.count)).contains { Array(self[$0..<($0 + run.count)]) == run }
    }
}
