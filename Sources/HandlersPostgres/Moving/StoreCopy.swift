import Handlers

/// The copy of all rows of a store within one transaction of the target, and their comparison.
struct StoreCopy {
    /// A table on both sides, with its columns in one order.
    struct Pair {
        let source, target: MovedTable
        let sourceColumns: [String]
        let targetColumns: [MovedTable.Column]
    }

    private let source: any MovedDatabase
    private let target: any MovedDatabase
    private let mark: MoveMark
    private let move: StoreMove

    /// What has a row of its own in each database.
    private static let ownTables: Set<String> = ["place", "module_schema"]

    init(
        from source: any MovedDatabase, to target: any MovedDatabase, _ mark: MoveMark, _ move: StoreMove
    ) {
        (self.source, self.target, self.mark, self.move) = (source, target, mark, move)
    }

    func run(_ progress: (StoreMove.Progress) -> Void) throws -> StoreMove.Summary {
        let pairs = try copyAll(progress)
        return try compareAll(pairs, progress)
    }

    /// The number of rows after which progress is reported.
    private static let progressStep = 1000

    /// Makes all tables, and copies their rows.
    func copyAll(_ progress: (StoreMove.Progress) -> Void) throws -> [Pair] {
        let pairs = try makeTables()
        let tables = pairs.map(\.target)
        try target.startCopying(to: tables)
        // What migrations have inserted is in the store, or was deleted there.
        for table in tables {
            _ = try target.connection.execute("DELETE FROM \(MovedTable.quoted(table.name))", binding: [])
        }
        var done = StoreMove.Progress(all: try pairs.reduce(0) { try $0 + count(of: $1.source) })
        for pair in pairs {
            try copy(pair) {
                done.rows += 1
                if done.rows % Self.progressStep == 0 { progress(done) }
            }
        }
        try target.endCopying(to: tables)
        try copyPlace()
        for pair in pairs { try continueIDs(of: pair) }
        return pairs
    }

    /// Compares the rows of both sides, one by one, with the types of their values.
    func compareAll(_ pairs: [Pair], _ progress: (StoreMove.Progress) -> Void) throws -> StoreMove.Summary {
        var done = StoreMove.Progress(
            isComparing: true, all: try pairs.reduce(0) { try $0 + count(of: $1.source) })
        for pair in pairs {
            try compare(pair) {
                done.rows += 1
                if done.rows % Self.progressStep == 0 { progress(done) }
            }
        }
        progress(done)
        return StoreMove.Summary(tables: pairs.count, rows: done.rows)
    }

    // MARK: Tables

    /// Makes the tables, and finds each on both sides.
    private func makeTables() throws -> [Pair] {
        let before = Set(try target.tables().map { $0.name.lowercased() })
        let triggersBefore = Set(try target.triggersAndViews())
        let versions = try StoreMove.versions(in: source.connection)
        try target.make([.runtime] + move.schemas.filter { versions[$0.module] != nil })
        let left = try source.tables().filter { !Self.ownTables.contains($0.name.lowercased()) }
        var made = try madeTables(besides: before)
        let unknown = left.map(\.name).filter { made[$0.lowercased()] == nil }
        if !unknown.isEmpty {
            try makeUnknown(unknown, versions)
            made = try madeTables(besides: before)
        }
        try checkTriggersAndViews(besides: triggersBefore)
        let known = Set(left.map { $0.name.lowercased() })
        if let extra = made.keys.first(where: { !known.contains($0) }) { throw misfit(extra, "is missing") }
        return try left.map { table in
            guard let other = made[table.name.lowercased()] else {
                throw misfit(table.name, "is made by no migration of a module")
            }
            return try pair(table, other)
        }
    }

    private func madeTables(besides before: Set<String>) throws -> [String: MovedTable] {
        let tables = try target.tables().map { ($0.name.lowercased(), $0) }
        return Dictionary(tables, uniquingKeysWith: { first, _ in first }).filter {
            !before.contains($0.key) && !Self.ownTables.contains($0.key)
        }
    }

