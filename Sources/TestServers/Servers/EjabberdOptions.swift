/// The options of an ``EjabberdServer`` that tests vary.
package struct EjabberdOptions: Hashable, Sendable {
    /// The time for which a lost session can be resumed (XEP-0198), in whole seconds, at least 1.
    package var hibernation: Duration = .seconds(600)
    /// The hash of stored passwords, which decides the SASL mechanisms offered.
    package var passwordHash: ProsodyOptions.PasswordHash = .sha256
    /// Further domains.
    package var addedHosts: [String] = []
    /// Whether clients may log in without a password (SASL ANONYMOUS), in addition to accounts.
    package var allowsAnonymous = false
    /// PEM file with the authority whose client certificates can log in (SASL EXTERNAL); nil for none.
    package var clientAuthorityFile: String?
    /// The usual modules to leave out.
    package var removedModules: Set<String> = []
    /// External components (XEP-0114) that may connect, as secrets by domain.
    package var components: [String: String] = [:]
    /// The maximum size of an uploaded file in bytes (XEP-0363); nil for no upload service.
    package var largestUpload: Int?
    /// YAML text that is appended to the top level unchanged.
    package var addedConfiguration = ""

    /// Makes the default options.
    package init() {}

    /// The features that current clients use, as modules with their options in YAML.
    private func modules() -> [(name: String, options: String)] {
        [
            ("mod_adhoc", "{}"), ("mod_auth_fast", "{}"), ("mod_blocking", "{}"), ("mod_caps", "{}"),
            ("mod_carboncopy", "{}"), ("mod_client_state", "{}"), ("mod_disco", "{}"), ("mod_last", "{}"),
            ("mod_mam", "{default: always, assume_mam_usage: false}"), ("mod_muc", "{}"),
            ("mod_offline", "{}"), ("mod_ping", "{}"), ("mod_privacy", "{}"), ("mod_private", "{}"),
            ("mod_pubsub", "{plugins: [flat, pep]}"), ("mod_push", "{}"), ("mod_push_keepalive", "{}"),
            ("mod_roster", "{versioning: true}"),
            (
                "mod_stream_mgmt",
                "{max_ack_queue: infinity, resend_on_timeout: true, resume_timeout: \(hibernation.components.seconds)}"
            ),
            ("mod_time", "{}"), ("mod_vcard", "{}"), ("mod_version", "{}"),
        ]
    }

    func configuration(of server: EjabberdServer) -> String {
        let clients = [(server.startTLSPort, "starttls_required: true"), (server.directTLSPort, "tls: true")]
            .map {
                port, tls in
                """
                  - {port: \(port), ip: "127.0.0.1", module: ejabberd_c2s, \(tls), shaper: none, access: all, tls_verify: \(clientAuthorityFile != nil),
                     max_stanza_size: 1048576, max_fsm_queue: 100000}
                """
            }
        let hosts = components.sorted { $0.key < $1.key }.map { name, secret in
            "\(Self.quoted(name)): {password: \(Self.quoted(secret))}"
        }
        let component = """
              - {port: \(server.componentPort), ip: "127.0.0.1", module: ejabberd_service, hosts: {\(hosts.joined(separator: ", "))}}
            """
        let web = """
              - {port: \(server.webPort), ip: "127.0.0.1", module: ejabberd_http, tls: true, request_handlers: {"/upload": mod_http_upload}}
            """
        let upload = largestUpload.map { size in
            (
                "mod_http_upload",
                "{put_url: \(Self.quoted("https://\(server.domain):\(server.webPort)/upload")), docroot: \(Self.quoted("\(server.folder)/upload")), max_size: \(size), access: all}"
            )
        }
        let kept = (modules() + (upload.map { [$0] } ?? [])).filter { !removedModules.contains($0.name) }
        return """
            hosts: [\(([server.domain] + addedHosts).map(Self.quoted).joined(separator: ", "))]
            loglevel: info
            certfiles: [\(Self.quoted(server.certificateFile)), \(Self.quoted(server.keyFile))]
            auth_method: [\(allowsAnonymous ? "internal, anonymous" : "internal")]
            \(allowsAnonymous ? "anonymous_protocol: sasl_anon" : "")
            auth_password_format: scram
            auth_scram_hash: \(passwordHash == .sha1 ? "sha" : "sha256")
            s2s_access: none
            acme: {auto: false}
            \(clientAuthorityFile.map { "c2s_cafile: \(Self.quoted($0))" } ?? "")
            listen:
            \((clients + (components.isEmpty ? [] : [component]) + (upload == nil ? [] : [web])).joined(separator: "\n"))
            modules:
            \(kept.map { "  \($0.name): \($0.options)" }.joined(separator: "\n"))
            \(addedConfiguration)

            """
    }

    /// A YAML string in double quotes.
    static func quoted(_ text: String) -> String {
        let escaped = text.flatMap { character -> [Character] in
            character == "\"" || character == "\\" ? ["\\", character] : [character]
        }
        return "\"" + String(escaped) + "\""
    }
}
