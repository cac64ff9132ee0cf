import FoundationEssentials
import Glibc
import Handlers
import PubSub
import TestSupport
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import TestServers

extension OperationsOnServers {
    /// SIGKILL of the program in the middle of what takes several requests.
    @Suite struct OperationKillTests {
        /// The program, over one store.
        private struct Program {
            let home: RealHome
            let line: LoopbackProxy
            /// Names its store.
            var name = "program"
            let task: String
            let node: String
            let service: JID?

            private var store: String { "\(home.folder.path)/\(name).db" }

            /// Runs it until it ends or is killed.
            ///
            /// - Returns: The signal that killed it; nil when the task was over.
            func run(_ failpoint: String? = nil) throws -> Int32? {
                let child = try ChildProcess(
                    BuiltProduct.path("pubsub-program"),
                    [
                        store, "\(home.jid)", RealServers.password, home.server.host,
                        String(line.port), home.scene.certificates.authorityFile,
                        service?.description ?? "own",
                        node, task,
                    ],
                    environment: .inheriting(failpoint.map { ["HANDLERS_FAILPOINT": $0] } ?? [:]),
                    output: .pipe, errors: .file(home.folder.path + "/errors"))
                let ending = try child.waitUntilExit(deadline: .now + .seconds(60))
                let errors = try? String(contentsOfFile: home.folder.path + "/errors", encoding: .utf8)
                #expect(ending.signal == SIGKILL || ending.status == 0, "\(ending): \(errors ?? "")")
                if ending.signal == SIGKILL, let ejabberd = home.server as? EjabberdServer {
                    #expect(try ejabberd.waitUntilDepartedAreGone(over: line, deadline: .now + .seconds(30)))
                }
                return ending.signal
            }

            func texts(_ sql: String) throws -> [String] {
                try HandlerStore(path: store, registry: HandlerRegistry(), schemas: Account.schemas).texts(
                    sql)
            }

            var heard: [String] { get throws { try texts("SELECT text FROM heard ORDER BY row") } }
        }

        /// Where the program is killed, over and over.
        private static let places = [
            "after-bind", "before-commit", "after-commit", "after-handler", "after-write", "after-read",
        ]

        @Test(
            "P6 publish, configure, publish again: killed at each hit of each place, it goes on and is done once",
            arguments: ServerKind.allCases)
        func configuring(_ kind: ServerKind) async throws {
            try await withHome(kind) { home in
                let pubsub = try await home.connected().pubsub
                let line = try LoopbackProxy(to: home.server.startTLSPort)
                for place in Self.places {
                    var nth = 1
                    while try await isKilled(at: "\(place):kill:\(nth)", pubsub, home, line) {
                        nth += 1
                        try #require(nth < 60, "\(place) is reached without end")
                    }
                    // Each of the three steps at least.
                    #expect(nth > 3, "\(place)")
                }
            }
        }

        /// Publishes on a node of its own that is to be configured first, and looks at what came of it.
        ///
        /// - Returns: False when the program got past the place.
        private func isKilled(
            at failpoint: String, _ pubsub: PubSubService, _ home: RealHome, _ line: LoopbackProxy
        ) async throws -> Bool {
            let node = "urn:durable-handlers:test:\(failpoint)"
            let old = Element("note", namespace: "urn:durable-handlers:test", text: "old")
            try await pubsub.account.request(
                .pubsub(
                    .publish(
                        PubSubItem(id: "new", payload: old), on: node, requiring: [.accessModel(.whitelist)]))
            )
            let program = Program(
                home: home, line: line, name: failpoint, task: "configure", node: node, service: nil)
            let isKilled = try program.run(failpoint) != nil
            if isKilled { #expect(try program.run() == nil) }
            #expect(try program.heard == ["published new"], "\(failpoint)")
            let endings = try program.texts("SELECT name || ' ' || outcome FROM ending ORDER BY handler")
            #expect(
                endings == ["pubsub.answered 2", "pubsub.answered 1", "pubsub.answered 1"], "\(failpoint)")
            #expect(try program.texts("SELECT name FROM handler") == [], "\(failpoint)")
            let items = try await pubsub.account.request(.pubsub(.items(of: node)))
            #expect(items.map { $0.payload?.text } == ["new"], "\(failpoint)")
            let form = try await pubsub.account.request(.pubsub(.configuration(of: node)))
            #expect(form["pubsub#access_model"] == "open", "\(failpoint)")
            return isKilled
        }

        @Test(
            "P3 a thousand items in pages, or 200 at once on Prosody, the program killed after each answer: each is read once",
            arguments: ServerKind.allCases)
        func pages(_ kind: ServerKind) async throws {
            try await withHome(kind) { home in
                // Prosody knows no pages and sends all at once; it takes ever longer to publish the more a node has.
                let count = kind == .ejabberd ? 1000 : 200
                let program = try await filled(home, count, task: "pages-deadly")
                var kills = 0
                while try program.run() != nil {
                    kills += 1
                    try #require(kills < 100, "the pages have no end")
                }
                #expect(kills == (kind == .ejabberd ? 20 : 1))
                try check(program, count)
            }
        }

        @Test(
            "P3 a thousand items in pages, the program killed at every place in turn: each item is read once"
        )
        func pagesAtPlaces() async throws {
            try await withHome(.ejabberd) { home in
                let program = try await filled(home, 1000, task: "pages")
                var kills = 0
                // Far enough from the start of each run that it reads some pages, and near enough that others are left.
                let hits = ["before-commit": 9, "after-commit": 9, "after-write": 4, "after-read": 5]
                func failpoint() -> String {
                    let place = Self.places[kills % Self.places.count]
                    return "\(place):kill:\(hits[place] ?? 2)"
                }
                while try program.run(failpoint()) != nil {
                    kills += 1
                    try #require(kills < 200, "the pages have no end")
                }
                #expect(kills >= Self.places.count)
                try check(program, 1000)
            }
        }

        private func ids(_ count: Int) -> [String] { (1...count).map { "item-\($0)" } }

        /// A program to read a node with so many items.
        private func filled(_ home: RealHome, _ count: Int, task: String) async throws -> Program {
            let account = try await home.connected()
            let (service, node) = (home.service, "\(home.jid.local ?? "")-thousand")
            try await account.request(
                .pubsub(
                    .create(
                        node, with: [.accessModel(.open), .persistItems(true), .maximumItems(1000)]),
                    at: service))
            let ids = ids(count)
            try await account.perform { step in
                for id in ids {
                    let note = Element("note", namespace: "urn:durable-handlers:test", text: id)
                    try account.send(
                        .pubsub(.publish(PubSubItem(id: id, payload: note), on: node), at: service),
                        then: Notes.Published(tag: "p").durable, in: step)
                }
            }
            try await eventually("\(count) items", within: .seconds(120)) {
                try home.notes.count == count
            }
            #expect(try home.notes.allSatisfy { $0.contains(": published item-") })
            let line = try LoopbackProxy(to: home.server.startTLSPort)
            return Program(home: home, line: line, task: task, node: node, service: service)
        }

        private func check(_ program: Program, _ count: Int) throws {
            let ids = ids(count)
            let heard = try program.heard
            #expect(heard.count == ids.count)
            #expect(Set(heard) == Set(ids), "\(Set(heard).symmetricDifference(ids).sorted().prefix(10))")
            #expect(try program.texts("SELECT name FROM handler") == [])
        }
    }
}
