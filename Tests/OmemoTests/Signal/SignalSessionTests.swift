import COmemo
@testable import Omemo
import TestThreads
import Testing

/// The double ratchet of both versions between two devices.
@Suite(.ownThread) struct SignalSessionTests {
    private func pair(_ version: OmemoVersion) throws -> (Device, Device) {
        let (alice, bob) = (try Device(1), try Device(2))
        try alice.start(with: bob.bundle(version))
        return (alice, bob)
    }

    @Test(
        "O1 two devices talk both ways; only what nobody has answered carries the key exchange",
        arguments: OmemoVersion.allCases)
    func bothWays(_ version: OmemoVersion) throws {
        let (alice, bob) = try pair(version)
        let first = try alice.encrypt("one", version)
        let second = try alice.encrypt("two", version)
        #expect(first.isKeyExchange && second.isKeyExchange)
        #expect(try bob.decrypt(first, version) == "one")
        #expect(try bob.decrypt(second, version) == "two")
        let answer = try bob.encrypt("three", version)
        #expect(!answer.isKeyExchange)
        #expect(try alice.decrypt(answer, version) == "three")
        let third = try alice.encrypt("four", version)
        #expect(!third.isKeyExchange)
        #expect(try bob.decrypt(third, version) == "four")
    }

    @Test("O3 the prekey of a key exchange is used once", arguments: OmemoVersion.allCases)
    func usedPreKey(_ version: OmemoVersion) throws {
        let (alice, bob) = try pair(version)
        _ = try bob.decrypt(alice.encrypt("one", version), version)
        #expect(bob.preKeyIDs == [2, 3])
    }

    @Test("O5 messages out of order and with gaps are read, each once", arguments: OmemoVersion.allCases)
    func outOfOrder(_ version: OmemoVersion) throws {
        let (alice, bob) = try pair(version)
        let messages = try (0..<5).map { try alice.encrypt("m\($0)", version) }
        for index in [3, 0, 4, 1] { #expect(try bob.decrypt(messages[index], version) == "m\(index)") }
        let again = #expect(throws: SignalFailure.self) { try bob.decrypt(messages[3], version) }
        #expect(again?.error.code == .duplicate)
        #expect(try bob.decrypt(messages[2], version) == "m2")
    }

    @Test("O5 a changed message is refused and changes nothing", arguments: OmemoVersion.allCases)
    func changed(_ version: OmemoVersion) throws {
        let (alice, bob) = try pair(version)
        _ = try bob.decrypt(alice.encrypt("one", version), version)
        _ = try alice.decrypt(bob.encrypt("two", version), version)
        let message = try alice.encrypt("three", version)
        let before = bob.session
        for index in message.bytes.indices {
            var bytes = message.bytes
            bytes[index] ^= 1
            #expect(throws: SignalFailure.self, "byte \(index)") {
                try bob.decrypt(.init(bytes: bytes, isKeyExchange: false), version)
            }
        }
        #expect(bob.session == before)
        #expect(try bob.decrypt(message, version) == "three")
    }

    @Test("O5 a session that was replaced stays readable", arguments: OmemoVersion.allCases)
    func replaced(_ version: OmemoVersion) throws {
        let (alice, bob) = try pair(version)
        _ = try bob.decrypt(alice.encrypt("one", version), version)
        let late = try bob.encrypt("late", version)
        try alice.start(with: bob.bundle(version))
        #expect(try bob.decrypt(alice.encrypt("new", version), version) == "new")
        #expect(try alice.decrypt(late, version) == "late")
    }

    @Test(
        "O5 of two sessions started at the same moment the own one is preferred for sending",
        arguments: OmemoVersion.allCases)
    func crossing(_ version: OmemoVersion) throws {
        let (alice, bob) = try pair(version)
        try bob.start(with: alice.bundle(version))
        let (fromAlice, fromBob) = (try alice.encrypt("a1", version), try bob.encrypt("b1", version))
        #expect(try alice.decrypt(fromBob, version) == "b1")
        #expect(try !alice.encrypt("in the other's", version).isKeyExchange)
        let record = try SessionRecord(try #require(alice.session))
        let preferred = try record.preferringOwn()
        let session: [UInt8] = try #require(preferred)
        alice.session = session
        let next = try alice.encrypt("a2", version)
        #expect(next.isKeyExchange)
        // A peer that keeps one session only has replaced its own by Alice's.
        let simple = try forgetful(bob, reading: fromAlice, version)
        #expect(try simple.decrypt(next, version) == "a2")
        #expect(try alice.decrypt(simple.encrypt("b2", version), version) == "b2")
    }

    /// The device after a key exchange, if it kept no session from before.
    private func forgetful(
        _ device: Device, reading message: SignalSession.Encrypted, _ version: OmemoVersion
    ) throws -> Device {
        device.session = nil
        _ = try device.decrypt(message, version)
        return device
    }

    @Test("O3 a bundle whose signature is wrong starts no session", arguments: OmemoVersion.allCases)
    func signature(_ version: OmemoVersion) throws {
        let (alice, bob) = (try Device(1), try Device(2))
        let good = try bob.bundle(version)
        var signature = good.signature
        signature[5] ^= 1
        let bad = OmemoBundle(
            version: version, identityKey: good.identityKey, signedPreKey: good.signedPreKey,
            signature: signature,
            preKeys: good.preKeys)
        let failure = #expect(throws: SignalFailure.self) { try alice.start(with: bad) }
        #expect(failure?.code == SG_ERR_INVALID_KEY)
        #expect(alice.session == nil)
    }

    @Test("O1 the two versions do not read each other's messages")
    func versions() throws {
        for (one, other) in [(OmemoVersion.legacy, OmemoVersion.omemo2), (.omemo2, .legacy)] {
            let (alice, bob) = try pair(one)
            let message = try alice.encrypt("one", one)
            #expect(throws: SignalFailure.self) { try bob.decrypt(message, other) }
            #expect(bob.session == nil)
        }
    }

    @Test("O5 noise instead of a key is refused and never crashes", arguments: OmemoVersion.allCases)
    func noise(_ version: OmemoVersion) throws {
        let (alice, bob) = try pair(version)
        let good = try alice.encrypt("one", version)
        _ = try bob.decrypt(good, version)
        _ = try alice.decrypt(bob.encrypt("two", version), version)
        let plain = try alice.encrypt("three", version)
        var generator = SystemRandomNumberGenerator()
        for round in 0..<2000 {
            var bytes = round % 2 == 0 ? good.bytes : plain.bytes
            switch round % 5 {
            case 0:
                bytes = (0..<Int.random(in: 0...300, using: &generator)).map { _ in
                    UInt8.random(in: 0...255, using: &generator)
                }
            case 1: bytes.removeLast(Int.random(in: 1...bytes.count, using: &generator))
            case 2: bytes += [UInt8](repeating: 0xFF, count: 40)
            default:
                for _ in 0..<4 {
                    bytes[Int.random(in: 0..<bytes.count, using: &generator)] = UInt8.random(
                        in: 0...255, using: &generator)
                }
            }
            guard bytes != good.bytes, bytes != plain.bytes else { continue }
            for isKeyExchange in [true, false] {
                #expect(throws: SignalFailure.self) {
                    try bob.decrypt(.init(bytes: bytes, isKeyExchange: isKeyExchange), version)
                }
            }
        }
        #expect(try bob.decrypt(plain, version) == "three")
    }
}
