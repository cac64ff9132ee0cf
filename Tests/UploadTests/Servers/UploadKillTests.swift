import FoundationEssentials
import Glibc
import Handlers
import TestSupport
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import TestServers

@testable import Upload

extension UploadsOnServers {
    /// SIGKILL of a program that uploads, at every place, one after the other.
    @Suite struct UploadKillTests {
        private struct Program {
            let home: RealHome
            let line: LoopbackProxy
            let name: String
            let task: String
            let file: String
            let reader: JID

            var store: String { "\(home.folder.path)/\(name).db" }

            /// Runs it until it ends or is killed.
            ///
            /// - Returns: The signal that killed it, nil when it ended; the peak of its memory in KiB.
            func run(_ failpoint: String? = nil) throws -> (signal: Int32?, peak: Int?) {
                let child = try ChildProcess(
                    BuiltProduct.path("upload-program"),
                    [
                        store, "\(home.jid)", RealServers.password, home.server.host, String(line.port),
                        home.scene.certificates.authorityFile, file, "\(reader)", task,
                    ],
                    environment: .inheriting(failpoint.map { ["HANDLERS_FAILPOINT": $0] } ?? [:]),
                    output: .pipe,
                    errors: .file(home.folder.path + "/errors"))
                let output = try child.output?.readToEnd(deadline: .now + .seconds(90)) ?? ""
                let ending = try child.waitUntilExit(deadline: .now + .seconds(10))
                let errors = try? String(contentsOfFile: home.folder.path + "/errors", encoding: .utf8)
                #expect(ending.signal == SIGKILL || ending.status == 0, "\(ending): \(errors ?? "")")
                if ending.signal == SIGKILL, let ejabberd = home.server as? EjabberdServer {
                    #expect(try ejabberd.waitUntilDepartedAreGone(over: line, deadline: .now + .seconds(30)))
                }
                let peak = output.split(whereSeparator: \.isWhitespace).last.flatMap { Int($0) }
                return (ending.signal, peak)
            }

            func texts(_ sql: String) throws -> [String] {
                try HandlerStore(
                    path: store, registry: HandlerRegistry(), schemas: Account.schemas + UploadModule.schemas
                ).texts(sql)
            }
        }

        /// Where it is killed: the places of an upload, and those of the handlers and requests that it is made of.
        private static let places =
            UploadFailpoint.allCases.map(\.rawValue) + [
                "after-bind", "after-handler", "after-lease", "before-closing", "after-write",
            ]

        /// How often at each place: commits are many and alike, and the first twelve hold every step of an upload, as `make
        /// torture` has them.
        private static let hits = Int(ProcessInfo.processInfo.environment["UPLOAD_HITS"] ?? "") ?? 3

        @Test(
            "X27 killed at each hit of each place, an upload goes on, and one message with the link of the whole file is sent",
            arguments: ServerKind.allCases, ["send", "encrypt"])
        func killed(_ kind: ServerKind, _ task: String) async throws {
            try await withHome(kind) { home in
                let reader = try home.scene.peer(PackageResources.upload_peer_py)
                let line = try LoopbackProxy(to: home.server.startTLSPort)
                let (path, digest) = try home.file("photo.jpg", 300_000)
                var count = 0
                for place in Self.places {
                    for nth in 1... {
                        let program = Program(
                            home: home, line: line, name: "\(place)-\(nth)", task: task, file: path,
                            reader: reader.account)
                        let isKilled = try program.run("\(place):kill:\(nth)").signal != nil
                        if isKilled { #expect(try program.run().signal == nil) }
                        count += 1
                        try check(program, reader, digest, count)
                        guard isKilled else {
                            #expect(nth > 1, "\(place) was not reached")
                            break
                        }
                        if nth == Self.hits { break }
                    }
                }
            }
        }

        /// The handler ended once with a link to the whole file, and the reader got that link, once.
        private func check(_ program: Program, _ reader: SlixmppPeer, _ digest: String, _ count: Int) throws {
            let heard = try program.texts("SELECT text FROM heard")
            let link = try #require(
                heard.first?.split(separator: " ").last.map(String.init), "\(program.name)")
            #expect(heard == ["uploaded \(link)"], "\(program.name)")
            let links = try reader.links().map(\.text)
            #expect(
                links.count == count && links.filter { $0 == link }.count == 1, "\(program.name): \(links)")
            #expect(try reader.read(link).digest == digest, "\(program.name)")
            #expect(try program.texts("SELECT name FROM handler") == [], "\(program.name)")
            #expect(try program.texts("SELECT path FROM upload") == [], "\(program.name)")
        }

        @Test(
            "X27 a file of 9 MB takes no more memory than one of 1 kB, encrypted or not: less than 2 MiB"
        )
        func memory() async throws {
            try await withHome(.prosody) { home in
                let reader = try home.scene.peer(PackageResources.upload_peer_py)
                let line = try LoopbackProxy(to: home.server.startTLSPort)
                for task in ["send", "encrypt"] {
                    var peaks: [Int] = []
                    for size in [1000, 9_000_000] {
                        let (path, _) = try home.file("file-\(size)", size)
                        let program = Program(
                            home: home, line: line, name: "\(task)-\(size)", task: task, file: path,
                            reader: reader.account)
                        peaks.append(try #require(try program.run().peak))
                    }
                    #expect(peaks[0] > 0 && peaks[1] < peaks[0] + 2048, "\(task): \(peaks) KiB")
                }
            }
        }
    }
}
