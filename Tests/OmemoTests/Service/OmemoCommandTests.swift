import FoundationEssentials
import Handlers
import TestSupport
@testable import Omemo
import TestThreads
import Testing
import XMPPCore
import TestServers

/// `pushwake omemo`, as a process of its own beside the program whose store it looks at.
@Suite(.ownThread, .timeLimit(.minutes(3))) struct OmemoCommandTests {
    private func run(_ client: World.Client?, _ words: String...) throws -> ProgramEnding {
        let store = client.map { ["--store", $0.folder.path + "/store.db"] } ?? []
        return try ProgramEnding(of: "pushwake", ["omemo"] + words + store)
    }

    @Test(
        "O7 list shows every device with the fingerprint that its own program shows, for people and as JSON")
    func list() async throws {
        let (world, a, romeos) = try World.trio()
        let shown = try run(a)
        #expect(shown.status == 0, "\(shown)")
        let own = try a.own
        #expect(shown.output.contains("\(own.device)"), "\(shown)")
        #expect(shown.output.contains("this device  \(own.key.fingerprint)"), "\(shown)")
        for client in romeos {
            let (device, key) = try client.own
            let line = shown.output.split(separator: "\n").first { $0.contains("\(device) ") }
            #expect(line?.contains("blind") == true && line?.contains(key.fingerprint) == true, "\(shown)")
            // Eight groups of eight digits, as other clients show it.
            #expect(key.fingerprint.split(separator: " ").map(\.count) == [Int](repeating: 8, count: 8))
            #expect(try run(client).output.contains(key.fingerprint))
        }
        let one = try run(a, "list", romeo, "--json")
        let lines = try one.output.split(separator: "\n").map {
            try JSONDecoder().decode(Line.self, from: Data($0.utf8))
        }
        #expect(lines.map(\.device) == (try romeos.map { try $0.own.device.rawValue }.sorted()))
        #expect(Set(lines.compactMap(\.fingerprint)) == Set(try romeos.map { try $0.own.key.fingerprint }))
        #expect(
            lines.allSatisfy { $0.user == romeo && $0.trust == "blind" && !$0.own && $0.versions.count == 2 })
        await world.close()
    }

    private struct Line: Decodable {
        var user: String
        var device: UInt32
        var versions: [String]
        var fingerprint: String?
        var trust: String?
        var own: Bool
    }

    @Test("O7 trust writes a decision down, by fingerprint or by device, and the program follows it at once")
    func trust() async throws {
        let (world, a, romeos) = try World.trio()
        for client in romeos { _ = try client.heard() }
        let (first, second) = (try romeos[0].own, try romeos[1].own)
        let verified = try run(a, "trust", romeo, first.key.fingerprint, "verified")
        #expect(verified.status == 0, "\(verified)")
        #expect(verified.output == "\(romeo): the key \(first.key.fingerprint) is verified now\n")
        let refused = try run(a, "trust", romeo, "\(second.device)", "untrusted", "--json")
        #expect(refused.status == 0 && refused.output.contains(#""trust":"untrusted""#), "\(refused)")
        try a.send("two", to: romeo)
        try world.settle()
        #expect(try romeos[0].heard() == ["two blind"])
        #expect(try romeos[1].heard() == ["failed not-for-this-device"])
        #expect(try a.heard() == ["sent 1 the device's key is not trusted"])
        await world.close()
    }

    @Test("O7 what is wrong is said and changes nothing: no store, no such key, user, device or decision")
    func wrong() async throws {
        let (world, a, _) = try World.trio()
        let before = try a.texts("SELECT hex(identity) || trust FROM omemo_identity ORDER BY identity")
        let stranger = try SignalKeys.makeIdentity(device: a.own.device).key.fingerprint
        let cases: [(status: Int32, words: String, ending: ProgramEnding)] = [
            (64, "--store is missing", try run(nil, "list")),
            (1, "never had the key", try run(a, "trust", romeo, stranger, "verified")),
            (1, "no key of a device 5", try run(a, "trust", romeo, "5", "verified")),
            (64, "is no decision", try run(a, "trust", romeo, stranger, "perhaps")),
            (64, "neither a fingerprint", try run(a, "trust", romeo, "abc", "verified")),
            (1, "no device of nobody@capulet.lit is known", try run(a, "list", "nobody@capulet.lit")),
            (1, "holds no OMEMO device of romeo", try run(a, "--jid", romeo)),
            (64, "there is no command 'forget'", try run(a, "forget")),
            (1, "there is no file", try run(nil, "--store", a.folder.path + "/none.db")),
        ]
        for (status, words, ending) in cases {
            #expect(ending.status == status && ending.complaint.contains(words), "\(words): \(ending)")
            #expect(ending.output == "")
        }
        #expect(try a.texts("SELECT hex(identity) || trust FROM omemo_identity ORDER BY identity") == before)
        #expect(try run(nil, "help").output.contains("pushwake omemo --store FILE"))
        await world.close()
    }

    @Test("O7 only what says so links libomemo-c: pushwake does not, and no other module imports it or Omemo")
    func license() throws {
        func names(_ product: String) throws -> Bool {
            let search = try ChildProcess(
                "/bin/grep", ["-q", "libomemo-c\\.so", BuiltProduct.path(product)])
            return try search.waitUntilExit(deadline: .now + .seconds(30)).status == 0
        }
        #expect(try names("pushwake-omemo") && !names("pushwake"))
        let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../..")
            .standardized
        let sources = root.appending(path: "Sources").path
        let files = try FileManager.default.subpathsOfDirectory(atPath: sources).filter {
            $0.hasSuffix(".swift")
        }
        let importing = try files.filter { file in
            try String(contentsOfFile: sources + "/" + file, encoding: .utf8).split(separator: "\n")
                .contains { $0.hasSuffix("import COmemo") || $0.hasSuffix("import Omemo") }
        }
        let folders = Set(importing.map { String($0.prefix { $0 != "/" }) })
        #expect(folders == ["Omemo", "pushwake-omemo"])
    }
}
