import COmemo
import FoundationEssentials
import Glibc
import Handlers
import TestSupport
@testable import Omemo
import TestThreads
import Testing
@testable import XMPPAccount
@testable import XMPPTransport
import XMPPCore
import TestServers

/// Where keys and what was said must not be found.
@Suite(.ownThread, .serialized) struct SecretsTests {
    private let romeo = ScriptedScene.romeo
    private let juliet = ScriptedScene.juliet
    private static let words = "meet me at the tomb"

    // MARK: Log, store, command

    @Test(
        "O7 neither keys nor what was said stand in the log, XML and all, in handlers' arguments, in what inspect prints, in errors"
    )
    func nowhere() async throws {
        let scene = try ScriptedScene()
        let (ours, other) = (try await scene.device(romeo), try await scene.device(juliet))
        try await ours.send("\(Self.words) 1", to: juliet)
        #expect(try await other.heard(1) == ["\(Self.words) 1 blind"])
        try await other.send("\(Self.words) 2", to: romeo)
        #expect(try await ours.heard(1) == ["\(Self.words) 2 blind"])
        // Something that fails, is quarantined, and tells why.
        try other.store.step { _ = try $0.execute("ALTER TABLE note RENAME TO hidden") }
        try await ours.send("\(Self.words) 3", to: juliet)
        try await eventually("the message is quarantined") {
            try other.number("SELECT count(*) FROM handler WHERE input IS NOT NULL") > 0
        }
        for format in [[], ["--json"]] {
            let shown = try inspected(other, format)
            #expect(shown.contains("omemo.message-taken"), "what is quarantined is shown")
            #expect(!shown.contains(Self.words))
        }
        try other.store.step { _ = try $0.execute("ALTER TABLE hidden RENAME TO note") }
        // Something that waits, and something that cannot be read.
        try await ours.send("\(Self.words) 4", to: "nobody@localhost")
        try other.store.step { _ = try $0.execute("DELETE FROM omemo_session") }
        try await ours.send("\(Self.words) 5", to: juliet)
        _ = try await other.heard(2)

        let secrets = try keys(of: ours) + keys(of: other)
        #expect(secrets.count > 200)
        var forms = secrets.flatMap(Self.forms)
        forms.append(Self.words)
        func check(_ text: String, _ place: String) {
            for form in forms where text.contains(form) { Issue.record("a secret stands in \(place)") }
        }
        check(scene.log.text, "the log")
        #expect(scene.log.text.contains("<encrypted"), "the log shows the XML")
        for (name, device) in [("romeo", ours), ("juliet", other)] {
            check(try stored(in: device), "the store of \(name)")
            let everything = try stored(in: device, withSecrets: true)
            let own = try keys(of: device)[0]
            #expect(Self.forms(own).contains { everything.contains($0) }, "the search finds what is there")
            for format in [[], ["--json"]] {
                check(try inspected(device, format), "what inspect prints of \(name)")
            }
        }
        await scene.close()
    }

    /// Every private and symmetric key that a device has now.
    private func keys(of device: Ours) throws -> [[UInt8]] {
        let store = device.store
        func blobs(_ sql: String) throws -> [[UInt8]] {
            try store.step { try $0.all(sql) { (row) throws(HandlerError) in row.blob(0) } }
        }
        func privateKey(_ pair: OpaquePointer?) throws -> [UInt8] {
            SignalBuffer(try makeSignal { ec_private_key_serialize($0, ec_key_pair_get_private(pair)) }).bytes
        }
        var keys = try blobs("SELECT secret FROM omemo_own")
        for record in try blobs("SELECT record FROM omemo_prekey") {
            let key = SignalObject(
                try makeSignal { session_pre_key_deserialize($0, record, record.count, nil) })
            keys.append(try privateKey(session_pre_key_get_key_pair(key.pointer)))
        }
        for record in try blobs("SELECT record FROM omemo_signed_prekey") {
            let key = SignalObject(
                try makeSignal { session_signed_pre_key_deserialize($0, record, record.count, nil) })
            keys.append(try privateKey(session_signed_pre_key_get_key_pair(key.pointer)))
        }
        let context = try KeyContext()
        for bytes in try blobs("SELECT record FROM omemo_session") {
            let record = SignalObject(
                try makeSignal { session_record_deserialize($0, bytes, bytes.count, context.global) })
            let state = session_record_get_state(record.pointer)
            if let root = session_state_get_root_key(state) {
                keys.append(SignalBuffer(try makeSignal { ratchet_root_key_get_key(root, $0) }).bytes)
            }
            if session_state_has_sender_chain(state) == 1,
                let chain = session_state_get_sender_chain_key(state)
            {
                keys.append(SignalBuffer(try makeSignal { ratchet_chain_key_get_key(chain, $0) }).bytes)
            }
        }
        return keys
    }

