import Foundation

/// The rights that a role needs, as docs/reference/postgres.md lists them.
package enum GrantedRights {
    /// Returns the statements that give a kind of role its rights.
    ///
    /// - Parameters:
    ///   - kind: The word after `grants:` in the page: `program`, `worker`, `inspect` or `backup`.
    ///   - name: What replaces `bots`, the name of the database, of its schema and of its owner, and the start of the other roles.
    /// - Throws: An error of Foundation when the page cannot be read.
    package static func statements(_ kind: String, for name: String) throws -> String {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let page = try String(
            contentsOf: root.appending(path: "docs/reference/postgres.md"), encoding: .utf8)
        let parts = page.components(separatedBy: "<!-- grants: \(kind) -->\n```\n")
        guard parts.count == 2, let block = parts[1].components(separatedBy: "\n```").first else { return "" }
        return block.replacing("bots", with: name)
    }
}
