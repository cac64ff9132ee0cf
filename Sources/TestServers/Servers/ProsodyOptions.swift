/// The options of a ``ProsodyServer`` that tests vary.
package struct ProsodyOptions: Hashable, Sendable {
    /// The hash of stored passwords, which decides the SASL mechanisms offered.
    package enum PasswordHash: String, Hashable, Sendable {
        /// SCRAM-SHA-1 and SCRAM-SHA-1-PLUS.
        case sha1 = "SHA-1"
        /// SCRAM-SHA-256 and SCRAM-SHA-256-PLUS.
        case sha256 = "SHA-256"
    }

    /// The time for which a lost session can be resumed (XEP-0198), in whole seconds, at least 1.
    package var hibernation: Duration = .seconds(600)
    /// The hash of stored passwords.
    package var passwordHash: PasswordHash = .sha256
    /// The maximum number of unacknowledged stanzas that the server keeps for a session.
    package var queueSize = 100_000
    /// Modules beyond the usual ones.
    package var addedModules: [String] = []
    /// The usual modules to leave out.
    package var removedModules: Set<String> = []
    /// External components (XEP-0114) that may connect, as secrets by domain.
    package var components: [String: String] = [:]
    /// The maximum size of an uploaded file in bytes (XEP-0363); nil for no upload service.
    package var largestUpload: Int?
    /// Lua text that is added to the global section unchanged.
    package var addedConfiguration = ""

    /// Makes the default options.
    package init() {}

    /// The features that current clients use. `limits` is left out: it would throttle each client to 10 kB/s.
    package static let usualModules = [
        "admin_shell", "blocklist", "bookmarks", "carbons", "cloud_notify", "csi_simple", "disco", "mam",
        "offline", "pep", "ping", "private", "register", "roster", "sasl2", "sasl2_bind2", "sasl2_fast",
        "sasl2_sm", "saslauth", "smacks", "time", "tls", "uptime", "vcard4", "vcard_legacy", "version",
    ]

    func configuration(of server: ProsodyServer) -> String {
        let modules = Self.usualModules.filter { !removedModules.contains($0) } + addedModules
        let external = components.sorted { $0.key < $1.key }.map { name, secret in
            "Component \(Self.quoted(name))\n    component_secret = \(Self.quoted(secret))\n"
        }
        let upload = largestUpload.map { size in
            """
            Component \(Self.quoted("upload." + server.domain)) "http_file_share"
                http_host = \(Self.quoted(server.domain))
                http_external_url = "https://\(server.domain):\(server.webPort)/"
                http_file_share_size_limit = \(size)
                http_file_share_daily_quota = \(size * 1000)
            """
        }
        return """
            run_as_root = true
            pidfile = \(Self.quoted(server.folder + "/prosody.pid"))
            data_path = \(Self.quoted(server.folder + "/data"))
            admin_socket = \(Self.quoted(server.folder + "/prosody.sock"))
            log = { info = \(Self.quoted(server.folder + "/prosody.log")) }
            interfaces = { "127.0.0.1" }
            c2s_ports = { \(server.startTLSPort) }
            c2s_direct_tls_ports = { \(server.directTLSPort) }
            component_ports = { \(components.isEmpty ? "" : String(server.componentPort)) }
            s2s_ports = {}
            s2s_direct_tls_ports = {}
            http_ports = {}
            https_ports = { \(upload == nil ? "" : String(server.webPort)) }
            https_interfaces = { "127.0.0.1" }
            https_ssl = { certificate = \(Self.quoted(server.certificateFile)); key = \(Self.quoted(server.keyFile)) }
            modules_enabled = { \(modules.map(Self.quoted).joined(separator: ", ")) }
            modules_disabled = { "limits", "s2s" }
            authentication = "internal_hashed"
            password_hash = "\(passwordHash.rawValue)"
            storage = "internal"
            allow_registration = false
            c2s_require_encryption = true
            smacks_hibernation_time = \(hibernation.components.seconds)
            smacks_max_queue_size = \(queueSize)
            -- Otherwise each message writes a list of all users again, or reads the whole archive of its user.
            archive_expires_after = "never"
            storage_archive_item_limit = 10000000
            storage_archive_item_limit_cache_size = 100000
            ssl = { certificate = \(Self.quoted(server.certificateFile)); key = \(Self.quoted(server.keyFile)) }
            c2s_direct_tls_ssl = { certificate = \(Self.quoted(server.certificateFile)); key = \(Self.quoted(server.keyFile)) }
            \(addedConfiguration)

            VirtualHost \(Self.quoted(server.domain))

            Component \(Self.quoted("conference." + server.domain)) "muc"
                modules_enabled = { "muc_mam" }
                restrict_room_creation = false

            Component \(Self.quoted("pubsub." + server.domain)) "pubsub"

            \(upload ?? "")

            \(external.joined(separator: "\n"))
            """
    }

    /// A Lua string literal.
    static func quoted(_ text: String) -> String {
        var literal = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\": literal += "\\\(scalar)"
            case _ where scalar.value < 0x20:
                literal += "\\x\(scalar.value < 16 ? "0" : "")\(String(scalar.value, radix: 16))"
            default: literal.unicodeScalars.append(scalar)
            }
        }
        return literal + "\""
    }
}
