extension SimulatedWorld {
    /// Whether a bit flips at the end of this world.
    var endsWithFlip: Bool { recipe.seed / 16 % 16 == 7 }

    /// The number of events in which the library may find a flipped bit.
    private static let eventsAfterFlip = 2000

    /// Flips a bit of the database or its log after everything has come to rest, and lets the library find it.
    ///
    /// A flip in the database may have three results: a named error, a finding of `PRAGMA integrity_check`, or one differing row.
    ///
    /// SQLite silently ends the log at the first frame with a wrong checksum. So a flip in the log loses all commits from that
    /// frame on. If those commits were already copied into the database, pages of older commits in the log hide the newer ones.
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
        // The library may add to the rows that SQLite alone can read, and may remove none.
        guard violation == nil, let alone, let after = observer.contents(), after.isWhole else { return }
        if let what = alone.missing(in: after) {
            model.fail("after bit \(bit) flipped, the library lost \(what)")
        }
    }

    /// Lets the library's processes work on the damaged database.
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

        /// Classifies what happened to these contents.
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
            // A changed name of a table or column is one changed value of the schema.
            if differing.contains(Self.schema) { return .oneRow }
            let (old, new) = (tables[name, default: []], later.tables[name, default: []])
            let count = zip(old, new).count { $0 != $1 }
            return differing.count == 1 && old.count == new.count && count == 1
                ? .oneRow : .missing("\(count) rows of \(differing.joined(separator: ", ")) differ unnoticed")
        }

        /// Describes rows of the application that `later` lacks; nil if it has all.
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
