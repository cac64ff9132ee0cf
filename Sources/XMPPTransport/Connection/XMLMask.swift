/// Copies a stream of XML for a log, with three dots in place of a secret.
///
/// It goes by names, whatever their namespace, so that it rather hides too much: the text of what SASL exchanges and of
/// elements that carry a password, a token or a key; attributes of such names; values of form fields and headers whose
/// names say the same. It looks at bytes, not at a tree: what is malformed is shown as it came, and an element of any size
/// costs no memory.
struct XMLMask {
    private enum State {
        case text, open, name, tag, attribute, equals, value, endTag, other, cdata
    }

    /// The treatment of the character data of an element.
    private enum Cover {
        /// It is shown.
        case none
        /// The text is hidden; that of its children is treated by their own names.
        case text
        /// It is hidden with everything inside.
        case everything
    }

    /// The mask of a secret.
    static let mask = "\u{2026}"
    /// A piece of the stream that is longer is shown in parts.
    private static let partBytes = 16 << 10
    /// More than any stream that the parser accepts.
    private static let depthLimit = 4096

    private var state = State.text
    private var covers: [Cover] = []
    private var line: [UInt8] = []
    /// Whether what is read now is shown; decided again between stanzas.
    private var isShown = false
    private var hasHidden = false

    private var element = ""
    private var word: [UInt8] = []
    private var attribute = ""
    private var quote: UInt8 = 0
    private var isHidingValue = false
    private var isEmptyTag = false
    private var cover = Cover.none
    /// The number of characters read of `<![CDATA[` or `]]>`.
    private var matched = 0

    /// - Parameters:
    ///   - isWanted: Whether to show it.
    ///   - show: Takes the pieces: a stream header, an element, or a part of one that is long.
    mutating func read(_ bytes: some Sequence<UInt8>, isShown isWanted: Bool, _ show: (String) -> Void) {
        for byte in bytes {
            if state == .text && covers.count <= 1 && line.isEmpty { isShown = isWanted }
            let isHidden = accept(byte)
            if isHidden { hasHidden = true } else if isShown { append(byte, show) }
            if state == .text, covers.count <= 1, byte == UInt8(ascii: ">") { flush(show) }
        }
    }

    private mutating func append(_ byte: UInt8, _ show: (String) -> Void) {
        // White space between stanzas keeps a connection alive and says nothing.
        if line.isEmpty, byte <= 0x20 { return }
        if line.count >= Self.partBytes, byte & 0xC0 != 0x80 { flush(show) }
        line.append(byte)
    }

    private mutating func flush(_ show: (String) -> Void) {
        if !line.isEmpty { show(String(decoding: line, as: UTF8.self)) }
        line.removeAll(keepingCapacity: true)
    }

    /// Shows a mask in place of hidden text.
    private mutating func reveal() {
        if hasHidden && isShown { line += Self.mask.utf8 }
        hasHidden = false
    }

    // MARK: One byte

    /// - Returns: Whether the byte is hidden.
    private mutating func accept(_ byte: UInt8) -> Bool {
        switch state {
        case .text: return inText(byte)
        case .open: behindOpen(byte)
        case .name: inName(byte)
        case .tag, .attribute, .equals: inTag(byte)
        case .value: return inValue(byte)
        case .endTag: if byte == UInt8(ascii: ">") { close() }
        case .other: inOther(byte)
        case .cdata: return inCDATA(byte)
        }
        return false
    }

    private var isCovered: Bool { covers.last.map { $0 != .none } ?? false }

    private mutating func inText(_ byte: UInt8) -> Bool {
        guard byte == UInt8(ascii: "<") else { return isCovered }
        reveal()
        state = .open
        return false
    }

