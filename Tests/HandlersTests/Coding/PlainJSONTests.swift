import Foundation
import HandlersTestKit
import TestThreads
import Testing

@testable import Handlers

/// The quick coder beside Foundation's, which says what is right.
@Suite(.ownThread) struct PlainJSONTests {
    private func foundation(_ value: some Encodable) throws -> [UInt8] {
        try [UInt8](ArgumentCoding.encoder().encode(value))
    }

    private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    private struct Box<Value: Codable & Equatable>: Codable, Equatable {
        var value: Value
        var last = "text"
        var first = 1
    }

    /// Writes and reads 500 values by both coders.
    ///
    /// - Parameter atLeast: How many of them the quick coder must write and read by itself.
    private func compare<V: Codable & Equatable>(
        _ type: V.Type = V.self, atLeast: Int, _ sample: (inout SeededGenerator) -> V
    ) throws {
        var generator = SeededGenerator(seed: 1)
        var written = 0
        var read = 0
        for _ in 0..<500 {
            let box = Box(value: sample(&generator))
            let bytes = try foundation(box)
            if let quick = PlainJSON.encode(box) {
                written += 1
                #expect(text(quick) == text(bytes))
            }
            let expected = try JSONDecoder().decode(Box<V>.self, from: Data(bytes))
            if let quick = try? PlainJSON.decode(Box<V>.self, from: bytes) {
                read += 1
                #expect(quick == expected, "from \(text(bytes))")
                // Also tells -0 from 0.
                #expect(try foundation(quick) == foundation(expected))
            }
        }
        #expect(min(written, read) >= atLeast, "\(V.self): \(written) written, \(read) read")
    }

    @Test("H5 arguments are stored as the same bytes and read as the same values by either coder")
    func bothCoders() throws {
        try compare(atLeast: 400, String.sample)
        try compare(atLeast: 500, Bool.random)
        try compare(atLeast: 400, Int.sample)
        try compare(atLeast: 0, Int8.sample)
        try compare(atLeast: 0, Int16.sample)
        try compare(atLeast: 500, Int32.sample)
        try compare(atLeast: 400, Int64.sample)
        try compare(atLeast: 400, UInt.sample)
        try compare(atLeast: 500, UInt8.sample)
        try compare(atLeast: 0, UInt16.sample)
        try compare(atLeast: 500, UInt32.sample)
        try compare(atLeast: 400, UInt64.sample)
        try compare(atLeast: 200, Double.sample)
        try compare(atLeast: 200) { Date(timeIntervalSinceReferenceDate: .sample(using: &$0)) }
        try compare(atLeast: 0) { Data((0..<UInt8.sample(using: &$0) % 9).map { $0 &* 37 }) }
        try compare(atLeast: 400) { Bool.random(using: &$0) ? nil : String.sample(using: &$0) }
        try compare(atLeast: 0) { [.sample(using: &$0), nil, .sample(using: &$0)] as [UInt8?] }
        try compare(atLeast: 150) { CodingSample.Point(using: &$0) }
        try compare(atLeast: 300) { Bool.random(using: &$0) ? CodingSample.Suit.hearts : nil }
        try compare(atLeast: 200, Durable<Int>.sample)
        try compare(atLeast: 30, CodingSample.init)
        try compare(atLeast: 0, CodingSample.Shape.init)
    }

    @Test("H5 usual arguments need no help from Foundation's coders")
    func quickPath() throws {
        let inner = CodingSampleHandler(number: 2, name: "a \"quoted\"\nline / ü", then: nil)
        let handler = CodingSampleHandler(number: 1, fraction: 0.25, name: "Juliet", then: try inner.durable)
        let bytes = try #require(PlainJSON.encode(handler))
        #expect(text(bytes) == text(try foundation(handler)))
        let read = try PlainJSON.decode(CodingSampleHandler.self, from: bytes)
        #expect(try read.durable == handler.durable)
    }

    @Test("H5 JSON that was not written here means what Foundation says it means", arguments: 0..<8)
    func readsForeign(seed: Int) throws {
        var generator = SeededGenerator(seed: UInt64(seed))
        for _ in 0..<400 {
            var bytes = try foundation(CodingSample(using: &generator))
            for _ in 0..<Int.random(in: 1...2, using: &generator) { Self.mutate(&bytes, using: &generator) }
            guard let value = try? PlainJSON.decode(CodingSample.self, from: bytes) else { continue }
            let expected = try? JSONDecoder().decode(CodingSample.self, from: Data(bytes))
            #expect(value == expected, "from \(text(bytes))")
        }
    }

