import CPostgres
import Platform

/// How a connection to another machine is protected where the program's string says nothing.
///
/// libpq's own defaults give the password in clear to whoever answers.
struct PostgresSecurity: Sendable {
    /// What libpq gets before the program's string, which may replace it.
    let defaults: [PostgresOption]
    /// Whether the server has to show a certificate of its name.
    let verifiesServer: Bool

    /// - Parameters:
    ///   - settings: A connection string of libpq.
    ///   - written: What stands in it, by name.
    init(of settings: String, written: [String: String]) {
        let effective = PostgresOption.effective(of: settings)
        // The default of libpq in a service cannot be told from one that is written there, and counts as none.
        let isExplicit = Self.isWritten("sslmode", "PGSSLMODE", written) || effective["sslmode"] != "prefer"
        guard Self.leavesMachine(effective) else {
            defaults = []
            verifiesServer = isExplicit && effective["sslmode"]?.hasPrefix("verify-") == true
            return
        }
        guard !isExplicit || effective["sslmode"] == "verify-full" else {
            // What the program wants instead.
            defaults = []
            verifiesServer = effective["sslmode"]?.hasPrefix("verify-") == true
            return
        }
        verifiesServer = true
        defaults =
            [PostgresOption("sslmode", "verify-full")] + Self.passwords(effective, written)
    }

    private static func isWritten(_ name: String, _ variable: String, _ written: [String: String]) -> Bool {
        written[name] != nil || ThisProcess.environment(variable)?.isEmpty == false
    }

    /// Has libpq refuse a server that asks for a password in clear or as MD5.
    private static func passwords(
        _ effective: [String: String], _ written: [String: String]
    ) -> [PostgresOption] {
        if PQlibVersion() >= 160_000 {
            return effective["require_auth"] == nil
                ? [PostgresOption("require_auth", "!password,!md5")] : []
        }
        // Older ones refuse all but SCRAM with channel binding, which a client certificate takes the place of.
        guard !isWritten("channel_binding", "PGCHANNELBINDING", written), effective["sslcert"] == nil else {
            return []
        }
        return [PostgresOption("channel_binding", "require")]
    }

    // MARK: Hosts

    /// Whether one of the hosts is not certainly this machine.
    private static func leavesMachine(_ effective: [String: String]) -> Bool {
        let hosts = parts(effective["host"])
        let addresses = parts(effective["hostaddr"])
        return (0..<max(hosts.count, addresses.count)).contains { index in
            let host = index < hosts.count ? hosts[index] : ""
            let address = index < addresses.count ? addresses[index] : ""
            // The address is where it connects to, and the name what the certificate is for.
            return !isLocal(address.isEmpty ? host : address)
        }
    }

    private static func parts(_ list: String?) -> [Substring] {
        list?.split(separator: ",", omittingEmptySubsequences: false) ?? []
    }

    private static func isLocal(_ host: Substring) -> Bool {
        // A folder or an abstract name of a socket; without a host libpq takes its socket.
        if host.isEmpty || host.hasPrefix("/") || host.hasPrefix("@") { return true }
        if host.lowercased() == "localhost" || host == "::1" { return true }
        let bytes = host.split(separator: ".", omittingEmptySubsequences: false)
        return bytes.count == 4 && bytes[0] == "127" && bytes.allSatisfy { UInt8($0) != nil }
    }
}
