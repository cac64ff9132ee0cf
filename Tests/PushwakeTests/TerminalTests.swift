import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore
import XMPPTestKit

@testable import PubSub
@testable import PushwakeCommands
@testable import Simulation
@testable import XMPPAccount
@testable import XMPPModules
@testable import XMPPTransport

/// Everything that can reach a terminal, a log or a report, with every character that could steer it.
@Suite(.ownThread, .timeLimit(.minutes(2)))
struct TerminalTests {
    /// C0, DEL, C1, separators, controls of the writing direction, and some of what is shown as nothing.
    private static let hostile: [Unicode.Scalar] = [
        0...0x1F, 0x7F...0x9F, 0xAD...0xAD, 0x61C...0x61C, 0x200B...0x200B, 0x200E...0x200F, 0x2028...0x202E,
        0x2060...0x2060, 0x2066...0x2069, 0xFEFF...0xFEFF, 0xE0041...0xE0041,
    ].joined().compactMap { Unicode.Scalar($0 as UInt32) }

    /// What a path makes of foreign text.
    struct Path: CustomTestStringConvertible, Sendable {
        let testDescription: String
        /// Whether it is a process, which gets all characters at once: one for each would take minutes.
        var isProgram = false
        let output: @Sendable (String) throws -> String
    }

    private static let alice = try! JID("alice@localhost")

    static let paths: [Path] =
        [
            Path(testDescription: "AccountError") { "\(AccountError(.streamError, $0))" },
            Path(testDescription: "TransportError") { "\(TransportError(.tlsFailed, $0, cause: $0))" },
            Path(testDescription: "SASLError") { "\(SASLError(.refused, $0, cause: $0))" },
            Path(testDescription: "StreamError") { "\(StreamError(.conflict, text: $0))" },
            Path(testDescription: "StanzaError") { "\(StanzaError(.badRequest, text: $0))" },
            Path(testDescription: "JIDError") { text in
                do { return "\(try JID("a b\(text)@"))" } catch { return "\(error)" }
            },
            Path(testDescription: "PubSubError") { "\(PubSubError(StanzaError(.badRequest, text: $0)))" },
            Path(testDescription: "PubSubPayloadError") { "\(PubSubPayloadError(.unreadable, $0))" },
            Path(testDescription: "names of a certificate") { text in
                let failure = CertificateVerification.Failure(
                    code: 62, names: [text], notBefore: text, notAfter: text)
                let names = TLSPeerNames(domain: "localhost", peer: "there")
                return "\(names.certificateFailure(failure, cause: text))"
            },
            Path(testDescription: "a logged line") { text in
                logged { $0.write(.error, .session, alice, text) }
            },
            Path(testDescription: "logged XML") { text in logged { $0.show(text, sent: false, alice) } },
            Path(testDescription: "a message") { text in
                ClientLine.Kind.allCases.map { kind in
                    ClientLine(
                        peer: "p" + text, nick: text, sentAt: Timestamp(milliseconds: 0), body: text,
                        kind: kind, isPrivate: true,
                        subject: text
                    ).text.description
                }.joined(separator: "\n")
            },
            Path(testDescription: "a message as JSON") { text in
                try Client.json(
                    ClientLine(
                        peer: text, nick: text, own: true, sentAt: Timestamp(milliseconds: 0), body: text,
                        subject: text)
                ).description
            },
            Path(testDescription: "a table") { text in
                var table = TextTable([.init(name: "n", least: 3)])
                table.add([text])
                return (table.lines(width: nil) + table.lines(width: 16)).joined(separator: "\n")
            },
            Path(testDescription: "inspect") { try contents($0).text(TerminalStyle(width: 400)).description },
            Path(testDescription: "inspect --json") { text in
                VisibleText(json: try OneLineJSON.text(contents(text))).description
            },
            Path(testDescription: "the report of a run") { try page($0) },
            Path(testDescription: "the report of a store") { try storePage($0) },
            Path(testDescription: "inspect with a filter") { text in
                try withStore(text) { try FoundHandlers($0, HandlerFilter(), limit: 9) }
                    .text(TerminalStyle()).description
            },
            Path(testDescription: "a dropped call") { text in
                var contents = try contents("")
                contents.dropped = [.init(handler: text, calls: 1, bytes: 1, age: 1)]
                return contents.text(TerminalStyle()).description
            },
        ] + programs

