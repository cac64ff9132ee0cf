import Handlers

/// A store's database on a server of PostgreSQL, which several machines may have open.
///
/// `@unchecked Sendable`: the connection is used while the store's lock is held, or while the store is opened.
final class PostgresDatabase: StoreDatabase, @unchecked Sendable {
    private let steps: PostgresConnection
    private let options: PostgresSettings
    let readers: ReaderPool

    init(_ options: PostgresSettings) throws(HandlerError) {
        self.options = options
        steps = PostgresConnection(options, isReader: false)
        readers = ReaderPool { isAwaited in
            var options = options
            if !isAwaited { options.outageLimit = .zero }
            return PostgresConnection(options, isReader: true, wasConnected: true)
        }
        // So that a wrong address or a refused server is an error of opening the store.
        _ = try steps.connected()
    }

    var path: String { options.name }
    var filePath: String { "" }
    var connection: any SQLConnection { steps }
    var traits: EngineTraits { .server }

    func migrate(to schemas: [Schema]) throws(HandlerError) -> [String] {
        let schemas = [NodeTable.schema] + schemas
        try Schema.checkModules(of: schemas)
        if try Schema.areCurrent(schemas, in: steps), try MigrationTexts.areKept(schemas, in: steps) {
            return []
        }
        var migrated: [String] = []
        steps.beCareful()
        try steps.beginMaking()
        try steps.rollingBackOnError { () throws(HandlerError) in
            try MoveMark.refuseOld(in: steps)
            // Looks again: another process may have been first.
            migrated = try Schema.migrate(schemas, in: steps)
            try MigrationTexts.keep(schemas, in: steps)
            try steps.commit()
        }
        return migrated
    }

    func takePlace(
        _ recover: (_ slot: Int, _ runningCall: RunningCall?) throws(HandlerError) -> Void
    ) throws(HandlerError) -> any StorePresence {
        let node = try Node(options)
        steps.node = node.loop
        return node
    }

    func prepareRecovery() {}

    func clocks(_ time: TimeSource) -> TimeSource { options.clock.source(time) }

    func settle(in store: HandlerStore) {
        steps.reportLoss = { [weak store] text in store?.report(loss: text) }
        steps.node?.report(to: { [weak store] level, text in store?.report(level, text) })
    }

    var losses: Int { steps.losses }

    func close() { readers.close() }
}
