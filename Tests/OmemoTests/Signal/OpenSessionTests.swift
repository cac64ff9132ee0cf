import COmemo
import Glibc
@testable import Omemo
import TestThreads
import Testing

/// Sessions that are held open between messages, beside the library's own way, which reads the record for each.
@Suite(.ownThread) struct OpenSessionTests {
    private let opened = OpenSessions()

    /// Runs in the session that is held open.
    private func perform<R>(
        _ device: Device, _ version: OmemoVersion, _ body: (SignalSession) throws -> R
    ) throws -> R {
        let number = try #require(OmemoDeviceID(rawValue: 9))
        let peer = OmemoAddress(jid: try .init("peer@example.test"), device: number, version: version)
        let memory = opened.memory(device.own, with: peer, record: device.session)
        defer {
            device.session = memory.session
            // As the record is looked at after each message that arrives.
            if let open = try? memory.removeOpen() { memory.putBack(open) }
            opened.keep(memory, with: peer)
        }
        return try body(SignalSession(version, memory))
    }

    /// What the library makes of it by itself, and the record that it leaves.
    private func byLibrary(
        _ text: String, _ device: Device, _ version: OmemoVersion
    ) throws -> (bytes: [UInt8], session: [UInt8]?) {
        let memory = SignalMemory(own: device.own, session: device.session)
        let context = try SignalContext(memory)
        let address = UnsafeMutablePointer<signal_protocol_address>.allocate(capacity: 1)
        let name = try #require(strdup("peer"))
        address.initialize(to: signal_protocol_address(name: name, name_len: 4, device_id: 1))
        defer {
            address.deallocate()
            free(name)
        }
        let cipher = try makeSignal { session_cipher_create($0, context.stores, address, context.global) }
        defer { session_cipher_free(cipher) }
        session_cipher_set_version(cipher, version == .legacy ? 3 : 4)
        let plaintext = Array(text.utf8)
        let message = SignalObject(
            try makeSignal { session_cipher_encrypt(cipher, plaintext, plaintext.count, $0) })
        return (SignalBuffer.bytes(of: ciphertext_message_get_serialized(message.pointer)), memory.session)
    }

    @Test(
        "O6 a session that is held open encrypts what the library does, byte by byte, and leaves the same record",
        arguments: OmemoVersion.allCases)
    func encrypting(_ version: OmemoVersion) throws {
        let (alice, bob) = (try Device(1), try Device(2))
        try alice.start(with: bob.bundle(version))
        for round in 0..<3 {
            // With the key exchange in the first round, without it in the others, which have chains of their own.
            for number in 0..<3 {
                let text = "round \(round), \(number)"
                let expected = try byLibrary(text, alice, version)
                let message = try perform(alice, version) { try $0.encrypt(Array(text.utf8)) }
                #expect(message.bytes == expected.bytes && message.isKeyExchange == (round == 0))
                #expect(alice.session == expected.session)
                #expect(try bob.decrypt(message, version) == text)
            }
            let answer = try bob.encrypt("answer", version)
            _ = try perform(alice, version) { try $0.decrypt(answer.bytes, isKeyExchange: false) }
        }
    }

    @Test(
        "O5 a session that is held open reads what the library reads, refuses what it refuses, and leaves the same record",
        arguments: OmemoVersion.allCases)
    func decrypting(_ version: OmemoVersion) throws {
        let (alice, bob) = (try Device(1), try Device(2))
        try alice.start(with: bob.bundle(version))
        _ = try bob.decrypt(try alice.encrypt("hello", version), version)
        // The first one starts a chain: from there on nothing is left to chance.
        _ = try alice.decrypt(try bob.encrypt("hello", version), version)
        let messages = try (0..<9).map { try bob.encrypt("m\($0)", version).bytes }
        // Every byte once, the code over them too.
        let changed = messages[4].indices.map { index in
            var bytes = messages[4]
            bytes[index] ^= 1
            return bytes
        }
        let arriving =
            [
                messages[0], messages[1], messages[1], messages[3], messages[2],
            ] + changed + [
                messages[4], [], messages[8], messages[5], messages[8], messages[0], messages[7], messages[6],
            ]
        var read: [String] = []
        for bytes in arriving {
            let before = alice.session
            let expected = outcome { try alice.decrypt(.init(bytes: bytes, isKeyExchange: false), version) }
            let after = alice.session
            alice.session = before
            let found = outcome {
                try perform(alice, version) {
                    String(
                        decoding: try $0.decrypt(bytes, isKeyExchange: false).plaintext, as: UTF8.self)
                }
            }
            #expect(found == expected)
            #expect(alice.session == after)
            if case .success(let text) = found { read.append(text) }
        }
        #expect(read == ["m0", "m1", "m3", "m2", "m4", "m8", "m5", "m7", "m6"])
    }

    private func outcome(_ body: () throws -> String) -> Result<String, SignalFailure> {
        do {
            return .success(try body())
        } catch {
            return .failure(error as? SignalFailure ?? SignalFailure(code: 0))
        }
    }

    @Test("O6 an open record counts only for the bytes that it was written as")
    func stale() throws {
        let (alice, bob) = (try Device(1), try Device(2))
        try alice.start(with: bob.bundle(.omemo2))
        let before = alice.session
        let never = try perform(alice, .omemo2) { try $0.encrypt(Array("never".utf8)) }
        // What a part of a step that was undone leaves.
        alice.session = before
        let message = try perform(alice, .omemo2) { try $0.encrypt(Array("never".utf8)) }
        #expect(message.bytes == never.bytes)
        alice.session = nil
        #expect(throws: SignalFailure.noSession) {
            try perform(alice, .omemo2) { try $0.encrypt(Array("never".utf8)) }
        }
    }

    @Test("O6 no more than a fixed number of sessions is held open")
    func limited() throws {
        let device = try Device(1)
        for number in UInt32(1)...UInt32(OpenSessions.limit + 5) {
            let peer = OmemoAddress(
                jid: try .init("peer@example.test"), device: try #require(OmemoDeviceID(rawValue: number)),
                version: .omemo2)
            opened.keep(SignalMemory(own: device.own), with: peer)
        }
        #expect(opened.count == OpenSessions.limit)
    }
}
