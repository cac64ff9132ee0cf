import Platform
import Synchronization

extension PostgresServer {
    /// The server that the tests of this process share, started at its first use. Each test makes a database of its own.
    package static var shared: PostgresServer {
        get throws(TestServerError) { try started.get() }
    }

    private static let started = Result { () throws(TestServerError) -> PostgresServer in
        let server = try PostgresServer()
        try server.start()
        return server
    }

    /// Makes a database, empty unless a template is named.
    ///
    /// It is written to the log (`STRATEGY = WAL_LOG`, PostgreSQL's default): 20 ms on a quiet machine, 120 ms on a busy one. A copy
    /// of files takes two checkpoints, 40 ms and 180 ms.
    /// - Parameter template: The database to copy, to which no session is open.
    /// - Throws: ``TestServerError`` `refused`.
    package func makeDatabase(from template: String = "template0") throws(TestServerError) -> TestDatabase {
        let number = databases.withLock { number in
            number += 1
            return number
        }
        let name = "test_\(number)"
        try query("CREATE DATABASE \(name) TEMPLATE \(template)")
        return TestDatabase(name: name, server: self)
    }

    /// Runs SQL through `psql`, in one transaction if it consists of several statements.
    ///
    /// - Returns: The rows as lines, their columns separated by `|`.
    /// - Throws: ``TestServerError`` `refused` with the error of the server.
    @discardableResult
    package func query(
        _ sql: String, in database: String = "postgres", over route: Route = .socket
    ) throws(TestServerError) -> String {
        let words = ["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]
        let connection = connection(to: database, over: route)
        let output = try installation.run(
            "psql", words + ["--dbname=\(connection)", "--command=\(sql)"], isClient: true, in: folder
        ).output
        return output.hasSuffix("\n") ? String(output.dropLast()) : output
    }
}

/// A database of a ``PostgresServer``, which is dropped with its last reference.
package final class TestDatabase: Sendable {
    /// Its name.
    package let name: String
    /// Its server.
    package let server: PostgresServer

    init(name: String, server: PostgresServer) {
        self.name = name
        self.server = server
    }

    deinit {
        // A test may have ended the server.
        if server.processID != nil { _ = try? server.query("DROP DATABASE \(name) WITH (FORCE)") }
    }

    /// Returns its connection string, as libpq takes it.
    package func connection(over route: PostgresServer.Route = .socket) -> String {
        server.connection(to: name, over: route)
    }

    /// Runs SQL through `psql`, as ``PostgresServer/query(_:in:over:)`` does.
    @discardableResult
    package func query(_ sql: String) throws(TestServerError) -> String {
        try server.query(sql, in: name)
    }
}
