/// The difference of a handler from its block in the lock file, and what to do.
struct SignatureDifference {
    let id: Name
    /// The lines in the lock file, and in this program; empty where there is no such handler.
    let locked: [String]
    let present: [String]
    /// The way to update the lock file, as part of a sentence.
    let update: String

    static func all(from locked: SignatureLock, to present: SignatureLock, update: String)
        -> [SignatureDifference]
    {
        Set(locked.blocks.keys).union(present.blocks.keys).sorted().compactMap { id in
            let (old, new) = (locked.blocks[id] ?? [], present.blocks[id] ?? [])
            if old == new { return nil }
            return SignatureDifference(id: id, locked: old, present: new, update: update)
        }
    }

    /// The lines of both, those only in the lock file with `-` and those only in this program with `+`.
    var text: String {
        let mark = locked.isEmpty ? "+" : present.isEmpty ? "-" : " "
        var lines = ["\(mark) handler \(id)"]
        lines += merged.map { "\($0.mark)   \($0.line)" }
        return (lines + ["  \(advice)"]).joined(separator: "\n")
    }

    private var merged: [(mark: String, line: String)] {
        let difference = present.difference(from: locked)
        var lines = locked.map { (mark: " ", line: $0) }
        for case .remove(let offset, let line, _) in difference.removals { lines[offset] = ("-", line) }
        // Offsets of insertions count the lines that are present, so those that are removed are stepped over.
        for case .insert(let offset, let line, _) in difference.insertions {
            let there = lines.indices.filter { lines[$0].mark != "-" }
            lines.insert(("+", line), at: offset < there.count ? there[offset] : lines.endIndex)
        }
        return lines
    }
}

// MARK: - What to do

extension SignatureDifference {
    private var advice: String {
        if locked.isEmpty { return "It is new: \(update)." }
        if present.isEmpty {
            return
                "It is gone, and rows that wait for it would be parked: name its id in the aliases of its successor. "
                + "If no such row can be left, \(update)."
        }
        if let old = version(in: locked), let new = version(in: present), old != new {
            return old < new
                ? "Its version was raised: give an upcast from version \(old), and \(update)."
                : "Its version went back, and rows bound in version \(old) would be parked: write a version above \(old)."
        }
        if let alias = removed.first(where: { $0.hasPrefix("alias ") }) {
            return "Rows that wait under the \(alias) would be parked: put it back. "
                + "If no such row can be left, \(update)."
        }
        if removed.contains(where: { $0.hasPrefix("called with ") }) {
            return
                "It is called with something else now, and what waits to call it has the old: give it another id. "
                + "If no row can be left, \(update)."
        }
        if rowsCanBeRead { return "Rows bound before can still be read: \(update)." }
        return "Rows bound before cannot be read: raise its version and give an upcast, then \(update)."
    }

    private var removed: [String] { locked.filter { !present.contains($0) } }
    private var added: [String] { present.filter { !locked.contains($0) } }

    /// Whether this program reads rows bound as the lock file says, with no upcast and nothing lost: arguments may
    /// have become optional, and others only gone or only come.
    private var rowsCanBeRead: Bool {
        let (old, new) = (removed.compactMap(ArgumentLine.init), added.compactMap(ArgumentLine.init))
        let kept = Set(old.map(\.name)).intersection(new.map(\.name))
        let widened = kept.allSatisfy { name in
            guard let before = old.first(where: { $0.name == name }),
                let after = new.first(where: { $0.name == name })
            else { return false }
            return after.mayBeMissing && before.wrapped == after.wrapped
        }
        let gone = old.filter { !kept.contains($0.name) }
        let come = new.filter { !kept.contains($0.name) }
        // One gone and another come is most likely a new name, whose old value would be lost.
        return widened && come.allSatisfy(\.mayBeMissing) && (gone.isEmpty || come.isEmpty)
    }

    private func version(in lines: [String]) -> Int? {
        lines.first { $0.hasPrefix("version ") }.flatMap { Int($0.dropFirst("version ".count)) }
    }
}

/// `argument tries: Int? (has a default)`.
private struct ArgumentLine {
    private static let fallback = " (has a default)"

    let name: String
    let mayBeMissing: Bool
    /// The type without `?`.
    let wrapped: String

    init?(_ line: String) {
        let parts = line.split(separator: ": ", maxSplits: 1)
        guard line.hasPrefix("argument "), parts.count == 2 else { return nil }
        name = String(parts[0].dropFirst("argument ".count))
        var type = String(parts[1])
        let hasDefault = type.hasSuffix(Self.fallback)
        if hasDefault { type.removeLast(Self.fallback.count) }
        mayBeMissing = hasDefault || type.hasSuffix("?")
        wrapped = type.hasSuffix("?") ? String(type.dropLast()) : type
    }
}
