package import XMPPTestKit

/// The options of a ``PostgresServer`` that tests vary.
package struct PostgresOptions: Hashable, Sendable {
    /// Whether commits reach the disk (`fsync`). Without it, data survives the death of all processes, and not that of the machine.
    package var fsync = true
    /// Settings that are added or replaced, by name; the values are not quoted.
    package var settings: [String: String] = [:]
    /// The certificate for ``PostgresServer/Route/tls(authorityFile:)``, which must be for `localhost`; nil for no TLS.
    package var certificate: TestCertificates.ServerCertificate?

    /// Another address of this machine, such as `198.18.0.1`, at which it listens, too, for clients of whatever address.
    package var address: String?

    /// How clients over TCP show who they are: a method of `pg_hba.conf`.
    package var method = "scram-sha-256"
    /// The language of its messages, such as `de`; nil for English. Its texts must be installed.
    package var language: String?

    /// Makes the default options.
    package init() {}

    /// Returns the text of `postgresql.conf`.
    ///
    /// - Parameters:
    ///   - standbys: The names of the standbys that must have a commit before it is acknowledged.
    ///   - awaited: How many of these; nil for all.
    ///   - primary: The server that this one follows, and its own name there; nil for none.
    func configuration(
        of server: PostgresServer, standbys: [String], awaited: Int?,
        primary: (connection: String, name: String)?
    ) -> String {
        var all = [
            "listen_addresses": (["127.0.0.1"] + [address].compactMap(\.self)).joined(separator: ","),
            "port": "\(server.port)",
            "unix_socket_directories": server.folder, "external_pid_file": "",
            "fsync": fsync ? "on" : "off", "synchronous_commit": "on",
            "synchronous_standby_names": Self.synchronousStandbys(standbys, awaited),
            "wal_level": "replica", "hot_standby": "on", "wal_retrieve_retry_interval": "200ms",
            "primary_conninfo": primary.map { "\($0.connection) application_name=\($0.name)" } ?? "",
            "primary_slot_name": primary?.name ?? "",
            // Other kinds of shared memory remain after SIGKILL, until the machine restarts.
            "dynamic_shared_memory_type": "mmap",
            // A locale for which gettext looks at LANGUAGE.
            "lc_messages": language == nil ? "C" : "C.utf8",
            "log_line_prefix": "%m [%p] %a ", "log_timezone": "UTC", "timezone": "UTC",
        ]
        if certificate != nil {
            all["ssl"] = "on"
            all["ssl_cert_file"] = server.certificateFile
            all["ssl_key_file"] = server.keyFile
        }
        all.merge(settings) { _, added in added }
        return all.sorted { $0.key < $1.key }.map { "\($0.key) = \(Self.quoted($0.value))\n" }.joined()
    }

    /// The text of `pg_hba.conf`: no password through the socket, whose folder is closed to others, and SCRAM over TCP.
    var authentication: String {
        """
        local all         all              trust
        local replication all              trust
        host  all         all 127.0.0.1/32 \(method)
        host  replication all 127.0.0.1/32 scram-sha-256
        \(address == nil ? "" : "host all all 0.0.0.0/0 \(method)")

        """
    }

    private static func synchronousStandbys(_ names: [String], _ awaited: Int?) -> String {
        if names.isEmpty { return "" }
        return "FIRST \(awaited ?? names.count) (\(names.map { "\"\($0)\"" }.joined(separator: ", ")))"
    }

    /// A text literal of the configuration file.
    static func quoted(_ text: String) -> String {
        "'" + text.replacing("\\", with: "\\\\").replacing("'", with: "''") + "'"
    }
}