    /// Makes tables as they are in the store that is left.
    private func makeUnknown(_ tables: [String], _ versions: [Name: Int]) throws {
        guard move.takesUnknown else { throw misfit(tables[0], "is made by no migration of a module") }
        let known = try StoreMove.versions(in: target.connection)
        let modules = versions.filter { known[$0.key] == nil && $0.key != NodeTable.schema.module }
        guard
            let scripts = try source.scripts(
                of: Set(tables), modules, withTriggers: target is MovedFile)
        else {
            throw HandlerError(
                .databaseForeign,
                "the tables \(tables.joined(separator: ", ")) in \(source.connection.path) are of modules that this program does not know (\(modules.keys.sorted().map(\.string).joined(separator: ", "))), and the texts of their migrations are not there; start their program with the store once, which keeps them, or have it move the store with StoreMove. Nothing was changed"
            )
        }
        try target.make(scripts, ofFile: source is MovedFile)
        for (module, version) in modules {
            try target.connection.executeOnce(
                "INSERT INTO module_schema(module, version) VALUES (?, ?)", [module, version])
        }
    }

    /// Refuses to leave behind what works on rows without being one.
    private func checkTriggersAndViews(besides before: Set<String>) throws {
        let made = Set(try target.triggersAndViews()).subtracting(before).map { $0.lowercased() }
        guard let lost = try source.triggersAndViews().first(where: { !made.contains($0.lowercased()) })
        else {
            return
        }
        throw HandlerError(
            .databaseForeign,
            "the trigger or view '\(lost)' of \(source.connection.path) is made by no migration that this program knows, so it would be missing; have the program that makes it move the store with StoreMove, or drop it. Nothing was changed"
        )
    }

    private func misfit(_ table: String, _ what: String) -> HandlerError {
        HandlerError(
            .databaseForeign,
            "the table '\(table)' of \(source.connection.path) \(what), so it cannot be moved as it is; make it in the schema of a module. Nothing was changed"
        )
    }

    private func pair(_ source: MovedTable, _ target: MovedTable) throws(HandlerError) -> Pair {
        let columns = Dictionary(
            target.columns.map { ($0.name.lowercased(), $0) }, uniquingKeysWith: { first, _ in first })
        let found = source.columns.compactMap { columns[$0.name.lowercased()] }
        guard found.count == source.columns.count, found.count == target.columns.count else {
            throw misfit(source.name, "has other columns than the migrations make")
        }
        return Pair(
            source: source, target: target, sourceColumns: source.columns.map(\.name), targetColumns: found)
    }

    // MARK: Rows

    private func count(of table: MovedTable) throws(HandlerError) -> Int {
        try source.connection.firstOnce("SELECT count(*) FROM \(MovedTable.quoted(table.name))") {
            Int($0.integer(0))
        } ?? 0
    }

    private func copy(_ pair: Pair, _ countRow: () -> Void) throws {
        let columns = pair.targetColumns.map { MovedTable.quoted($0.name) }.joined(separator: ", ")
        let places = pair.targetColumns.map { _ in "?" }.joined(separator: ", ")
        let insert = "INSERT INTO \(MovedTable.quoted(pair.target.name))(\(columns)) VALUES (\(places))"
        let rows = try source.rows(of: pair.source, columns: pair.sourceColumns)
        var count = 0
        while let row = try rows.next() {
            count += 1
            var values: [SQLValue] = []
            for (value, column) in zip(row, pair.targetColumns) {
                guard let value else {
                    throw refusal(pair, column.name, row, count, "is a text that is no UTF-8")
                }
                if let reason = target.refusal(of: value, in: column) {
                    throw refusal(pair, column.name, row, count, reason)
                }
                values.append(value)
            }
            try target.connection.write(insert, binding: values)
            try MoveFailpoint.copied.hit()
            countRow()
        }
    }

