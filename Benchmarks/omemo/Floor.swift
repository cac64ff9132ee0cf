import COmemoFloor
import XMPPCore

/// Stanzas on their way, in a form for each side, so that making it is not measured.
struct Arriving {
    let stanzas: [[UInt8]]
    fileprivate let bytes: [UInt8]
    fileprivate let lengths: [Int32]

    init(_ stanzas: [[UInt8]]) {
        self.stanzas = stanzas
        bytes = Array(stanzas.joined())
        lengths = stanzas.map { Int32($0.count) }
    }
}

/// The C program that does the whole job, on a copy of a side's store: see Benchmarks/COmemoFloor.
final class Floor {
    struct Failure: Error {
        let reason: String
    }

    private let pointer: OpaquePointer
    private let side: Pair.Side

    init(_ side: Pair.Side) throws {
        let address = side.account.configuration.jid.description
        guard let pointer = omemo_floor_open(side.path, side.path + "-floor", address) else {
            throw Failure(reason: "the store \(side.path) cannot be copied and opened; look at the disk")
        }
        (self.pointer, self.side) = (pointer, side)
        try clear()
    }

    deinit { omemo_floor_close(pointer) }

    func encrypt(_ count: Int, _ body: String, to user: JID) throws {
        try check(omemo_floor_encrypt(pointer, user.description, body, Int32(count)))
    }

    func decrypt(_ stanzas: Arriving) throws {
        let (bytes, lengths) = (stanzas.bytes, stanzas.lengths)
        try check(omemo_floor_decrypt(pointer, bytes, lengths, Int32(lengths.count)))
    }

    func clear() throws {
        for table in ["outbox WHERE kind = 0", "heard"] {
            try check(omemo_floor_run(pointer, "DELETE FROM \(table)"))
        }
    }

    /// The messages in its outbox, as a stream would carry them to the other side.
    func sent(_ count: Int) throws -> [[UInt8]] {
        try (0..<count).map { index in
            let xml = text("SELECT xml FROM outbox WHERE kind = 0 ORDER BY seq LIMIT 1 OFFSET \(index)")
            return try side.stamped(Array((xml ?? "").utf8))
        }
    }

    /// What it heard, a line for each message.
    func heard() -> String { text(Pair.heard) ?? "" }

    private func text(_ sql: String) -> String? {
        omemo_floor_text(pointer, sql).map { String(cString: $0) }
    }

    private func check(_ code: Int32) throws {
        if code != 0 { throw Failure(reason: String(cString: omemo_floor_error(pointer))) }
    }
}
