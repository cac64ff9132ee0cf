import AccountTestSupport
import Foundation
import Handlers
import HandlersTestKit
import TestServers
import TestSupport
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules

/// How many accounts are killed how often; more of both in `make torture`.
enum HostKills {
    static let accounts = number("HOST_ACCOUNTS") ?? 50
    static let kills = number("HOST_KILLS") ?? 20
    /// All servers, or the one that is named.
    static let servers = ServerKind.allCases.filter { kind in
        ProcessInfo.processInfo.environment["HOST_SERVER"].map { $0 == "\(kind)" } ?? true
    }
    /// The messages between two kills: with more of them, a server cannot let all accounts in before they are killed.
    static let messages = min(accounts / 2, 200)
    /// The longest life, about the time in which all accounts log in; in milliseconds.
    static let longestLife = 12 * accounts
    static let patience = Duration.seconds(40 + accounts)
    /// What a test may take, in minutes.
    static let timeLimit = max(10, accounts * kills / 400)

    private static func number(_ variable: String) -> Int? {
        ProcessInfo.processInfo.environment[variable].flatMap { Int($0) }
    }
}

extension RealServerTests {
    /// The host of docs/guide/many-accounts.md, killed again and again.
    @Suite struct HostKillTests {
        private func start(_ home: RealHome, _ line: LoopbackProxy, _ file: String) throws -> ChildProcess {
            try ChildProcess(
                BuiltProduct.path("EchoHost"),
                environment: .inheriting([
                    "BOTS": file, "BOTS_PORT": String(line.port),
                    "SSL_CERT_FILE": home.scene.certificates.authorityFile,
                ]), folder: home.folder.path, output: .inherited)
        }

        @Test(
            "A4 fifty accounts in one process that is killed again and again answer each message once, and resume",
            arguments: HostKills.servers)
        func kills(kind: ServerKind) async throws {
            // ejabberd's archive is a file in which each message reads all earlier ones of its account: with a thousand accounts it
            // stops for longer than the sessions wait. Servers of that size keep it in a database, which the test's has not.
            let server = try RealServers.current.special(kind, ejabberd: { $0.removedModules = ["mod_mam"] })
            defer { server.close() }
            try await closing(RealHome(modulesOn: kind, server: server)) { home in
                let bots = try (0..<HostKills.accounts).map { _ in try home.scene.addUser() }
                let file = home.folder.path + "/bots.txt"
                var random = SeededGenerator(seed: 4)
                // In another order each time: of many, the last ones do not get in before a kill.
                func listBots() throws {
                    let lines = bots.shuffled(using: &random).map { "\($0) \(RealServers.password)\n" }
                    try Data(lines.joined().utf8).write(to: URL(filePath: file))
                }
                try listBots()
                // Another one every twenty kills: ejabberd adds to a long archive ever more slowly.
                var friends = [try home.messenger()]
                defer { for friend in friends { friend.close() } }
                func bodies() throws -> [String] { try friends.flatMap { try $0.bodies("message") } }
                func send(_ body: String, to bot: Int) throws {
                    try friends.last?.tell(
                        "send", ["to": bots[bot].description, "body": body, "id": "\(body) \(UUID())"])
                }
                let line = try LoopbackProxy(to: home.port(.startTLS))
                defer { line.close() }
                var host = try start(home, line, file)
                defer { host.killAndWait() }
                var pause = 1
                try await eventually("all bots answer", within: HostKills.patience) {
                    let answered = Set(try bodies())
                    let missing = bots.indices.filter { !answered.contains("ping \($0)") }
                    if missing.isEmpty { return true }
                    // Ever more rarely: the server keeps them, and answers slowly when it has many.
                    for bot in missing { try send("ping \(bot)", to: bot) }
                    try await Task.sleep(for: .seconds(pause))
                    pause = min(2 * pause, 60)
                    return false
                }

                var expected: Set<String> = []
                for round in 0..<HostKills.kills {
                    if round > 0, round % 20 == 0 { friends.append(try home.messenger()) }
                    for bot in bots.indices.shuffled(using: &random).prefix(HostKills.messages) {
                        try send("\(round) to \(bot)", to: bot)
                        expected.insert("\(round) to \(bot)")
                    }
                    let life = Int.random(in: 0...HostKills.longestLife, using: &random)
                    try await Task.sleep(for: .milliseconds(life))
                    host.killAndWait()
                    // It repeats by itself what it handles while a session is resumed: docs/reference/servers.md.
                    if let ejabberd = home.server as? EjabberdServer {
                        #expect(
                            try ejabberd.waitUntilDepartedAreGone(
                                over: line, deadline: .now + HostKills.patience))
                    }
                    try listBots()
                    host = try start(home, line, file)
                }
                // As long as some are: a busy ejabberd answers a few of them in a second.
                var missing = expected.count
                while missing > 0 {
                    let before = missing
                    try await eventually("more were answered", within: HostKills.patience) {
                        missing = expected.subtracting(try bodies()).count
                        return missing < before
                    }
                }
                host.killAndWait()
                let answers = try bodies().filter { !$0.hasPrefix("ping") }
                #expect(answers.count == expected.count, "a message was answered twice")

                let store = try HandlerStore(
                    path: home.folder.path + "/bots.db", registry: HandlerRegistry([]), schemas: [])
                // Each account has started a session once: the server has kept it over all kills.
                #expect(try store.number("SELECT count(*) FROM session WHERE bound_count <> 1") == 0)
                #expect(try store.number("SELECT count(*) FROM session") == Int64(HostKills.accounts))
                #expect(try store.number("SELECT min(resumed_count) FROM session") > 0)
            }
        }
    }
}
