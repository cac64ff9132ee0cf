import Handlers
import Platform

/// The store that is left, open like any other process has it, so that processes see each other.
struct MoveSource {
    /// How long a machine may take to be noticed that has died.
    private static let patience = Duration.seconds(5)

    private let place: StoreMove.Place
    private let schemas: [Schema]
    private let store: HandlerStore

    init(_ place: StoreMove.Place, schemas: [Schema]) throws {
        self.place = place
        let versions = try StoreMove.versions(in: place.reader().connection)
        // Others would be made.
        let schemas = schemas.filter { versions[$0.module] != nil }
        self.schemas = schemas
        store =
            switch place {
            case .file(let path):
                try HandlerStore(
                    path: path, registry: HandlerRegistry(), schemas: schemas, role: .main,
                    synchronous: .full,
                    busyTimeout: .seconds(5), time: .system, log: nil, system: SystemServices(), toMove: true)
            case .postgres(let settings):
                try HandlerStore(
                    PostgresDatabase(PostgresSettings(settings, durability: .onPrimary)),
                    registry: HandlerRegistry(), schemas: schemas, role: .main, time: .system, log: nil,
                    system: SystemServices(), toMove: true)
            }
        try checkIsAlone(patience: Self.patience)
    }

    /// Marks the store, and removes from it what belongs to its place. From then on no program opens it.
    func leave(with mark: MoveMark) throws {
        try store.step { step in
            for schema in schemas { try schema.leave?(step, store.filePath) }
            try step.freeAll()
            try MoveMark.set(mark, in: step)
        }
        // One that was opened meanwhile sees the mark, or is seen here.
        try checkIsAlone(patience: .zero)
    }

    /// Marks the store, or gives it back.
    func set(_ mark: MoveMark?) throws { try store.step { try MoveMark.set(mark, in: $0) } }

    /// Opens its rows for reading, as they are now.
    func reader() throws(HandlerError) -> any MovedDatabase {
        let reader = try place.reader()
        try reader.connection.beginReading()
        return reader
    }

    private func checkIsAlone(patience: Duration) throws {
        let end = ContinuousClock.now + patience
        while true {
            let others = try others()
            if others.isEmpty { return }
            // Processes on this machine are seen as they are.
            guard case .postgres = place, ContinuousClock.now < end else {
                throw HandlerError(
                    .databaseLocked,
                    "the store \(store.path) is open elsewhere: \(others.joined(separator: ", ")); end every program that has it open, then move it. Nothing was changed"
                )
            }
            SystemThread.sleep(microseconds: 100_000)
            try store.recoverDead()
        }
    }

    /// The processes and machines that have the store open, too.
    private func others() throws -> [String] {
        switch place {
        case .file(let path):
            StoreProcess.all(of: path).filter { $0.slot != store.slotNumber }.map {
                "process \($0.processID ?? 0)"
            }
        case .postgres:
            try store.read { snapshot in try NodeTable.nodes(in: snapshot) }.filter {
                $0.slot != store.slotNumber
            }.map { "node \($0.slot)\($0.address.map { " at \($0)" } ?? "")" }
        }
    }
}

/// The database to which a store is moved.
struct MoveTarget {
    let place: StoreMove.Place
    let name: String
    let database: any MovedDatabase

    init(_ place: StoreMove.Place, _ durability: PostgresDurability?) throws {
        self.place = place
        switch place {
        case .file(let path): database = try MovedFile(writing: path)
        case .postgres(let settings):
            database = try MovedServer(
                PostgresSettings(settings, durability: durability ?? .onPrimary), isReader: false)
        }
        name = try (database as? MovedServer)?.name ?? place.name
    }

    /// The number of the move that has brought its store; nil for none.
    var move: String? {
        get throws(HandlerError) {
            let versions = try StoreMove.versions(in: database.connection)
            guard versions[Schema.runtime.module] == Schema.runtime.migrations.count else { return nil }
            return try database.connection.firstOnce("SELECT move FROM place") { $0.optionalText(0) } ?? nil
        }
    }

    /// Commits something, so that all that was committed before is as durable.
    func commitAgain() throws(HandlerError) {
        try database.connection.write("UPDATE place SET move = move", binding: [])
        try database.connection.commit()
    }

    func holdsStore() throws(HandlerError) -> HandlerError {
        let mark = try move == nil ? nil : MoveMark.find(in: database.connection)
        let what = mark.map { "a store that was moved to \($0.target)" } ?? "a store"
        return HandlerError(
            .databaseForeign,
            "\(name) holds \(what) already; name a database without one. Nothing was changed")
    }

    /// Refuses a path at which an earlier store has left what would be taken for that of this one.
    func checkIsUnused() throws(HandlerError) {
        guard case .file(let path) = place, MovedFile.isThere(path + "-owners") else { return }
        throw HandlerError(
            .databaseForeign,
            "\(path)-owners is left of an earlier store, and says what its accounts have sent; remove it, or name another path. Nothing was changed"
        )
    }
}