    private func compare(_ pair: Pair, _ countRow: () -> Void) throws {
        let left = try source.rows(of: pair.source, columns: pair.sourceColumns)
        let order = Set(pair.source.order.map { $0.name.lowercased() })
        let arrived = MovedTable(
            name: pair.target.name,
            // By the same columns, in the same order.
            columns: pair.source.columns.enumerated().compactMap { index, column in
                guard order.contains(column.name.lowercased()) else { return nil }
                let other = pair.targetColumns[index]
                return MovedTable.Column(
                    name: other.name, type: other.type, isKey: true, isIdentity: other.isIdentity)
            })
        let moved = try target.rows(of: arrived, columns: pair.targetColumns.map(\.name))
        var count = 0
        while true {
            let (row, other) = (try left.next(), try moved.next())
            guard row != nil || other != nil else { return }
            count += 1
            guard let row, let other else {
                throw HandlerError(
                    .sql,
                    "the table '\(pair.source.name)' does not have as many rows in \(target.connection.path) as in \(source.connection.path) (row \(count) is on one side alone); the move is given up, and the store is as it was"
                )
            }
            for (index, column) in pair.sourceColumns.enumerated()
            where !Self.areSame(row[index], other[index]) {
                throw refusal(pair, column, row, count, "is not stored as it is")
            }
            countRow()
        }
    }

    /// Whether two values have the same type and the same bits.
    private static func areSame(_ one: SQLValue?, _ other: SQLValue?) -> Bool {
        switch (one, other) {
        case (.real(let one), .real(let other)): one.bitPattern == other.bitPattern
        case (.text(let one), .text(let other)): one.utf8.elementsEqual(other.utf8)
        default: one != nil && one == other
        }
    }

    private func refusal(
        _ pair: Pair, _ column: String, _ row: [SQLValue?], _ number: Int, _ reason: String
    ) -> HandlerError {
        HandlerError(
            .argumentNotEncodable,
            "\(target.connection.path) cannot hold the column '\(column)' of the table '\(pair.source.name)' in \(name(of: row, number, in: pair.source)): the value \(reason); change it, then move the store. It is as it was"
        )
    }

    /// Names a row by its key.
    private func name(of row: [SQLValue?], _ number: Int, in table: MovedTable) -> String {
        let keys = zip(table.columns, row).filter(\.0.isKey).map { column, value in
            switch value {
            case .integer(let integer): "\(column.name) = \(integer)"
            case .text(let text): "\(column.name) = '\(text.prefix(60))'"
            default: "\(column.name) of another type"
            }
        }
        return keys.isEmpty ? "row \(number)" : "the row with \(keys.joined(separator: ", "))"
    }

    // MARK: What goes on

    /// Has new rows get ids after the highest that was given, also to rows that were deleted.
    private func continueIDs(of pair: Pair) throws {
        guard let column = pair.target.columns.first(where: \.isIdentity) else { return }
        let highest =
            try target.connection.firstOnce(
                "SELECT coalesce(max(\(MovedTable.quoted(column.name))), 0) FROM \(MovedTable.quoted(pair.target.name))"
            ) { $0.integer(0) } ?? 0
        let newest = max(try source.newestID(of: pair.source), highest)
        guard newest > 0 else { return }
        try target.raiseNewestID(of: pair.target, to: newest)
        guard try target.newestID(of: pair.target) >= newest else {
            throw HandlerError(
                .sql,
                "\(target.connection.path) would give ids of the table '\(pair.target.name)' again; the move is given up, and the store is as it was"
            )
        }
    }

    /// Copies how often the store was a copy, which sessions and ratchets compare, and no fact of its place.
    private func copyPlace() throws {
        let copies = try source.connection.firstOnce("SELECT copies FROM place") { $0.integer(0) }
        try target.connection.executeOnce(
            "UPDATE place SET inode = NULL, boot = NULL, copies = ?, move = ?, moves_to = NULL, has_moved = 0",
            [copies, mark.move])
        try target.settlePlace()
        let stored = try target.connection.firstOnce("SELECT copies, move FROM place") {
            ($0.integer(0), $0.text(1))
        }
        guard let stored, let copies, stored == (copies, mark.move) else {
            throw misfit("place", "has no row")
        }
    }
}
