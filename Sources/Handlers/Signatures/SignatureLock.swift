/// The text of a lock file: one block for each handler, sorted.
struct SignatureLock: Equatable {
    private static let header = """
        # The stored handlers of this program: rows that wait in a database depend on every line.
        # Made by HandlerRegistry.writeSignatures(to:of:) and to be committed.
        """

    /// The lines of each handler by its id.
    private(set) var blocks: [Name: [String]] = [:]

    init(_ signatures: [HandlerSignature]) {
        self.init(signatures.map(\.description).joined(separator: "\n"))
    }

    /// Reads a file; everything before the first handler and lines that start with `#` are comments.
    init(_ text: String) {
        var id: Name?
        for line in text.split(whereSeparator: \.isNewline) where !line.hasPrefix("#") {
            if line.hasPrefix("handler ") {
                id = Name(String(line.dropFirst("handler ".count)))
            } else if let id {
                blocks[id, default: []].append(String(line.drop { $0 == " " }))
            }
        }
    }

    var text: String {
        let handlers = blocks.sorted { $0.key < $1.key }.map { id, lines in
            (["handler \(id)"] + lines.map { "  " + $0 }).joined(separator: "\n")
        }
        return ([Self.header] + handlers).joined(separator: "\n\n") + "\n"
    }
}
