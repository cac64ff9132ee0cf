import FoundationEssentials
import Glibc
import Handlers
import TestSupport
@testable import Omemo
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import TestServers

extension OmemoKillsOnServersTests {
    /// SIGKILL of our side in the middle of conversations with an independent client.
    @Suite struct OmemoKillTests {
        /// A device in a process of its own.
        private struct Runner {
            let scene: Interoperation
            let store: String
            let count: Int
            /// Milliseconds between two messages.
            let pause: Int

            let line: LoopbackProxy

            init(_ scene: Interoperation, count: Int, pause: Int) throws {
                (self.scene, self.count, self.pause) = (scene, count, pause)
                store = scene.folder.path + "/device.db"
                line = try LoopbackProxy(to: scene.server.startTLSPort)
            }

            func start(
                _ failpoint: String? = nil, count: Int? = nil, role: AccountRole = .main
            ) throws -> ChildProcess {
                try awaitDeparture()
                var environment = ["OMEMO_ROLE": role.rawValue]
                environment["HANDLERS_FAILPOINT"] = failpoint
                return try ChildProcess(
                    BuiltProduct.path("omemo-device"),
                    [
                        store, scene.ours, RealServers.password, scene.server.host, String(line.port),
                        scene.authority, scene.theirs, String(count ?? self.count), String(pause),
                    ], environment: .inheriting(environment), input: .pipe, output: .pipe,
                    errors: .file(scene.folder.path + "/device.errors"))
            }

            /// A running device stands still, and another process takes the stream over; when the first goes on, it must
            /// notice and end.
            ///
            /// - Returns: The one that has the stream; nil when the first stood still inside a transaction, which keeps out
            ///   everybody until it is killed.
            func takeOver(from frozen: ChildProcess) throws -> ChildProcess? {
                frozen.signal(SIGSTOP)
                let next = try start()
                guard (try? next.output?.readLine(deadline: .now + .seconds(30)) { $0 == "connected" }) != nil
                else {
                    _ = (frozen.killAndWait(), next.killAndWait())
                    return nil
                }
                frozen.signal(SIGCONT)
                let ending = try frozen.waitUntilExit(deadline: .now + .seconds(30))
                let words = try? String(contentsOfFile: scene.folder.path + "/device.errors", encoding: .utf8)
                #expect(
                    ending.status == 3,
                    "a device that was passed over ended otherwise: \(ending) \(words?.suffix(1000) ?? "")")
                return next
            }

            /// A worker has the stream when the main program asks for it.
            func handOver() throws -> ChildProcess {
                let worker = try start(role: .worker)
                _ = try worker.output?.readLine(deadline: .now + .seconds(30)) { $0 == "connected" }
                let next = try start()
                _ = try next.output?.readLine(deadline: .now + .seconds(30)) { $0 == "connected" }
                let ending = try worker.waitUntilExit(deadline: .now + .seconds(30))
                #expect(
                    ending.status == 0, "a worker that was asked for the stream ended otherwise: \(ending)")
                return next
            }

            private func awaitDeparture() throws {
                guard let server = scene.server as? EjabberdServer else { return }
                #expect(try server.waitUntilDepartedAreGone(over: line, deadline: .now + .seconds(30)))
            }

            func texts(_ sql: String) throws -> [String] {
                try HandlerStore(
                    path: store, registry: HandlerRegistry(), schemas: Account.schemas + OmemoService.schemas
                ).texts(sql)
            }

            /// Runs until everything is sent and heard.
            func finish(_ peer: SlixmppPeer, heard: Int) async throws {
                let child = try start()
                do throws(ChildProcessError) {
                    _ = try child.output?.readLine(deadline: .now + .seconds(120)) { $0 == "quiet" }
                } catch {
                    let words =
                        (try? String(contentsOfFile: scene.folder.path + "/device.errors", encoding: .utf8))
                        ?? ""
                    Issue.record("\(error)\n\(words.suffix(1000))")
                }
                try await eventually("the peer has read \(count) messages", within: .seconds(120)) {
                    try peer.received.count >= count
                }
                try await eventually("\(heard) messages were heard", within: .seconds(120)) {
                    try texts("SELECT text FROM heard").count >= heard
                }
                child.closeInput()
                _ = try? child.waitUntilExit(deadline: .now + .seconds(10))
            }

