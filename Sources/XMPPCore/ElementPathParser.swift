/// An error in the text of a path.
///
/// ```swift
/// let path = try ElementPath(input)    // throws: Write a name between the slashes of 'items//item'.
/// ```
package struct ElementPathError: CodedError, Hashable {
    /// The kind of error.
    package let code: ErrorCode<ElementPathError>
    /// A sentence that says what to do.
    package let message: String
}

/// Reads a path byte by byte: what is syntax by its marks, what is a name as a whole.
struct ElementPathParser {
    private var steps: [ElementPath.Step] = []
    private var attribute: ElementPath.Attribute?
    private var step = Unfinished()
    /// The path as far as it was read, for errors.
    private var read: [UInt8] = []

    private struct Unfinished {
        var isAttribute = false
        var isInNamespace = false
        var namespace: ElementPath.Step.Namespace = .inherited
        var bytes: [UInt8] = []
        /// Whether a name was put there, be it an empty one, whose `*` is no mark.
        var isNamed = false

        var isStarted: Bool { isNamed || !bytes.isEmpty }
        var isAny: Bool { !isNamed && bytes == [UInt8(ascii: "*")] }
    }

    mutating func read(name: ForeignText) {
        step.bytes += name.utf8
        step.isNamed = true
        read += name.utf8
    }

    mutating func read(syntax: ForeignText) throws(ElementPathError) {
        for byte in syntax.utf8 {
            read.append(byte)
            switch byte {
            case UInt8(ascii: "}") where step.isInNamespace: endNamespace()
            case _ where step.isInNamespace: step.bytes.append(byte)
            case UInt8(ascii: "/"): try endStep()
            case UInt8(ascii: "{") where !step.isStarted && step.namespace == .inherited:
                step.isInNamespace = true
            case UInt8(ascii: "@") where !step.isStarted && step.namespace == .inherited && !step.isAttribute:
                step.isAttribute = true
            case UInt8(ascii: "{"), UInt8(ascii: "}"), UInt8(ascii: "@"), 0...0x20:
                throw error(.misplacedCharacter, "Take the last character out of '\(text)'.")
            default: step.bytes.append(byte)
            }
        }
    }

    mutating func path() throws(ElementPathError) -> ElementPath {
        if step.isInNamespace {
            throw error(.misplacedCharacter, "Close the namespace in '\(text)' with '}'.")
        }
        try endStep()
        return ElementPath(steps: steps, attribute: attribute)
    }

    private mutating func endNamespace() {
        step.namespace = step.isAny ? .any : .exactly(ForeignText(decoding: step.bytes))
        (step.isInNamespace, step.isNamed, step.bytes) = (false, false, [])
    }

    private mutating func endStep() throws(ElementPathError) {
        if attribute != nil { throw error(.attributeNotLast, "End '\(text)' with its attribute.") }
        guard step.isStarted else { throw error(.missingName, "Write a name for each step of '\(text)'.") }
        if step.isAttribute {
            attribute = try attribute(ForeignText(decoding: step.bytes))
        } else {
            guard steps.count < ElementPath.maximumSteps else {
                throw error(.tooManySteps, "Give '\(text)' at most \(ElementPath.maximumSteps) steps.")
            }
            let name = step.isAny ? nil : ForeignText(decoding: step.bytes)
            steps.append(ElementPath.Step(namespace: step.namespace, name: name))
        }
        step = Unfinished()
    }

    private func attribute(_ name: ForeignText) throws(ElementPathError) -> ElementPath.Attribute {
        switch step.namespace {
        case _ where step.isAny, .any:
            throw error(.misplacedCharacter, "Name the attribute at the end of '\(text)' and its namespace.")
        case .exactly(let namespace):
            return ElementPath.Attribute(namespace: namespace.isEmpty ? nil : namespace, name: name)
        case .inherited:
            let (name, namespace) = Element.Attribute.expanded(name)
            return ElementPath.Attribute(namespace: namespace, name: name)
        }
    }

    /// The text read so far, as much as an error shows.
    private var text: ForeignText {
        ForeignText(decoding: read).prefix(bytes: ElementValueError.maximumTextLength)
    }

    private func error(_ code: ErrorCode<ElementPathError>, _ message: String) -> ElementPathError {
        ElementPathError(code: code, message: message)
    }
}

// MARK: - Codes

extension ErrorCode where Failure == ElementPathError {
    /// A step has no name.
    package static var missingName: Self { Self(rawValue: "missingName") }
    /// A character at a place where it means nothing.
    package static var misplacedCharacter: Self { Self(rawValue: "misplacedCharacter") }
    /// Something follows an attribute.
    package static var attributeNotLast: Self { Self(rawValue: "attributeNotLast") }
    /// There are more than `maximumSteps` steps.
    package static var tooManySteps: Self { Self(rawValue: "tooManySteps") }
}
