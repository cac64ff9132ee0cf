/// The state inside a start tag (XML 1.0 section 3.1), so far as it is a matter of white space, `=` and quotes.
///
/// libxml2 would find the same, but after an element that it refuses it has to start again, which costs several times as
/// much as a small element. Which characters beyond ASCII a name may have, and its meaning, is left to libxml2.
enum StartTagSyntax {
    /// In the element's name; in white space after it or after a value; in an attribute's name.
    case name, space, attribute
    /// In white space after an attribute's name; after its `=`; after its value.
    case attributeSpace, equals, value

    /// A character that may be one of a name.
    mutating func readName() throws(ParserFault) {
        switch self {
        case .name, .attribute: break
        case .space: self = .attribute
        case .attributeSpace, .equals, .value: throw .startTag
        }
    }

    /// White space.
    mutating func readSpace() {
        switch self {
        case .name, .value: self = .space
        case .attribute: self = .attributeSpace
        case .space, .attributeSpace, .equals: break
        }
    }

    /// The `=` of an attribute.
    mutating func readEquals() throws(ParserFault) {
        guard self == .attribute || self == .attributeSpace else { throw .startTag }
        self = .equals
    }

    /// The quote in front of a value.
    mutating func readValue() throws(ParserFault) {
        guard self == .equals else { throw .startTag }
        self = .value
    }

    /// The `>` or the `/` of the tag.
    func end() throws(ParserFault) {
        switch self {
        case .name, .space, .value: break
        case .attribute, .attributeSpace, .equals: throw .startTag
        }
    }
}