    /// What the programs make of their arguments. Of a store pushwake-omemo shows addresses, which hold none of these
    /// characters, and numbers.
    private static let programs: [Path] =
        [
            ("pushwake", [Self.text]), ("pushwake", ["inspect", "--store", Self.text]),
            ("pushwake", ["login", "--jid", Self.text, "--store", "/nowhere/store.db"]),
            ("pushwake-omemo", [Self.text, "--store", "/nowhere"]),
            ("pushwake-omemo", ["list", "--" + Self.text, "--store", "/nowhere"]),
            ("pushwake-omemo", ["list", "--store", Self.text]),
            ("pushwake-omemo", ["list", Self.text, "--json", "--store", "/nowhere"]),
            ("pushwake-omemo", ["list", "--jid", Self.text, "--store", "/nowhere"]),
            ("pushwake-omemo", ["trust", "a@b", "1", Self.text, "--store", "/nowhere"]),
            ("pushwake-postgres", [Self.text]),
            ("pushwake-postgres", ["inspect", "--store", "host=/nowhere dbname='\(Self.text)'"]),
        ].map { product, words in
            Path(testDescription: "\(product) \(words.joined(separator: " "))", isProgram: true) { text in
                let ending = try ProgramEnding(of: product, words.map { $0.replacing(Self.text, with: text) })
                return ending.output + ending.complaint
            }
        }

    /// Stands for the foreign text in the arguments of a program.
    private static let text = "TEXT"

