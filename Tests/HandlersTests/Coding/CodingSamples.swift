import Foundation
import Handlers
import HandlersTestKit

/// The usual kinds of arguments, with members that are not declared in the order in which they are written.
struct CodingSample: Codable, Equatable {
    enum Suit: String, Codable { case hearts, spades }
    enum Shape: Codable, Equatable {
        case nothing
        case circle(radius: Double)
        case named(String, UInt8)
    }
    struct Point: Codable, Equatable {
        var y: Int32
        var x: Double
        var label: String?
    }

    var zebra: String
    var truth: Bool
    var device: UInt32
    var number: Double
    var maybe: Int?
    var suit: Suit
    var point: Point
    var corner: Point?
    var then: Durable<Int>?
    var aardvark: String

    init(using generator: inout SeededGenerator) {
        zebra = .sample(using: &generator)
        truth = .random(using: &generator)
        device = .sample(using: &generator)
        number = .sample(using: &generator)
        maybe = .random(using: &generator) ? nil : 7
        suit = .random(using: &generator) ? .hearts : .spades
        point = Point(using: &generator)
        corner = .random(using: &generator) ? nil : Point(using: &generator)
        then = .random(using: &generator) ? nil : .sample(using: &generator)
        aardvark = .sample(using: &generator)
    }
}

extension CodingSample.Point {
    init(using generator: inout SeededGenerator) {
        self.init(y: .sample(using: &generator), x: .sample(using: &generator), label: nil)
        if Bool.random(using: &generator) { label = .sample(using: &generator) }
    }
}

extension CodingSample.Shape {
    init(using generator: inout SeededGenerator) {
        switch Int.random(in: 0..<3, using: &generator) {
        case 0: self = .nothing
        case 1: self = .circle(radius: .sample(using: &generator))
        default: self = .named(.sample(using: &generator), .sample(using: &generator))
        }
    }
}

struct CodingSampleHandler: Handler {
    static let id = "test.sample"
    var number: Int32
    var fraction: Double?
    var name: String
    var then: Durable<Int>?
    func run(_ call: borrowing Call<Int>) {}
}

extension Durable<Int> {
    static func sample(using generator: inout SeededGenerator) -> Durable {
        let inner: Durable? = Int.random(in: 0..<3, using: &generator) == 0 ? .sample(using: &generator) : nil
        let handler = CodingSampleHandler(
            number: .sample(using: &generator),
            fraction: Int.random(in: 0..<4, using: &generator) == 0 ? .sample(using: &generator) : nil,
            name: .sample(using: &generator), then: inner)
        // Every sample is finite and shallow, so it can be stored.
        return try! handler.durable
    }
}

extension FixedWidthInteger {
    static func sample(using generator: inout SeededGenerator) -> Self {
        switch Int.random(in: 0..<4, using: &generator) {
        case 0: [.min, .max, 0, 1, 10, .max - 1].randomElement(using: &generator) ?? 0
        default: Self(truncatingIfNeeded: generator.next() >> UInt64.random(in: 0..<64, using: &generator))
        }
    }
}

extension Double {
    static func sample(using generator: inout SeededGenerator) -> Double {
        let edges = [
            0, -0.0, 1, -1, 0.1, 1e15, 1e16, 1e17, 123456789012345680, 1e300, -1e300, 1e-300, 0.5, 1e21, 1e-7,
            .greatestFiniteMagnitude, .leastNormalMagnitude, .leastNonzeroMagnitude, .pi, 9007199254740992,
        ]
        switch Int.random(in: 0..<3, using: &generator) {
        case 0: return edges.randomElement(using: &generator) ?? 0
        case 1: return Double(Int.random(in: -1_000_000...1_000_000, using: &generator)) / 64
        default:
            let value = Double(bitPattern: generator.next())
            return value.isFinite ? value : 0
        }
    }
}

extension String {
    private static let pieces = [
        "a", "Juliet", " ", "/", "\"", "\\", "\n", "\r", "\t", "\u{8}", "\u{c}", "\u{1f}", "\u{7f}", "\u{0}",
        "ü", "é",
        "e\u{301}", "日本", "👩‍👩‍👧", "\u{2028}", "\u{feff}", "\u{fffd}", "{", "}", "[", "]", ":", ",", "\\u0041",
        "null",
        "a longer text without anything to escape in it",
    ]

    /// Three of four without anything out of the ordinary.
    static func sample(using generator: inout SeededGenerator) -> String {
        let isOrdinary = Int.random(in: 0..<4, using: &generator) > 0
        let pieces = isOrdinary ? ["a", "\"", "\n", "Juliet", " ", "/", "ü", "日本"] : pieces
        let count = Int.random(in: 0..<6, using: &generator)
        return (0..<count).map { _ in pieces.randomElement(using: &generator) ?? "" }.joined()
    }
}
