/// Reads what it can out of a start tag that is refused: the name and the attributes that an answer needs.
///
/// It takes the bytes as they come and keeps a fixed number of them, whatever the tag holds.
struct StartTagReader {
    private enum State {
        case outside, name, space, attribute, attributeSpace, equals, value, done
    }

    /// Bytes of a name of an element or an attribute; longer ones are not kept.
    static let nameBytes = 256

    private var state = State.outside
    private var name: [UInt8] = []
    private var isNameTooLong = false
    private var attribute: [UInt8] = []
    private var value: [UInt8] = []
    private var quote: UInt8 = 0
    /// The values that were read, by name; nil for one that cannot be.
    private var values: [[UInt8]: [UInt8]?] = [:]

    /// Takes the next byte of the tag, or in front of it.
    mutating func read(_ byte: UInt8) {
        switch state {
        case .outside: if byte == UInt8(ascii: "<") { state = .name }
        case .name: readName(byte)
        case .space: readSpace(byte)
        case .attribute: readAttribute(byte)
        case .attributeSpace: readAttributeSpace(byte)
        case .equals: readEquals(byte)
        case .value: readValue(byte)
        case .done: break
        }
    }

    private mutating func readName(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: ">"): state = .done
        // An end tag, or no tag.
        case 0...0x3F where name.isEmpty && byte != UInt8(ascii: ":"): state = .done
        case UInt8(ascii: "<"): state = .done
        case 0...0x20, UInt8(ascii: "/"): state = .space
        // Of an attribute without a name.
        case UInt8(ascii: "="): (attribute, state) = ([], .equals)
        case UInt8(ascii: "'"), UInt8(ascii: "\""):
            attribute = []
            startValue(byte)
        default:
            if name.count < Self.nameBytes { name.append(byte) } else { isNameTooLong = true }
        }
    }

    private mutating func readSpace(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: ">"): state = .done
        case 0...0x20, UInt8(ascii: "/"): break
        default: (attribute, state) = ([byte], .attribute)
        }
    }

    private mutating func readAttribute(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: ">"): state = .done
        case UInt8(ascii: "="): state = .equals
        case UInt8(ascii: "'"), UInt8(ascii: "\""): startValue(byte)
        case 0...0x20: state = .attributeSpace
        default: if attribute.count <= Self.nameBytes { attribute.append(byte) }
        }
    }

    private mutating func readAttributeSpace(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "="), UInt8(ascii: "'"), UInt8(ascii: "\""), 0...0x20: readAttribute(byte)
        // The name had no value.
        default: readSpace(byte)
        }
    }

    private mutating func readEquals(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "'"), UInt8(ascii: "\""): startValue(byte)
        case 0...0x20: break
        default:
            if isWanted { values[attribute] = .some(nil) }
            readSpace(byte)
        }
    }

    private mutating func startValue(_ byte: UInt8) {
        (quote, value, state) = (byte, [], .value)
    }

    private mutating func readValue(_ byte: UInt8) {
        guard byte == quote else {
            if value.count <= RefusedElement.Root.attributeBytes { value.append(byte) }
            return
        }
        state = .space
        guard isWanted else { return }
        let isReadable = value.count <= RefusedElement.Root.attributeBytes && values[attribute] == nil
        values[attribute] = .some(isReadable ? value : nil)
    }

    private var isWanted: Bool {
        RefusedElement.Root.attributes.contains { attribute.elementsEqual($0.utf8) }
            || attribute.elementsEqual(declaration)
    }

    // MARK: What was read

    /// The name after its prefix; empty when it cannot be read.
    var localName: [UInt8] {
        if isNameTooLong || String(validating: name, as: UTF8.self) == nil { return [] }
        return name.lastIndex(of: UInt8(ascii: ":")).map { Array(name[($0 + 1)...]) } ?? name
    }

    private var prefix: [UInt8] { name.lastIndex(of: UInt8(ascii: ":")).map { Array(name[..<$0]) } ?? [] }

    /// The attribute that would declare the element's namespace.
    private var declaration: [UInt8] {
        Array("xmlns".utf8) + (prefix.isEmpty ? [] : [UInt8(ascii: ":")] + prefix)
    }

    /// - Parameter inherited: Gives the namespace that the stream header declares for a prefix; nil when it declares none.
    func root(inherited: (_ prefix: [UInt8]) -> ForeignText?) -> RefusedElement.Root {
        let declared =
            values.isEmpty
            ? nil : values[declaration].map { ForeignText($0.flatMap(Self.unescaped) ?? "") }
        let namespace = declared ?? inherited(prefix) ?? ""
        var root = RefusedElement.Root(
            Element(
                name: ForeignText(decoding: localName), namespace: namespace, attributes: [],
                children: []), unreadable: [])
        for name in RefusedElement.Root.attributes where !values.isEmpty {
            guard let raw = values[Array(name.utf8)] else { continue }
            if let value = raw.flatMap(Self.unescaped) {
                root.element[name.string] = ForeignText(value)
            } else {
                root.unreadable.insert(name)
            }
        }
        return root
    }

    // MARK: Values

    private static let entities: [ForeignText: Unicode.Scalar] = [
        "amp": "&", "lt": "<", "gt": ">", "quot": "\"", "apos": "'",
    ]

    /// The value of an attribute with its references replaced (XML 1.0 section 3.3.3); nil when it is malformed.
    static func unescaped(_ value: [UInt8]) -> String? {
        guard let text = String(validating: value, as: UTF8.self) else { return nil }
        var scalars = String.UnicodeScalarView()
        var rest = text.unicodeScalars[...]
        while let scalar = rest.popFirst() {
            switch scalar {
            case "&":
                guard let end = rest.firstIndex(of: ";"), let replaced = reference(rest[..<end]) else {
                    return nil
                }
                scalars.append(replaced)
                rest = rest[rest.index(after: end)...]
            case "\t", "\n", "\r": scalars.append(" ")
            default:
                guard scalar != "<", isCharacter(scalar) else { return nil }
                scalars.append(scalar)
            }
        }
        return String(scalars)
    }

    private static func reference(_ name: Substring.UnicodeScalarView) -> Unicode.Scalar? {
        let name = String(name)
        if let scalar = entities[ForeignText(name)] { return scalar }
        guard name.utf8.first == UInt8(ascii: "#") else { return nil }
        let isHexadecimal = name.utf8.dropFirst().first == UInt8(ascii: "x")
        let digits = name.dropFirst(isHexadecimal ? 2 : 1)
        // `UInt32` would take a sign too.
        guard digits.utf8.allSatisfy({ $0 != UInt8(ascii: "+") && $0 != UInt8(ascii: "-") }) else {
            return nil
        }
        return UInt32(digits, radix: isHexadecimal ? 16 : 10).flatMap(Unicode.Scalar.init).flatMap {
            isCharacter($0) ? $0 : nil
        }
    }

    /// XML 1.0 section 2.2, production 2.
    private static func isCharacter(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x09, 0x0A, 0x0D, 0x20...0xFFFD, 0x10000...: true
        default: false
        }
    }
}
