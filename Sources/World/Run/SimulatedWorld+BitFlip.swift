extension SimulatedWorld {
    /// Whether a bit flips at the end of this world.
    var endsWithFlip: Bool { recipe.seed / 16 % 16 == 7 }

    /// The events that the library has for finding a flipped bit.
    private static let eventsAfterFlip = 2000

    /// Flips a bit of the database or its log after everything has come to rest, and lets the library find it.
    ///
    /// Only three things may follow: a named error, a finding of `PRAGMA integrity_check`, or one row that differs.
    ///
    /// SQLite ends the log at the first frame that does not fit its checksum, without a word. So a bit of the log takes the commits
    /// from there on; where they were copied into the database already, pages of older commits in the log hide newer ones.
    func flipBit() {
        for process in processes { kill(process) }
        guard violation == nil, let before = observer.contents() else { return }
        observer.close()
        let log = Self.path + "-wal"
        let isOfLog = disk.size(of: log) > 0 && Bool.random(using: &random)
        let bit = disk.flipBit(of: isOfLog ? log : Self.path) ?? 0
        isFlipped = true
        note("bit \(bit) of \(isOfLog ? "the log" : "the database") flips")
        let alone = observer.contents()
        let outcome = before.outcome(alone, isOfLog: isOfLog)
        note("found alone: \(outcome)")
        if case .missing(let what) = outcome { return model.fail("after bit \(bit) flipped, \(what)") }
        meetFlip()
        // The library may add to what SQLite alone can read, and takes nothing of it.
        guard violation == nil, let alone, let after = observer.contents(), after.isWhole else { return }
        if let what = alone.missing(in: after) {
            model.fail("after bit \(bit) flipped, the library lost \(what)")
        }
    }

    /// Lets a process work on the database.
    private func meetFlip() {
        let last = events + Self.eventsAfterFlip
        startsAt = clock.now
        while violation == nil, events < last, step(until: .max) {}
        for process in processes { kill(process) }
    }
}

extension Observer {
    /// The rows of all tables.
    struct Contents {
        var tables: [String: [[String]]] = [:]
        /// Whether `PRAGMA integrity_check` finds nothing.
        var isWhole = false

        enum Outcome {
            case unreadable, found, same, oneRow, older
            case missing(String)
        }

        static let schema = "sqlite_schema"
        private static let application = ["world_bound", "world_ended", "world_received"]

        /// What became of these contents.
        ///
        /// - Parameter later: The contents now; nil if they cannot be read.
        func outcome(_ later: Contents?, isOfLog: Bool) -> Outcome {
            guard let later else { return .unreadable }
            guard later.isWhole else { return .found }
            if isOfLog {
                let new = later.missing(in: self)
                return new.map { .missing("the store has \($0) that it never had") } ?? .older
            }
            let names = Set(tables.keys).union(later.tables.keys).sorted()
            let differing = names.filter { tables[$0] != later.tables[$0] }
            guard let name = differing.first else { return .same }
            // A table with another name, or with columns of other names, is one value of the schema.
            if differing.contains(Self.schema) { return .oneRow }
            let (old, new) = (tables[name, default: []], later.tables[name, default: []])
            let count = zip(old, new).count { $0 != $1 }
            return differing.count == 1 && old.count == new.count && count == 1
                ? .oneRow : .missing("\(count) rows of \(differing.joined(separator: ", ")) differ unnoticed")
        }

        /// Rows of the application that others do not have.
        func missing(in later: Contents) -> String? {
            for name in Self.application {
                let rows = Set(later.tables[name, default: []])
                let missing = tables[name, default: []].filter { !rows.contains($0) }
                if !missing.isEmpty { return "\(missing.count) rows of \(name)" }
            }
            return nil
        }
    }
}