    /// How a key could be written.
    private static func forms(_ key: [UInt8]) -> [String] {
        let hex = key.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        let base64 = Crypto.base64(key)
        let list = key.map(String.init).joined(separator: ", ")
        // Without the end, which depends on what follows.
        return [hex, hex.uppercased(), String(base64.dropLast(4)), list]
    }

    /// Everything in the store but the tables that are there for secrets, as text and hexadecimal digits.
    private func stored(in device: Ours, withSecrets: Bool = false) throws -> String {
        let secretTables: Set<String> = [
            "omemo_own", "omemo_prekey", "omemo_signed_prekey", "omemo_session", "omemo_waiting", "note",
            // What the account stores of its login.
            "login",
        ]
        let tables = try device.texts("SELECT name FROM sqlite_master WHERE type = 'table'")
            .filter { withSecrets || !secretTables.contains($0) }
        #expect(tables.contains("handler") && tables.contains("outbox"))
        var text = ""
        for table in tables {
            let columns = try device.texts("SELECT name FROM pragma_table_info('\(table)')")
            for column in columns {
                text += try device.texts(
                    "SELECT ifnull(CAST(\"\(column)\" AS TEXT), '') || ' ' || lower(ifnull(hex(\"\(column)\"), '')) FROM \"\(table)\""
                ).joined(separator: "\n")
            }
        }
        return text
    }

    private func inspected(_ device: Ours, _ options: [String]) throws -> String {
        let child = try ChildProcess(
            BuiltProduct.path("pushwake"), ["inspect", "--store", device.file] + options, output: .pipe)
        var text = ""
        while let line = try? child.output?.readLine(deadline: .now + .seconds(20)) { text += line + "\n" }
        _ = try child.waitUntilExit(deadline: .now + .seconds(20))
        return text
    }

    @Test("O7 values that hold keys do not print them")
    func printed() throws {
        let own = try SignalKeys.makeIdentity(device: #require(OmemoDeviceID(rawValue: 7)))
        let secret = own.secret.withBytes { Array($0) }
        var text = ""
        dump(own, to: &text)
        text += "\(own) \(String(reflecting: own))"
        for form in Self.forms(secret) { #expect(!text.contains(form)) }
    }

    // MARK: Files

    @Test("S7 O7 the files of a store that holds keys belong to their owner alone")
    func files() async throws {
        let scene = try ScriptedScene()
        let ours = try await scene.device(romeo)
        let names = try FileManager.default.contentsOfDirectory(atPath: scene.folder.path).filter {
            $0.hasPrefix(romeo)
        }
        #expect(names.count >= 3, "\(names)")
        for name in names {
            var status = stat()
            #expect(stat("\(scene.folder.path)/\(name)", &status) == 0)
            #expect(status.st_mode & 0o777 == 0o600, "\(name)")
        }
        #expect(try ours.own() != nil)
        await scene.close()
    }

    // MARK: Memory

    @Test(
        "O7 the keys of contents are nowhere in memory once these were encrypted",
        arguments: OmemoVersion.allCases)
    func encryptedKeys(_ version: OmemoVersion) throws {
        var sought = SoughtSecrets()
        for _ in 0..<5 {
            var payload = try OmemoPayload.encrypt(Array(Self.words.utf8), version)
            sought.add(payload.keyMaterial)
            payload.keyMaterial.wipe()
        }
        #expect(sought.occurrences() == 0)
        var known = SoughtSecrets()
        let held = Crypto.randomBytes(48)
        known.add(held)
        #expect(known.occurrences() > 0, "the search finds what is there")
        withExtendedLifetime(held) {}
    }

    @Test(
        "O7 the keys of contents are nowhere in memory once their messages were taken in",
        arguments: OmemoVersion.allCases)
    func decryptedKeys(_ version: OmemoVersion) async throws {
        let world = World()
        let (a, b) = (try world.add("juliet@capulet.lit/a"), try world.add("romeo@montague.lit/a"))
        let other = version == .legacy ? OmemoVersion.omemo2 : .legacy
        try world.settle()
        world.nodes["romeo@montague.lit \(other.deviceListNode)"] = nil
        try a.send("one", to: "romeo@montague.lit")
        try world.settle()
        #expect(try b.heard() == ["one blind"])
        var sought = SoughtSecrets()
        let content = OmemoContent(body: Self.words)
        let plaintext =
            version == .legacy
            ? Array(Self.words.utf8) : OmemoEnvelope.bytes(content, from: a.jid.bare, room: nil)
        for _ in 0..<5 {
            try world.receive(a.message(plaintext, to: b, version) { sought.add($0) }, b)
        }
        #expect(try b.heard() == [String](repeating: "\(Self.words) blind", count: 5))
        #expect(sought.occurrences() == 0)
        await world.close()
    }
}
