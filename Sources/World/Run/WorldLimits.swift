import Handlers

/// Limits of PostgreSQL that SQLite does not have, as rules of the tables: what a world does under them costs only what breaks them.
enum WorldLimits {
    /// The most bytes of a row in an index of PostgreSQL (2704), less what its columns and their header take.
    private static let indexBytes = 2600

    /// Makes the rules, once in a database.
    static func make(in step: borrowing Step) throws {
        let isMade = try step.first("SELECT 1 FROM sqlite_schema WHERE type = 'trigger' LIMIT 1") { _ in true
        }
        if isMade == true { return }
        let tables = try step.all(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name"
        ) { $0.text(0) }
        for table in tables {
            let indices = try step.all("SELECT name FROM pragma_index_list('\(table)') ORDER BY name") {
                $0.text(0)
            }
            for index in indices {
                let columns = try step.all("SELECT name FROM pragma_index_info('\(index)')") {
                    $0.optionalText(0)
                }
                try limit(index, of: table, columns.compactMap(\.self), step)
            }
        }
    }

    private static func limit(
        _ index: String, of table: String, _ columns: [String], _ step: borrowing Step
    ) throws {
        let bytes = columns.map { "coalesce(length(CAST(NEW.\($0) AS BLOB)), 0)" }.joined(separator: " + ")
        for event in ["INSERT", "UPDATE"] {
            try step.execute(
                """
                CREATE TRIGGER limit_\(index)_\(event.lowercased()) BEFORE \(event) ON \(table)
                WHEN \(bytes) > \(indexBytes)
                BEGIN SELECT RAISE(ABORT, 'a row of the index \(index) is longer than PostgreSQL takes'); END
                """)
        }
    }
}
