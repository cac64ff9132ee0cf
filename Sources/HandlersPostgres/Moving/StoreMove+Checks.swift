import Handlers

/// What is looked at before anything is changed.
extension StoreMove {
    /// Checks the store and its modules.
    ///
    /// - Returns: The mark of a move to the same target that was interrupted; nil for a store in use.
    func checkSource() throws -> MoveMark? {
        try Schema.checkModules(of: [.runtime, NodeTable.schema] + schemas)
        let database = try source.reader()
        let connection = database.connection
        try connection.checkIsStore()
        let versions = try Self.versions(in: connection)
        for schema in [.runtime, NodeTable.schema] + schemas {
            try Self.check(schema, versions[schema.module], connection)
        }
        let mark = try MoveMark.find(in: connection)
        if let mark, try mark.hasMoved || mark.target != target.name {
            throw mark.refusal(of: connection.path)
        }
        let known = Set(([.runtime, NodeTable.schema] + schemas).map(\.module))
        let unknown = versions.keys.filter { !known.contains($0) }.sorted()
        guard unknown.isEmpty || takesUnknown else {
            throw HandlerError(
                .databaseForeign,
                "the store \(connection.path) has tables of modules that this program does not know: \(unknown.map(\.string).joined(separator: ", ")); give their schemas to StoreMove, in a program that has them. Nothing was changed"
            )
        }
        try (database as? MovedFile)?.checkIsOriginal()
        return mark
    }

    /// The versions of the modules of a store.
    static func versions(in connection: any SQLConnection) throws(HandlerError) -> [Name: Int] {
        let rows = try connection.allOnce("SELECT module, version FROM module_schema") {
            ($0.foreignText(0), Int($0.integer(1)))
        }
        return Dictionary(rows, uniquingKeysWith: max)
    }

    private static func check(
        _ schema: Schema, _ version: Int?, _ connection: any SQLConnection
    ) throws(HandlerError) {
        guard let version, version != schema.migrations.count else { return }
        let isNewer = version > schema.migrations.count
        throw HandlerError(
            isNewer ? .databaseNewer : .databaseOlder,
            "the tables of module '\(schema.module)' in \(connection.path) have version \(version), and this program knows \(schema.migrations.count); \(isNewer ? "move the store with the newer program" : "start this version of the program with it once, which brings it up to date"). Nothing was changed"
        )
    }
}

extension StoreMove.Place {
    /// Names the place, by which a move that is run again knows it.
    var name: String {
        get throws(HandlerError) {
            switch self {
            case .file(let path): MovedFile.absolute(path)
            case .postgres(let settings):
                try MovedServer(PostgresSettings(settings, durability: nil), isReader: true).name
            }
        }
    }

    /// Whether there is something that can be opened.
    var isThere: Bool {
        guard case .file(let path) = self else { return true }
        return MovedFile.isThere(path)
    }

    /// Opens the database of a store, only to read it.
    func reader() throws(HandlerError) -> any MovedDatabase {
        switch self {
        case .file(let path): try MovedFile(reading: path)
        case .postgres(let settings):
            // A standby may lack what is committed.
            try MovedServer(PostgresSettings(settings, durability: .onPrimary), isReader: false)
        }
    }
}