    @Test("X22 none of the characters that steer a terminal passes any path raw", arguments: paths)
    func path(_ path: Path) throws {
        let plain = try path.output("x").unicodeScalars.count { $0 == "\n" }
        // No argument of a process holds a NUL.
        let texts = path.isProgram ? [Self.hostile.filter { $0 != "\0" }] : Self.hostile.map { [$0] }
        for scalars in texts {
            let output = try path.output("x\(String(String.UnicodeScalarView(scalars)))y")
            var found = output.unicodeScalars.filter(Set(Self.hostile).contains)
            found.removeAll { $0 == "\n" }
            #expect(found.isEmpty, "\(scalars): \(output)")
            let lines = output.unicodeScalars.count { $0 == "\n" }
            if scalars != ["\n"] { #expect(lines == plain, "\(scalars) made a line: \(output)") }
            for scalar in scalars where scalar != "\n" && scalar != "\r" {
                let forms = [
                    "\\u{\(String(scalar.value, radix: 16, uppercase: true))}", "\\u", "\\n", "\\r", "\\t",
                    "\\b", "\\f",
                ]
                #expect(forms.prefix(path.isProgram ? 1 : 7).contains(where: output.contains), "\(output)")
            }
        }
    }

    @Test(
        "X22 no line break in a body looks like a line of listen",
        arguments: ["\n", "\r\n", "\r", "\u{85}", "\u{2028}", "\u{B}"])
    func forgedLine(lineBreak: String) {
        let forged = "2026-01-01T00:00 alice@localhost: forged"
        let line = ClientLine(
            peer: "eve@localhost", sentAt: Timestamp(milliseconds: 0), body: "x\(lineBreak)\(forged)")
        for shown in line.text.description.utf8.split(whereSeparator: { $0 == 0x0A || $0 == 0x0D })
            .dropFirst()
        {
            #expect(String(Substring(shown)).hasPrefix("    "))
        }
        #expect(line.text.description.contains(forged))
    }

    @Test("X22 a stream error before TLS reaches the terminal without what steers it")
    func streamErrorBeforeTLS() throws {
        let allowed = Self.hostile.filter { $0.value >= 0x20 || ["\t", "\n"].contains($0) }
        let text = String(String.UnicodeScalarView(allowed))
        let folder = try TemporaryFolder()
        let server = try ScriptedServer(
            .init(
                accounts: ["alice": "secret"],
                certificate: try TestCertificates(in: folder.path).makeServerCertificate(for: ["localhost"])))
        try server.start()
        defer { server.stop(.reset) }
        server.setScript { element, _ in
            guard element.name == "starttls" else { return .pass }
            let condition = Element("conflict", namespace: Namespaces.streams)
            let words = Element("text", namespace: Namespaces.streams, text: text)
            return .answer([Element("error", namespace: Namespaces.stream, children: [condition, words])])
        }
        let ending = try ProgramEnding(
            of: "pushwake",
            [
                "login", "--jid", "alice@localhost", "--host", "127.0.0.1", "--port",
                "\(server.startTLSPort)",
                "--store", folder.path + "/a.db",
            ], environment: ["PUSHWAKE_PASSWORD": "secret"])
        #expect(ending.status != 0 && ending.complaint.contains("\\u{9B}"), "\(ending)")
        #expect(ending.complaint.unicodeScalars.count { Self.hostile.contains($0) } == 1, "\(ending)")
        let odd = try ProgramEnding(of: "pushwake", ["a\u{1B}[2J\u{202E}\u{9B}\n"])
        #expect(odd.complaint.contains("'a\\u{1B}[2J\\u{202E}\\u{9B}\\u{A}'"), "\(odd)")
    }

    @Test("X22 one file of each program writes to the terminal, and no other")
    func onlyTerminalWrites() throws {
        let sources = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "Sources")
        let places =
            #/\b(debugPrint|print|dump|fputs|puts|putchar|vprintf|printf|perror|fwrite|fprintf|NSLog)\(|FileHandle\.standard|TextOutputStream|/dev/(stdout|stderr)|\bwrite\(\s*(STD|1,|2,|terminal)|\bstd(out|err)\b/#
        let targets = [
            ("pushwake", nil), ("PushwakeCommands", "Terminal.swift"), ("Simulation", nil),
            ("pushwake-omemo", "Output.swift"), ("pushwake-postgres", nil), ("pushwake-dashboard", nil),
        ]
        for (target, exempt) in targets {
            let files = try #require(
                FileManager.default.enumerator(
                    at: sources.appending(path: target), includingPropertiesForKeys: nil))
            var count = 0
            for case let file as URL in files
            where file.pathExtension == "swift" && file.lastPathComponent != exempt {
                count += 1
                for line in try String(contentsOf: file, encoding: .utf8).split(separator: "\n") {
                    #expect(try places.firstMatch(in: line) == nil, "\(file.lastPathComponent): \(line)")
                }
            }
            #expect(count > 0)
        }
    }

    // MARK: Paths that need more than a line

    private static func logged(_ body: (AccountLog) -> Void) -> String {
        let kept = Kept("")
        body(AccountLog(level: .verbose) { entry in kept.withLock { $0 = "\(entry)" } })
        return kept.withLock { $0 }
    }

    private static func contents(_ text: String) throws -> StoreContents {
        var contents = try withStore(text) { try StoreContents($0, limit: 20) }
        contents.store = text
        return contents
    }

    /// Lends a reader of a store that holds a text wherever a row has one.
    private static func withStore<R>(_ text: String, _ body: (StoreReader) throws -> R) throws -> R {
        let folder = try TemporaryFolder()
        let path = folder.path + "/store.db"
        let store = try HandlerStore(path: path, registry: HandlerRegistry(), schemas: Account.schemas)
        try store.step { step in
            // As bytes, because a store takes no text with U+0000; another program may have written one.
            let bytes = Array(text.utf8)
            let words = "CAST(? AS TEXT)"
            try step.execute("INSERT INTO account(id, jid) VALUES (1, \(words))", bytes)
            try step.execute("INSERT INTO ownership VALUES (1, 7, \(words), NULL)", bytes)
            try step.execute(
                "INSERT INTO session(account, number, open_number, full_jid) VALUES (1, 3, 3, \(words))",
                bytes)
            try step.execute(
                "INSERT INTO outbox(account, session, kind, stanza_id, xml, created_at) VALUES (1, NULL, 0, \(words), '<m/>', 1)",
                bytes)
            try step.execute(
                "INSERT INTO handler(name, version, arguments, kind, state, bound_at, reason) VALUES (\(words), 1, ?, 0, 2, 1, \(words))",
                bytes, Array("{\"a\":\"\(text)\"}".utf8), bytes)
            try step.execute("INSERT INTO handler_key(key, handler) VALUES (\(words), 1)", bytes)
            try step.execute(
                "INSERT INTO ending(handler, name, outcome, reason, ended_at) VALUES (9, \(words), 1, \(words), 1)",
                bytes, bytes)
            try step.execute("INSERT INTO ending_detail(handler, key) VALUES (9, \(words))", bytes)
        }
        return try body(StoreReader(path: path, schemas: Account.schemas))
    }

    private static func storePage(_ text: String) throws -> String {
        let page = try withStore(text) { try StoreTimeline($0, limit: 20).page() }
        let start = try #require(page.range(of: "id=\"data\">"))
        return String(page[start.upperBound...].prefix { $0 != "<" })
    }

    private static func page(_ text: String) throws -> String {
        let json = String(decoding: try JSONEncoder().encode(["a": text]), as: UTF8.self)
        let flight = FlightRecorder.Flight(
            id: 1, name: text, arguments: json, bound: 0, boundBy: 0, reason: text, trace: 1)
        let page = try TimelinePage(
            title: "\(text)", verdict: "v", isGood: true, summary: "\(text)",
            lives: [.init(role: "main", pid: 1, start: 0, end: 1, fate: text)],
            marks: [.init(at: 0, kind: "push", text: text)],
            record: .init(flights: [flight], epochs: [], sessions: [])
        ).page()
        let start = try #require(page.range(of: "id=\"data\">"))
        return String(page[start.upperBound...].prefix { $0 != "<" })
    }
}
