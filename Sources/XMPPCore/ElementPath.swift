/// Path in an element: names of children, one for each level, and an attribute at the end.
///
/// ```swift
/// let ids: ElementPath = "{\(Namespaces.pubsubEvent)}event/items/item/@id"
/// message.element.texts(at: ids)             // the ids of the items
/// message.element.first(at: "*/{urn:x}y")    // the first <y/> below any child of the message's own namespace
/// ```
///
/// | A step | means children |
/// |---|---|
/// | `item` | of that name in the namespace of the element that holds them |
/// | `{urn:x}item` | of that name in that namespace; `{}item` in none |
/// | `{*}item` | of that name in any namespace |
/// | `*`, `{urn:x}*`, `{*}*` | of any name |
/// | `@id`, `@{urn:x}id`, `@xml:lang` | no children but the attribute; only at the end, or alone |
///
/// A literal is read each time that it is evaluated: keep a path that is used often. What is interpolated is a name or a
/// namespace as a whole, never syntax, so it may be foreign text. A search looks at each child of each step once.
///
/// Source: the form `{namespace}name` is James Clark's, of XML Namespaces (1999).
public struct ElementPath: Hashable, Sendable {
    /// A step: the children that it selects.
    struct Step: Hashable, Sendable {
        enum Namespace: Hashable, Sendable { case inherited, any, exactly(ForeignText) }
        var namespace: Namespace
        /// Nil for any.
        var name: ForeignText?

        func means(_ child: Element, in parent: Element) -> Bool {
            guard name == nil || child.name == name else { return false }
            return switch namespace {
            case .inherited: child.namespace == parent.namespace
            case .any: true
            case .exactly(let namespace): child.namespace == namespace
            }
        }
    }

    /// The attribute at the end.
    struct Attribute: Hashable, Sendable {
        var namespace: ForeignText?
        var name: ForeignText

        func value(in element: Element) -> ForeignText? {
            element.attributes.first { $0.name == name && $0.namespace == namespace }?.value
        }
    }

    /// The maximum number of levels of a path.
    package static let maximumSteps = 16

    let steps: [Step]
    let attribute: Attribute?
}

extension ElementPath {
    /// Reads a path that is known only when the program runs.
    ///
    /// - Parameter text: The path, all of it syntax: a foreign name in it may be part of the syntax, too.
    /// - Throws: ``ElementPathError`` when it is no path, or has more than `maximumSteps` steps.
    package init(_ text: some TextConvertible) throws(ElementPathError) {
        var parser = ElementPathParser()
        try parser.read(syntax: text.foreignText)
        self = try parser.path()
    }
}

extension ElementPath: ExpressibleByStringInterpolation {
    /// Takes the path of a literal. One that is no path ends the program: it is a mistake in the source.
    public init(stringLiteral path: String) { self.init(literal: [.syntax(path)]) }

    /// Takes the path of a literal with names in it. One that is no path, whatever the names are, ends the program.
    public init(stringInterpolation: StringInterpolation) { self.init(literal: stringInterpolation.parts) }

    private init(literal parts: [StringInterpolation.Part]) {
        do throws(ElementPathError) {
            var parser = ElementPathParser()
            for part in parts {
                switch part {
                case .syntax(let text): try parser.read(syntax: ForeignText(text))
                case .name(let text): parser.read(name: text)
                }
            }
            self = try parser.path()
        } catch {
            // The text of a literal is the program's: what is interpolated cannot make it wrong.
            preconditionFailure(error.description)
        }
    }

    /// Collects the parts of a literal.
    public struct StringInterpolation: StringInterpolationProtocol {
        enum Part { case syntax(String), name(ForeignText) }
        var parts: [Part] = []

        public init(literalCapacity: Int, interpolationCount: Int) {}

        /// Appends text of the program.
        public mutating func appendLiteral(_ literal: String) { parts.append(.syntax(literal)) }

        /// Appends a name or a namespace, or a part of one.
        public mutating func appendInterpolation(_ name: some TextConvertible) {
            parts.append(.name(name.foreignText))
        }
    }
}

extension ElementPath: CustomStringConvertible {
    /// The path as it is written.
    public var description: String {
        let written = steps.map { step in
            let name = step.name?.string ?? "*"
            return switch step.namespace {
            case .inherited: name
            case .any: "{*}\(name)"
            case .exactly(let namespace): "{\(namespace)}\(name)"
            }
        }
        let end = attribute.map { "@" + ($0.namespace.map { "{\($0)}" } ?? "") + $0.name.string }
        return (written + (end.map { [$0] } ?? [])).joined(separator: "/")
    }
}

// MARK: - Searching

extension Element {
    /// Returns the first element at a path.
    ///
    /// ```swift
    /// let item = message.element.first(at: "{\(Namespaces.pubsubEvent)}event/items/item")
    /// ```
    ///
    /// - Parameter path: Its place below this element; of a path that ends in an attribute, the element that has it.
    /// - Returns: The first in document order; nil when there is none.
    public func first(at path: ElementPath) -> Element? {
        var found: Element?
        visit(path, path.steps[...]) { element in
            found = element
            return false
        }
        return found
    }

    /// Returns every element at a path.
    ///
    /// - Parameter path: Their place below this element; of a path that ends in an attribute, those that have it.
    /// - Returns: The elements in document order.
    public func all(at path: ElementPath) -> [Element] {
        var found: [Element] = []
        visit(path, path.steps[...]) { element in
            found.append(element)
            return true
        }
        return found
    }

    /// Returns the first text at a path.
    ///
    /// - Parameter path: Its place: in the attribute at the path's end, or in the element's text.
    /// - Returns: The text; nil when there is no such element or attribute.
    public func text(at path: ElementPath) -> ForeignText? { first(at: path).map { path.text(in: $0) } }

    /// Returns every text at a path.
    ///
    /// - Parameter path: Their place: in the attribute at the path's end, or in the elements' texts.
    /// - Returns: The texts in document order.
    public func texts(at path: ElementPath) -> [ForeignText] { all(at: path).map { path.text(in: $0) } }

    /// Calls `body` with each element at the path until it returns false. It goes down by one call a step, so
    /// `maximumSteps` bounds the stack, however deep the element is.
    @discardableResult
    private func visit(
        _ path: ElementPath, _ steps: ArraySlice<ElementPath.Step>, _ body: (Element) -> Bool
    ) -> Bool {
        guard let step = steps.first else {
            return path.attribute.map { $0.value(in: self) != nil } ?? true ? body(self) : true
        }
        for case .element(let child) in children where step.means(child, in: self) {
            guard child.visit(path, steps.dropFirst(), body) else { return false }
        }
        return true
    }
}

extension ElementPath {
    /// Returns the text in an element at the end of this path.
    fileprivate func text(in element: Element) -> ForeignText {
        guard let attribute else { return element.text }
        return attribute.value(in: element) ?? ""
    }
}