    private mutating func behindOpen(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "/"): state = .endTag
        case UInt8(ascii: "?"): (state, matched) = (.other, -1)
        case UInt8(ascii: "!"): (state, matched) = (.other, 0)
        default:
            (state, word, isEmptyTag) = (.name, [byte], false)
        }
    }

    private mutating func inName(_ byte: UInt8) {
        guard byte <= 0x20 || byte == UInt8(ascii: ">") || byte == UInt8(ascii: "/") else {
            return keep(byte)
        }
        element = localName()
        // A header starts a stream again, as after TLS and after the login.
        if element == "stream", covers.count <= 1 { covers = [] }
        cover = covers.last == .everything ? .everything : Self.cover(element)
        state = .tag
        inTag(byte)
    }

    private mutating func inTag(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: ">"):
            if !isEmptyTag { open() }
            state = .text
        case UInt8(ascii: "/"): isEmptyTag = true
        case UInt8(ascii: "="): (state, attribute) = (.equals, localName())
        case UInt8(ascii: "\""), UInt8(ascii: "'"): startValue(byte)
        case 0...0x20: break
        default:
            if state != .attribute { (state, word) = (.attribute, []) }
            keep(byte)
        }
    }

    /// No name that matters is longer.
    private static let nameBytes = 64

    private mutating func keep(_ byte: UInt8) {
        if word.count < Self.nameBytes { word.append(byte) }
    }

    private func localName() -> String {
        String(decoding: word.split(separator: UInt8(ascii: ":")).last ?? [], as: UTF8.self)
    }

    private mutating func open() {
        if covers.count < Self.depthLimit { covers.append(cover) }
    }

    private mutating func close() {
        _ = covers.popLast()
        state = .text
    }

    // MARK: Attributes

    private mutating func startValue(_ byte: UInt8) {
        state = .value
        quote = byte
        word = []
        isHidingValue =
            covers.last == .everything || isSecret(attribute) || (element == "put" && attribute == "url")
    }

    private mutating func inValue(_ byte: UInt8) -> Bool {
        guard byte == quote else {
            keep(byte)
            return isHidingValue
        }
        reveal()
        let names = (element == "field" && attribute == "var") || (element == "header" && attribute == "name")
        if names, isSecret(String(decoding: word, as: UTF8.self)) { cover = .everything }
        state = .tag
        return false
    }

    // MARK: CDATA and what no stream may have

    private static let cdataStart = Array("[CDATA[".utf8)

    private mutating func inOther(_ byte: UInt8) {
        if matched >= 0, byte == Self.cdataStart[matched] {
            matched += 1
            if matched == Self.cdataStart.count { (state, matched) = (.cdata, 0) }
            return
        }
        matched = -1
        if byte == UInt8(ascii: ">") { state = .text }
    }

    private mutating func inCDATA(_ byte: UInt8) -> Bool {
        if byte == UInt8(ascii: "]") {
            matched = min(2, matched + 1)
        } else {
            if byte == UInt8(ascii: ">"), matched == 2 { state = .text }
            matched = 0
        }
        return isCovered
    }

    // MARK: Names

    private static func cover(_ element: String) -> Cover {
        // The newer profile of SASL puts the address and a token in it.
        if element == "success" { return .text }
        return secretElements.contains(element) ? .everything : .none
    }

    /// Elements that are secrets: of SASL in both profiles, of older logins, of components and of encryption.
    private static let secretElements: Set<String> = [
        "auth", "challenge", "response", "initial-response", "additional-data", "password", "digest",
        "handshake", "token", "secret", "key",
    ]

    /// Words in names of attributes, form fields and headers that hold a secret.
    private static let secretWords = ["password", "passwd", "token", "secret", "authorization", "cookie"]

    /// The treatment of known names; streams use few of them.
    private var judged: [String: Bool] = [:]
    private static let judgedLimit = 256

    private mutating func isSecret(_ name: String) -> Bool {
        if let known = judged[name] { return known }
        let lower = name.lowercased()
        let isSecret = lower == "key" || Self.secretWords.contains { lower.contains($0) }
        if judged.count >= Self.judgedLimit { judged = [:] }
        judged[name] = isSecret
        return isSecret
    }
}
