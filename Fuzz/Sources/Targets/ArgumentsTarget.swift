import FoundationEssentials
@testable import Handlers
import XMPPAccount
import XMPPTransport
import XMPPCore

extension FuzzTarget {
    /// Stored arguments of handlers: the quick reader reads what Foundation's reads, or leaves it to that.
    static let arguments = FuzzTarget("arguments", dictionary: "json") { bytes in
        try compare(Texts.self, bytes)
        try compare(Numbers.self, bytes)
        try compare(Nested.self, bytes)
        try compare(Durable<Invalidation>.self, bytes)
        try compare(JSONValue.self, bytes)
        _ = ArgumentCoding.isTooDeep(bytes)
        _ = try? ArgumentCoding.record(bytes, handler: "fuzz")
        _ = try? ArgumentCoding.decode(FuzzHandlers.Answered.self, from: bytes, boundIn: 0)
        _ = try? ArgumentCoding.decode(Texts.self, from: bytes, boundIn: 0)
        _ = try? ArgumentCoding.decode(Numbers.self, from: bytes, boundIn: 0)
    }

    private static func compare<T: Codable>(_ type: T.Type, _ bytes: [UInt8]) throws {
        let data = Data(bytes)
        guard let value = try? PlainJSON.decode(type, from: bytes) else { return }
        let other: T
        do {
            other = try JSONDecoder().decode(type, from: data)
        } catch {
            throw Finding("\(type) is read from \(bytes.count) bytes which Foundation refuses: \(error)")
        }
        let (one, two) = (try encoded(value), try encoded(other))
        try require(
            one == two,
            "\(type) is read as \(String(decoding: one, as: UTF8.self)), by Foundation as \(String(decoding: two, as: UTF8.self))"
        )
        if let plain = PlainJSON.encode(value) {
            try require(
                plain == one,
                "\(type) is written as \(String(decoding: plain, as: UTF8.self)), by Foundation as \(String(decoding: one, as: UTF8.self))"
            )
        }
    }

    private static func encoded(_ value: some Encodable) throws -> [UInt8] {
        try [UInt8](ArgumentCoding.encoder().encode(value))
    }

    private struct Texts: Handler {
        static let id = "fuzz.texts"
        var name: String
        var nick: String?
        var list: [String]
        var address: JID?
        var link: URL?
        func run(_ call: borrowing Call<Invalidation>) throws {}
    }

    private struct Numbers: Handler {
        static let id = "fuzz.numbers"
        var int: Int
        var byte: UInt8?
        var unsigned: UInt64?
        var double: Double
        var float: Float?
        var flag: Bool
        var counts: [String: Int]?
        func run(_ call: borrowing Call<Invalidation>) throws {}
    }

    private struct Nested: Codable {
        struct Leaf: Codable {
            var value: [[Int?]]
            var next: [Leaf]?
        }
        var leaf: Leaf?
        var then: Durable<Invalidation>?
        var record: Record?
        var secret: Secret<String>?
        var date: Date?
        var data: Data?
    }
}
