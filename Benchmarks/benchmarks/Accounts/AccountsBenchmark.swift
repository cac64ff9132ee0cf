import FoundationEssentials
import Glibc
import TestServers
import XMPPCore
import XMPPTestKit

/// Many accounts of ours in one process, on a scripted server in this one; fewer than wanted where a process may not open that many
/// files.
///
/// The lines compare with the goals of the host: there is no other program to compare with that stores what it receives. How
/// much of the time the server took is printed beside. Two lines compare with slixmpp, which stores nothing.
struct AccountsBenchmark: Benchmark {
    /// One file for all accounts, or one for each.
    let layout: String
    /// The number of accounts that is wanted.
    let wanted: Int
    /// The goal for the memory of an account, in kilobytes.
    let memoryGoal: Double
    /// The goal for the descriptors of an account.
    let descriptorGoal: Double
    /// The goal for the messages of a second, one to each account.
    let messageGoal: Double
    /// The goal for a timer among many, in seconds.
    let timerGoal: Double
    /// The number of accounts of slixmpp; 0 for none.
    var peers = 0

    private var stem: String { "accounts/\(layout)-" }
    var names: [String] {
        let own = [
            "login", "threads", "descriptors", "memory", "idle", "messages", "flood-p99", "timers", "resume",
        ]
        return (own + (peers > 0 ? ["memory-slixmpp", "logins-slixmpp"] : [])).map { stem + $0 }
    }

    /// What the host keeps free for an account with a database of its own.
    private static let databaseDescriptors = 13
    private static let patience = Duration.seconds(300)

    func run(in workspace: Workspace) throws -> [Line] {
        let each = layout == "one" ? 1 : Self.databaseDescriptors
        let count = min(wanted, (raiseFileLimit() - 400) / each)
        if count < wanted {
            BenchmarkCommand.complain("\(count) accounts, as a process may not open more files (ulimit -Hn)")
        }
        let certificates = try TestCertificates(in: workspace.path)
        var configuration = ScriptedServer.Configuration(
            accounts: Dictionary(uniqueKeysWithValues: (0..<count).map { ("u\($0)", "secret") }),
            certificate: try certificates.makeServerCertificate(for: ["localhost"]))
        configuration.behavior.requestsAcks = true
        let server = try ScriptedServer(configuration)
        try server.start()
        defer { server.stop(.reset) }
        let bot = server.addBot(jid: try JID("bench@localhost/bot")) { _, _ in }
        let host = try Host(workspace.path, server.directTLSPort, certificates.authorityFile, count, layout)
        defer { host.process.killAndWait() }
        let before = try host.cost()

        let login = try host.time("login") { try host.ask("connect", "connected") }
        usleep(3_000_000)
        let after = try host.cost()
        usleep(60_000_000)
        let idle = Double(try host.cost().time - after.time) / 60_000

        let messages = try host.time("messages") {
            try host.ask("expect \(count)", "stored") {
                for number in 0..<count { bot.send(try message(to: number)) }
            }
        }
        let others = min(count - 1, 1000)
        let calm = try latency(host, server, bot, others: others, flood: 0)
        let flooded = try latency(host, server, bot, others: others, flood: 50_000)
        let timerCount = min(count, 300)
        let timers = try host.time("timers") { try host.ask("timers \(timerCount)", "fired") }
        let resumed = try host.time("resume") {
            try host.ask("again", "connected") { server.dropConnections(.reset) }
        }
        let accounts = Double(count)
        let memory = Double(after.memory - before.memory) / accounts
        host.process.killAndWait()
        let beside = try compareWithSlixmpp(
            server, certificates, memory: memory, logins: accounts / login.seconds)
        return beside + [
            line("login", "s", .less, login.seconds, 60),
            line("threads", "", .less, Double(after.threads), 40),
            line(
                "descriptors", "each", .less, Double(after.descriptors - before.descriptors) / accounts,
                descriptorGoal),
            line("memory", "KiB each", .less, memory, memoryGoal),
            line("idle", "% of a core", .less, idle * 100, 1),
            line("messages", "1/s", .more, accounts / messages.seconds, messageGoal),
            Line(
                stem + "flood-p99", unit: "ms", better: .less, ours: flooded, reference: calm * 3,
                referenceName: "3 x calm", goal: 1),
            line("timers", "s", .less, timers.seconds, timerGoal * Double(timerCount)),
            line("resume", "s", .less, resumed.seconds, 30),
        ]
    }

