import XMPPTestKit
import FoundationEssentials
import Platform
import Synchronization

/// A real ejabberd as a child process, with its own folder and loopback ports, and without a system service.
///
/// ```swift
/// let server = try EjabberdServer(
///     folder: folder, domain: "example.test", certificateFile: certificate, keyFile: key)
/// try server.addAccount("romeo", password: "secret")
/// try server.start()
/// defer { server.close() }
/// ```
///
/// It runs in an Erlang node without a name, so that no epmd is started and no cookie is written. A few lines of Erlang read
/// commands from standard input, as a replacement for `ejabberdctl`. When the input ends, the node stops. Starting takes about 3 s
/// of a processor, so tests share one server where they can, and one server starts after the other.
package final class EjabberdServer: TestServer {
    package let domain: String
    package let folder: String

    private let options: EjabberdOptions
    let certificateFile: String
    let keyFile: String
    package let ports: ServerPorts
    package let process: ServerProcess
    /// Held by the server that starts.
    private static let turn = Mutex<Void>(())
    /// Held by the test that talks to the Erlang program, whose answers are in the order of its questions.
    private let conversation = Mutex<Void>(())
    /// Accounts to add at the next start.
    private let accounts = Mutex<[String: String]>([:])

    /// Reserves the ports and creates the folder, without starting the server.
    ///
    /// - Parameters:
    ///   - folder: An empty or missing folder, or the folder of an earlier server whose data is kept.
    ///   - domain: The domain of the accounts.
    ///   - certificateFile: PEM file with the certificate for `domain`, and any intermediate ones.
    ///   - keyFile: PEM file with the private key.
    /// - Throws: ``TestServerError`` when there is no free port or the folder cannot be written.
    package init(
        folder: String, domain: String, certificateFile: String, keyFile: String,
        options: EjabberdOptions = EjabberdOptions()
    ) throws(TestServerError) {
        self.folder = folder
        self.domain = domain
        self.certificateFile = certificateFile
        self.keyFile = keyFile
        self.options = options
        process = ServerProcess("ejabberd", folder: folder)
        ports = try ServerPorts()
        try ServerProcess.writing {
            try FileManager.default.createDirectory(
                atPath: "\(folder)/spool", withIntermediateDirectories: true)
        }
    }

    private var configurationFile: String { "\(folder)/ejabberd.yml" }
    package var logFile: String { "\(folder)/ejabberd.log" }

    package var version: String {
        let end = " is started in the node"
        guard let line = log.split(separator: "\n").last(where: { $0.contains(end) }),
            let start = line.ranges(of: "ejabberd ").first?.lowerBound
        else { return "ejabberd" }
        return String(line[start...].prefix { $0 != "-" && $0 != "~" })
    }

    // MARK: - Life

    package func start(patience: Duration) throws(TestServerError) {
        try Self.turn.withLock { _ throws(TestServerError) in
            // On a busy machine one start in some hundred stands still: it writes nothing and uses no processor any more. Another one
            // does not.
            do throws(TestServerError) { try startOnce(patience) } catch {
                guard error.code == .startFailed else { throw error }
                try startOnce(patience)
            }
        }
        for (user, password) in accounts.withLock({ $0 }) {
            try addAccount(user, password: password)
            accounts.withLock { _ = $0.removeValue(forKey: user) }
        }
    }

    private func startOnce(_ patience: Duration) throws(TestServerError) {
        try process.start { () throws(TestServerError) in
            try ServerProcess.write(options.configuration(of: self), to: configurationFile)
            return try launch()
        } wait: { child throws(TestServerError) in
            try self.waitUntilReady(child, patience: patience)
        }
    }

    // MARK: - Accounts

    package func addAccount(_ user: String, password: String) throws(TestServerError) {
        let words = [user, domain, password].map { Data($0.utf8).base64EncodedString() }
        let answer = try process.withChild { child throws(TestServerError) in
            try self.ask("register \(words.joined(separator: " "))", child)
        }
        if let answer {
            guard answer == "ok" else {
                throw TestServerError(.wrongState, "ejabberd made no account \(user): \(answer)")
            }
        } else {
            accounts.withLock { $0[user] = password }
        }
    }

    package func befriend(_ user: String, _ other: String) throws(TestServerError) {
        let words = [user, other, domain].map { Data($0.utf8).base64EncodedString() }
        let answer = try process.withChild { child throws(TestServerError) in
            try self.ask("befriend \(words.joined(separator: " "))", child)
        }
        guard answer == "ok" else {
            throw TestServerError(
                .wrongState,
                "ejabberd made no contacts of \(user) and \(other): \(answer ?? "it does not run")")
        }
    }

    /// Sends one line to the Erlang program, and returns the answer of one line.
    private func ask(_ command: String, _ child: ChildProcess) throws(TestServerError) -> String {
        do throws(ChildProcessError) {
            return try conversation.withLock { _ throws(ChildProcessError) in
                try child.write(command + "\n")
                let line = try child.output?.readLine(deadline: .now + .seconds(20)) { $0.hasPrefix("> ") }
                return String(line?.dropFirst(2) ?? "")
            }
        } catch { throw TestServerError(.wrongState, "ejabberd does not answer: \(error.message)") }
    }

    // MARK: - Streams

    /// Waits until the server has finished with every connection that the clients of a line have closed.
    ///
    /// The server must have closed those connections. Every stream without a connection must have processed all its stanzas, so
    /// that its session has ended or waits for a resumption.
    ///
    /// ejabberd still processes stanzas of a dead connection while the session is resumed over another one. The client must resend
    /// those stanzas, so they arrive twice. Stanzas to the client may be lost (docs/reference/servers.md).
    /// - Returns: False when the deadline passed first.
    package func waitUntilDepartedAreGone(
        over line: LoopbackProxy, deadline: ContinuousClock.Instant
    ) throws(TestServerError) -> Bool {
        guard line.waitUntilDepartedAreClosed(deadline: deadline) else { return false }
        repeat {
            let busy = try process.withChild { child throws(TestServerError) in try self.ask("busy", child) }
            if busy == nil || busy == "0" { return true }
            SystemThread.sleep(microseconds: 2000)
        } while ContinuousClock.now < deadline
        return false
    }

    // MARK: - Parts

    /// Starts ejabberd, reports that, and then answers the lines of its input until the input ends.
    ///
    /// The process of a stream without a connection is busy unless it waits for a message in the loop of its behavior (p1_server).
    /// That behavior has its own queue in addition to the mailbox.
    private static let program = """
        case application:ensure_all_started(ejabberd) of
          {ok, _} -> io:format("> ready~n");
          {error, Reason} -> io:format("> ~0p~n", [Reason]), erlang:halt(1)
        end,
        Loop = fun(Next) ->
          case io:get_line("") of
            "register " ++ Words ->
              [User, Domain, Password] = [base64:decode(Word) || Word <- string:lexemes(Words, " \\n")],
              Result = case ejabberd_auth:try_register(User, Domain, Password) of
                {error, exists} -> ejabberd_auth:set_password(User, Domain, Password);
                Other -> Other
              end,
              io:format("> ~0p~n", [Result]), Next(Next);
            "befriend " ++ Words ->
              [One, Two, Domain] = [base64:decode(Word) || Word <- string:lexemes(Words, " \\n")],
              Results = [mod_admin_extra:add_rosteritem(User, Domain, Other, Domain, Other, <<>>, <<"both">>)
                || {User, Other} <- [{One, Two}, {Two, One}]],
              io:format("> ~0p~n", [case Results of [ok, ok] -> ok; _ -> Results end]), Next(Next);
            "busy" ++ _ ->
              Busy = [Pid || {_, Pid, _, _} <- supervisor:which_children(ejabberd_c2s_sup), is_pid(Pid),
                case process_info(Pid, [links, message_queue_len, status, current_function]) of
                  undefined -> false;
                  [{links, Links}, {_, Waiting}, {_, Status}, {_, {Module, Function, _}}] ->
                    not lists:any(fun erlang:is_port/1, Links) andalso
                      not (Waiting == 0 andalso Status == waiting andalso
                        lists:member({Module, Function}, [{p1_server, collect_messages}, {erlang, hibernate}]))
                end],
              io:format("> ~b~n", [length(Busy)]), Next(Next);
            _ -> init:stop()
          end
        end,
        Loop(Loop).
        """

    private func launch() throws(TestServerError) -> ChildProcess {
        let environment = [
            "ERL_LIBS": Self.libraries, "EJABBERD_CONFIG_PATH": configurationFile,
            "EJABBERD_LOG_PATH": logFile, "EJABBERD_PID_PATH": "\(folder)/pid",
            "ERL_CRASH_DUMP": "\(folder)/crash", "HOME": folder,
        ]
        guard !Self.libraries.isEmpty else {
            throw TestServerError(.notInstalled, "ejabberd is not installed (make setup installs it).")
        }
        return try process.launch { () throws(ChildProcessError) in
            // Few schedulers that never spin, because other programs also use the machine.
            try ChildProcess(
                "erl",
                [
                    "-noshell", "+sbwt", "none", "+S", "2:2", "+A", "2", "-mnesia", "dir",
                    "\"\(folder)/spool\"", "-eval", Self.program,
                ], environment: .inheriting(environment), folder: folder, input: .pipe, output: .pipe,
                errors: .file(process.console))
        }
    }

    /// The folder of ejabberd and its libraries in Debian, from its start script; empty if it is not installed.
    private static let libraries: String = {
        for path in ["/usr/sbin/ejabberdctl", "/usr/bin/ejabberdctl"] {
            guard let script = try? String(contentsOfFile: path, encoding: .utf8),
                let line = script.split(separator: "\n").first(where: { $0.hasPrefix("ERL_LIBS=") })
            else { continue }
            return line.dropFirst("ERL_LIBS=".count).filter { $0 != "'" && $0 != "\"" }
        }
        return ""
    }()

    private func waitUntilReady(_ child: ChildProcess, patience: Duration) throws(TestServerError) {
        let answer = try process.firstLine(of: child, patience: patience, log: { log }) {
            $0.hasPrefix("> ")
        }
        guard answer == "> ready" else { throw process.failure("It says \(answer)", log: log) }
        // ejabberd accepts connections only some milliseconds after it reports its start.
        let awaited = [ports.startTLS, ports.directTLS] + (options.largestUpload == nil ? [] : [ports.web])
        try process.waitUntilListening(awaited, child, patience: patience) { log }
    }
}