    private static let fragments = [
        " ", "\n", "\"", "\\", "\\u0041", "\\ud83d\\ude00", "\\ud83d", "{}", "[]", "{", "}", ",", ":", "null",
        "true",
        "1", "01", "-", "-0", "1.", ".5", "1e5", "1.0", "1E+2", "1e400", "1e-400", "99999999999999999999",
        "0x1", "NaN",
        "/*x*/", "\"zzz\":1,", "\"aardvark\":\"b\",", "\u{0}", "\u{1}", "\u{feff}", "é",
    ].map { Array($0.utf8) }

    private static func mutate(_ bytes: inout [UInt8], using generator: inout SeededGenerator) {
        let place = Int.random(in: 0..<bytes.count, using: &generator)
        switch Int.random(in: 0..<4, using: &generator) {
        case 0: bytes.remove(at: place)
        case 1: bytes[place] = UInt8.random(in: 0...255, using: &generator)
        case 2: bytes.insert(contentsOf: fragments.randomElement(using: &generator) ?? [], at: place)
        default:
            // A fragment in the place of a number or a word, which is more often JSON than anywhere else.
            let values = bytes.indices.dropFirst().filter { bytes[$0 - 1] == UInt8(ascii: ":") }
            let start = values.randomElement(using: &generator) ?? place
            let end = bytes[start...].firstIndex { [UInt8(ascii: ","), UInt8(ascii: "}")].contains($0) }
            bytes.replaceSubrange(
                start..<(end ?? bytes.count), with: fragments.randomElement(using: &generator) ?? [])
        }
    }

    @Test(
        "H5 texts that only Foundation reads are left to it",
        arguments: [
            #"{"name":"a","name":"b"}"#, #"{"name" :"a"}"#, #"{"name":"\u0061"}"#, #"{"name":"a\/b"}"#,
            "{\"name\":\"\u{1}\"}", #"{"name":"a"} "#, #"{"name":"a"}}"#, #"{"name":"a""#, #"{"name":"a",}"#,
            #"{"zero":01,"name":"a"}"#, #"{"name":nul}"#, "", "{", #"{"a":"#, #"{"b":1,"a":1}"#,
        ])
    func leavesToFoundation(json: String) {
        struct Named: Decodable { var name: String }
        #expect(throws: NotPlain.self) { try PlainJSON.decode(Named.self, from: Array(json.utf8)) }
        // For they have nothing to read.
        struct Empty: Decodable {}
        #expect(throws: NotPlain.self) { try PlainJSON.decode(Empty.self, from: Array(json.utf8)) }
    }