    /// Logs accounts of slixmpp in, as many as one process of it takes in a bearable time.
    private func compareWithSlixmpp(
        _ server: ScriptedServer, _ certificates: TestCertificates, memory: Double, logins: Double
    ) throws -> [Line] {
        guard peers > 0 else { return [] }
        let child = try ChildProcess(
            SlixmppPeer.locatePython(),
            [
                "Benchmarks/peers/slixmpp_accounts.py", "secret", "\(server.startTLSPort)",
                certificates.authorityFile, "\(peers)",
            ], output: .pipe)
        defer { child.killAndWait() }
        let said = try child.output?.readLine(deadline: .now + Self.patience) { $0.hasPrefix("connected ") }
        let numbers = (said ?? "").split(separator: " ").dropFirst().compactMap { Double($0) }
        guard numbers.count == 2 else { throw BenchmarkError("slixmpp did not log in: \(said ?? "nothing")") }
        return [
            Line(
                stem + "memory-slixmpp", unit: "KiB each", better: .less, ours: memory,
                reference: numbers[1] / Double(peers), referenceName: "slixmpp, \(peers)", goal: 1),
            Line(
                stem + "logins-slixmpp", unit: "1/s", better: .more, ours: logins,
                reference: Double(peers) / numbers[0], referenceName: "slixmpp, \(peers)", goal: 1),
        ]
    }

    private func line(_ name: String, _ unit: String, _ better: Line.Better, _ ours: Double, _ goal: Double)
        -> Line
    {
        Line(
            stem + name, unit: unit, better: better, ours: ours, reference: goal, referenceName: "goal",
            goal: 1)
    }

    private func message(to number: Int) throws -> Element {
        Message(
            to: try JID("u\(number)@localhost"), id: "b\(number)", body: "\(ServerTime.monotonicNanoseconds)"
        )
        .element
    }

    /// The time from a message to its commit while another account may receive very much, in milliseconds.
    private func latency(
        _ host: Host, _ server: ScriptedServer, _ bot: ScriptedServer.Bot, others: Int, flood: Int
    ) throws -> Double {
        let line = try host.ask("expect \(others + flood)", "stored") {
            for _ in 0..<flood { bot.send(try message(to: 0)) }
            // Returns when the server has them behind it, so that the others wait for the host alone.
            server.update { _ in }
            for number in 1...others {
                bot.send(try message(to: number))
                usleep(1000)
            }
        }
        guard let microseconds = line.split(separator: " ").dropFirst().first.flatMap({ Double($0) }) else {
            throw BenchmarkError("account-host said \(line)")
        }
        return microseconds / 1000
    }

    /// Raises the limit of open files as far as the system allows, for the processes that are started, too.
    ///
    /// - Returns: The limit.
    private func raiseFileLimit() -> Int {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        return Int(clamping: limit.rlim_cur)
    }

    /// The process of the accounts.
    private struct Host {
        struct Cost {
            var threads: Int
            var descriptors: Int
            /// In kilobytes.
            var memory: Int
            /// Of the processor, in milliseconds.
            var time: Int
        }

        let process: ChildProcess

        init(_ folder: String, _ port: UInt16, _ authority: String, _ count: Int, _ layout: String) throws {
            process = try ChildProcess(
                ".build/release/account-host", [folder, "\(port)", authority, "\(count)", layout],
                input: .pipe,
                output: .pipe)
            _ = try read("ready")
        }

        private func read(_ word: String) throws -> String {
            let line = try process.output?.readLine(deadline: .now + AccountsBenchmark.patience) {
                $0.hasPrefix(word + " ")
            }
            guard let line else { throw BenchmarkError("account-host did not say \(word)") }
            return line
        }

        func cost() throws -> Cost {
            let numbers = try ask("cost", "cost").split(separator: " ").dropFirst().compactMap { Int($0) }
            guard numbers.count >= 4 else { throw BenchmarkError("account-host does not know its cost") }
            return Cost(threads: numbers[0], descriptors: numbers[1], memory: numbers[2], time: numbers[3])
        }

        /// Says something, does something, and waits for the answer.
        @discardableResult
        func ask(_ line: String, _ answer: String, _ body: () throws -> Void = {}) throws -> String {
            try process.write(line + "\n")
            try body()
            return try read(answer)
        }

        /// Measures `body`, and says how much of the time both processes worked.
        func time(_ name: String, _ body: () throws -> Void) throws -> Duration {
            let (begin, server, own) = (ContinuousClock.now, Self.serverTime, try cost().time)
            try body()
            let taken = ContinuousClock.now - begin
            let both = (host: try cost().time - own, server: Self.serverTime - server)
            BenchmarkCommand.complain(
                "\(name) took \(taken); the host worked for \(both.host) ms, the server for \(both.server) ms"
            )
            return taken
        }

        private static var serverTime: Int {
            var usage = rusage()
            getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
            return [usage.ru_utime, usage.ru_stime].reduce(0) {
                $0 + $1.tv_sec * 1000 + Int($1.tv_usec) / 1000
            }
        }
    }
}

extension Duration {
    fileprivate var seconds: Double { self / .seconds(1) }
}
