package import TestServers

extension RealHome {
    /// Starts a program of Snippets/ with this account, in the folder of the home.
    ///
    /// - Parameters:
    ///   - name: The program.
    ///   - arguments: What follows its name.
    ///   - prefix: What its environment variables start with: `ECHO` for `ECHO_JID`, `ECHO_PASSWORD` and `ECHO_PORT`.
    ///   - more: Further variables.
    package func start(
        sample name: String, _ arguments: [String] = [], prefix: String, _ more: [String: String] = [:],
        output: ChildProcess.Output = .inherited
    ) throws -> ChildProcess {
        let account = [
            "\(prefix)_JID": jid.description, "\(prefix)_PASSWORD": RealServers.password,
            "\(prefix)_PORT": String(port(.startTLS)), "SSL_CERT_FILE": scene.certificates.authorityFile,
        ]
        return try ChildProcess(
            BuiltProduct.path(name), arguments,
            environment: .inheriting(account.merging(more) { $1 }), folder: folder.path, output: output)
    }

    /// Runs a program of Snippets/ to its end, which must be 0.
    ///
    /// - Returns: What it printed.
    package func run(
        sample name: String, _ arguments: [String] = [], prefix: String, _ more: [String: String] = [:]
    ) throws -> String {
        let child = try start(sample: name, arguments, prefix: prefix, more, output: .pipe)
        defer { child.killAndWait() }
        let output = try child.output?.readToEnd(deadline: .now + .seconds(60)) ?? ""
        let ending = try child.waitUntilExit(deadline: .now + .seconds(60))
        guard ending.status == 0 else { throw SampleFailed(name: name, output: output) }
        return output
    }
}

/// A sample ended with another status than 0.
struct SampleFailed: Error {
    let name: String
    let output: String
}