    @Test("H5 bytes that are no UTF-8 are left to Foundation")
    func invalidText() {
        let bytes = Array(#"{"name":""#.utf8) + [0xc3, 0x28] + Array(#""}"#.utf8)
        #expect(throws: NotPlain.self) { try PlainJSON.decode(CodingSample.Point.self, from: bytes) }
    }

    // MARK: Types that code themselves

    /// Tries one type and then another, and hides the error of the first.
    private struct Either: Codable, Equatable {
        var text: String?
        var number: Int?
        enum CodingKeys: CodingKey { case value }

        init(text: String? = nil, number: Int? = nil) { (self.text, self.number) = (text, number) }

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            number = try? container.decode(Int.self, forKey: .value)
            text = number == nil ? try? container.decode(String.self, forKey: .value) : nil
        }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            if let number { try container.encode(number, forKey: .value) }
            if let text { try container.encode(text, forKey: .value) }
        }
    }

    @Test(
        "H5 a type that hides an error while it reads itself gets what Foundation gives",
        arguments: [
            #"{"value":1.0}"#, #"{"value":"a"}"#, #"{"value":12345678901234567890}"#, #"{"value":null}"#,
        ])
    func hiddenErrors(json: String) throws {
        let expected = try JSONDecoder().decode(Either.self, from: Data(json.utf8))
        #expect(try ArgumentCoding.value(Either.self, from: Array(json.utf8)) == expected)
    }

    /// Looks at the path, asks for nested containers, or does what encoders seldom see.
    private struct Unusual: Codable, Equatable {
        enum Way: String, Codable, CaseIterable {
            case path, nested, nestedList, inherited, twice, sameName, allNames, nothing, single, escapedName
        }
        enum Name: String, CodingKey { case way, list, other, quoted = "a \"name\"" }

        var way: Way

        init(_ way: Way) { self.way = way }

        init(from decoder: any Decoder) throws {
            guard let container = try? decoder.container(keyedBy: Name.self), container.contains(.way) else {
                way = (try? decoder.singleValueContainer().decode(String.self)) == nil ? .nothing : .single
                return
            }
            way = try container.decode(Way.self, forKey: .way)
            if way == .path, !container.codingPath.isEmpty { way = .nothing }
            if way == .allNames { way = container.allKeys.count == 1 ? .allNames : .nothing }
            if way == .nested {
                let nested = try container.nestedContainer(keyedBy: Name.self, forKey: .list)
                way = try nested.decode(Int.self, forKey: .other) == 1 ? .nested : .nothing
            }
            if way == .nestedList {
                var nested = try container.nestedUnkeyedContainer(forKey: .list)
                way = try nested.decode(Int.self) == 1 && nested.isAtEnd ? .nestedList : .nothing
            }
            if way == .inherited { _ = try container.superDecoder() }
        }

        func encode(to encoder: any Encoder) throws {
            if way == .nothing { return }
            if way == .single {
                var container = encoder.singleValueContainer()
                return try container.encode("text")
            }
            var container = encoder.container(keyedBy: Name.self)
            try container.encode(way, forKey: .way)
            switch way {
            case .path: if !container.codingPath.isEmpty { try container.encode(2, forKey: .other) }
            case .nested:
                var nested = container.nestedContainer(keyedBy: Name.self, forKey: .list)
                try nested.encode(1, forKey: .other)
            case .nestedList:
                var nested = container.nestedUnkeyedContainer(forKey: .list)
                try nested.encode(1)
            case .inherited: try 5.encode(to: container.superEncoder())
            case .twice:
                var second = encoder.container(keyedBy: Name.self)
                try second.encode(1, forKey: .other)
            case .sameName:
                try container.encode(1, forKey: .other)
                try container.encode(2, forKey: .other)
            case .escapedName: try container.encode(1, forKey: .quoted)
            case .allNames, .nothing, .single: break
            }
        }
    }

    private struct Holder: Codable, Equatable { var held: Unusual }

    @Test(
        "H5 a type with a way of its own is stored and read as by Foundation", arguments: Unusual.Way.allCases
    )
    private func unusual(way: Unusual.Way) throws {
        let value = Holder(held: Unusual(way))
        let expected = try foundation(value)
        #expect(text(try ArgumentCoding.encode(value)) == text(expected))
        let read = try JSONDecoder().decode(Holder.self, from: Data(expected))
        #expect(try ArgumentCoding.value(Holder.self, from: expected) == read)
    }

    @Test("H4 arguments that Foundation refuses are refused with its error")
    func refused() {
        #expect(throws: EncodingError.self) { try ArgumentCoding.encode(["x": Double.nan]) }
        #expect(throws: DecodingError.self) {
            try ArgumentCoding.value(CodingSample.Point.self, from: Array(#"{"y":300}"#.utf8))
        }
    }

    @Test("H5 values of the types that coders treat in a way of their own are stored as by Foundation")
    func specialTypes() throws {
        struct Special: Codable, Equatable {
            var float: Float = 0.1
            var decimal = Decimal(string: "3.14159265358979323846")
            var address = URL(string: "https://example.org/a%20b")
            var wide = Int128.max
            var byName = ["b": 1, "a": 2, "é": 3, "z": 4]
            var byNumber = [2: "b"]
        }
        let bytes = try ArgumentCoding.encode(Special())
        #expect(text(bytes) == text(try foundation(Special())))
        #expect(try ArgumentCoding.value(Special.self, from: bytes) == Special())
        for one in [["b": 1, "a": 2], ["é": 3, "z": 4, "e": 5, "Z": 6, "_": 7], ["ab": 1, "a": 2, "": 3]] {
            #expect(text(try ArgumentCoding.encode(one)) == text(try foundation(one)))
        }
    }

    @Test("H5 an argument nested deeper than the quick coder goes is stored as by Foundation")
    func deep() throws {
        indirect enum Tree: Codable, Equatable {
            case leaf
            case branch(Tree)
        }
        let tree = (0..<100).reduce(Tree.leaf) { tree, _ in .branch(tree) }
        #expect(PlainJSON.encode(tree) == nil)
        let bytes = try foundation(tree)
        #expect(throws: NotPlain.self) { try PlainJSON.decode(Tree.self, from: bytes) }
        #expect(try ArgumentCoding.value(Tree.self, from: bytes) == tree)
    }

    /// Reads its member only when it is asked for it.
    private struct Late: Decodable {
        enum Name: CodingKey { case text }
        let decoder: any Decoder

        init(from decoder: any Decoder) { self.decoder = decoder }

        var text: String {
            get throws { try decoder.container(keyedBy: Name.self).decode(String.self, forKey: .text) }
        }
    }

    @Test("H5 a type may keep its decoder and read from it later")
    func keptDecoder() throws {
        let words = "a text that is too long for the inside of a string"
        var bytes = Array("{\"text\":\"\(words)\"}".utf8)
        let late = try ArgumentCoding.value(Late.self, from: bytes)
        for index in bytes.indices { bytes[index] = 0 }
        #expect(try late.text == words)
    }
}
