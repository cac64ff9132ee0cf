package import Handlers

/// The store that `--store` names: a file, or a database of PostgreSQL.
package struct StoreAddress {
    package let text: String

    package init(_ text: String) { self.text = text }

    /// Whether it is a connection string of libpq: a URI, or words such as `host=pg1 dbname=bots`. A path that looks like one is written
    /// `./path`.
    package var isPostgres: Bool {
        if text.hasPrefix("postgres://") || text.hasPrefix("postgresql://") { return true }
        guard let first = text.first, first != "/", first != "." else { return false }
        return text.contains(
            #/(^|\s)(host|hostaddr|port|dbname|user|password|passfile|service)\s*=/#)
    }

    /// A word of a command line as errors show it: a connection string may hold a password.
    static func shown(_ word: String) -> String {
        StoreAddress(word).isPostgres ? "a connection string" : "'\(word)'"
    }
}

/// How commands open a store: `pushwake` opens files, and `pushwake-postgres`, which links libpq, databases of PostgreSQL.
package struct StoreOpener: Sendable {
    let reader: @Sendable (_ store: String, [Schema]) throws -> StoreReader
    let store: @Sendable (_ store: String, HandlerRegistry) throws -> HandlerStore

    package init(
        reader: @escaping @Sendable (_ store: String, [Schema]) throws -> StoreReader,
        store: @escaping @Sendable (_ store: String, HandlerRegistry) throws -> HandlerStore
    ) {
        (self.reader, self.store) = (reader, store)
    }

    static let file = StoreOpener(
        reader: { StoreReader(path: $0, schemas: $1) }, store: { try HandlerStore(path: $0, registry: $1) })
}