            func check(_ peer: SlixmppPeer, heard: Int) throws {
                let sent = (1...count).map { "a-\($0)" }
                let received = try peer.received
                #expect(received.count == count)
                #expect(Set(received) == Set(sent), "missing: \(Set(sent).subtracting(received).sorted())")
                let ours = try texts("SELECT text FROM heard ORDER BY row")
                let expected = (1...heard).map { "b-\($0)" }
                #expect(ours.count == heard)
                #expect(Set(ours) == Set(expected), "\(Set(ours).symmetricDifference(expected).sorted())")
                try peer.expectReadAll()
                // ejabberd may go on with what a dead connection brought while the session is resumed on another one, and
                // then hands a message on twice.
                if !(scene.server is EjabberdServer) { #expect(try peer.copies == 0) }
                #expect(try texts("SELECT text FROM failed") == [])
                #expect(try texts("SELECT name FROM handler WHERE state <> 0") == [])
            }
        }

        @Test(
            "O5 O6 killed inside every step of both paths: no message is lost, none comes twice, the session goes on",
            arguments: zip(ServerKind.allCases, [Interoperation.Spoken.omemo2, .legacy]))
        func failpoints(_ kind: ServerKind, _ spoken: Interoperation.Spoken) async throws {
            try await withScene(kind) { scene in
                let runner = try Runner(scene, count: 120, pause: 100)
                // The first run makes the keys, so that the peer finds them; the peer's must be there before anything is sent.
                let first = try runner.start(count: 0)
                _ = try first.output?.readLine(deadline: .now + .seconds(30)) { $0 == "quiet" }
                let peer = try scene.peer(spoken)
                first.signal(SIGKILL)
                var reached: Set<String> = []
                func run(_ place: String, _ nth: Int) throws {
                    let child = try runner.start("\(place):kill:\(nth)")
                    let ending = try? child.waitUntilExit(deadline: .now + .seconds(20))
                    if ending?.signal == SIGKILL { reached.insert(place) } else { _ = child.killAndWait() }
                }
                // We start a session; then so does the peer, which has heard nothing of ours.
                try run(OmemoFailpoint.started.rawValue, 1)
                try peer.sendMessages(to: scene.ours, count: 10_000, rate: 2, prefix: "b")
                try await eventually("the peer has sent something") {
                    try peer.log().contains { $0.kind == .sent }
                }
                let places =
                    [OmemoFailpoint.dutiesDone, .decrypted, .delivered, .encrypted, .sealed].map(\.rawValue)
                    + [
                        "before-commit", "after-commit", "before-handler", "after-handler", "after-write",
                        "before-ack", "after-ack", "after-read", "after-bind",
                    ]
                for nth in kind == .prosody ? [1, 3] : [1] { for place in places { try run(place, nth) } }
                // On a busy machine a child may not have come so far in its time.
                for _ in 0..<3 { for place in places where !reached.contains(place) { try run(place, 1) } }
                try peer.stopSending()
                let heard = try peer.waitUntilSent(prefix: "b", deadline: .now + .seconds(60))
                try await runner.finish(peer, heard: heard)
                try runner.check(peer, heard: heard)
                let missed = Set(places + OmemoFailpoint.allCases.map(\.rawValue)).subtracting(reached)
                #expect(missed == [], "never reached: \(missed.sorted())")
            }
        }

        /// How many messages both sides send together, with each version on each server; `make torture` asks for more.
        private static let messages =
            ProcessInfo.processInfo.environment["OMEMO_MESSAGES"].flatMap { Int($0) } ?? 250

        @Test(
            "O9 W5 a thousand messages in four runs while our side is killed, frozen and handed over at random: what the peer has is what we have",
            arguments: ServerKind.allCases, [Interoperation.Spoken.legacy, .omemo2])
        func randomKills(_ kind: ServerKind, _ spoken: Interoperation.Spoken) async throws {
            try await withScene(kind) { scene in
                let count = Self.messages / 2
                let runner = try Runner(scene, count: count, pause: 2)
                let first = try runner.start(count: 0)
                _ = try first.output?.readLine(deadline: .now + .seconds(30)) { $0 == "quiet" }
                let peer = try scene.peer(spoken)
                try peer.sendMessages(to: scene.ours, count: count, rate: 60, prefix: "b")
                var child = first
                for round in 0..<max(12, count / 25) {
                    try await Task.sleep(for: .milliseconds(.random(in: 30...500)))
                    // ejabberd does not stand a second connection while the first is open.
                    let change = kind == .prosody ? round % 3 : 0
                    if change == 1, child.isRunning, let next = try runner.takeOver(from: child) {
                        child = next
                        continue
                    }
                    _ = child.killAndWait()
                    child = try change == 2 ? runner.handOver() : runner.start()
                }
                _ = child.killAndWait()
                try await runner.finish(peer, heard: count)
                try runner.check(peer, heard: count)
            }
        }
    }
}
