import XMPPCore

/// The elements that clients of the legacy version write in clear beside `<encrypted/>`, and expect there.
///
/// These clients encrypt the text and nothing else. Ids of other messages, requests for receipts and chat states are
/// therefore readable for servers, which can also add, change and remove them. Nothing that says what was written is among
/// them: no text, no link, no reaction.
enum OmemoBeside {
    /// Returns what is written in clear for the readers of the legacy version.
    ///
    /// - Parameter content: The content.
    /// - Returns: The elements; nil if these readers would lose something that the content says.
    static func elements(of content: OmemoContent) -> [Element]? {
        guard let body = content.body else { return nil }
        var beside: [Element] = []
        for element in content.elements {
            if isInClear(element) {
                beside.append(element)
            } else if !isLink(element, in: body) {
                return nil
            }
        }
        return beside
    }

    /// Returns what a received message has in clear beside the legacy version's `<encrypted/>`.
    ///
    /// - Parameters:
    ///   - message: The message as it came.
    ///   - body: The decrypted text.
    static func elements(of message: Message, body: ForeignText?) -> [Element] {
        message.element.elements.filter { element in
            guard isInClear(element) else { return false }
            return element.namespace != Namespaces.fallback || hidesQuotesOnly(element, in: body)
        }
    }

    private static func isInClear(_ element: Element) -> Bool {
        switch (element.name, element.namespace) {
        case ("replace", Namespaces.correction), ("reply", Namespaces.replies),
            ("request", Namespaces.receipts),
            ("markable", Namespaces.markers), ("thread", Namespaces.client):
            true
        case ("fallback", Namespaces.fallback): element["for"] == ForeignText(Namespaces.replies)
        case (_, Namespaces.chatStates): true
        default: false
        }
    }

    /// A server could otherwise hide words of the encrypted text: "I do not agree".
    ///
    /// - Returns: Whether all that the fallback may hide are whole lines of quotes, as XEP-0461 section 3.1 writes them.
    private static func hidesQuotesOnly(_ element: Element, in body: ForeignText?) -> Bool {
        guard let body, let fallback = try? MessageFallback(element), !fallback.regions.isEmpty else {
            return false
        }
        let text = Array(body.string.unicodeScalars)
        return fallback.regions.allSatisfy { region in
            guard case .body(let range?) = region, range.lowerBound == 0, range.upperBound <= text.count
            else {
                return false
            }
            let lines = text[range].split(separator: "\n", omittingEmptySubsequences: false)
            let isLineEnd = text[range].last == "\n"
            guard isLineEnd || range.upperBound == text.count else { return false }
            return lines.dropLast(isLineEnd ? 1 : 0).allSatisfy { $0.first == ">" }
        }
    }

    /// Whether an element says no more than the link in the text, from which clients of the legacy version take files. In
    /// clear it would show the link, which may contain the key of the file (XEP-0454).
    private static func isLink(_ element: Element, in body: ForeignText) -> Bool {
        let isFile =
            element.has(name: "x", namespace: Namespaces.outOfBand)
            || element.has(name: "file-sharing", namespace: Namespaces.fileSharing)
        guard isFile else { return false }
        let body = body.string
        let links = links(in: element)
        return !links.isEmpty && links.allSatisfy { body.contains($0) }
    }

    /// The links without their schemes: that of an encrypted file is `aesgcm:` in the text.
    private static func links(in element: Element) -> [Substring] {
        var found = element.elements.flatMap { links(in: $0) }
        let link = element.name == "url" ? element.text : element["target"]
        if let text = link?.string, let start = text.firstRange(of: "://")?.upperBound {
            found.append(text[start...])
        }
        return found
    }
}
