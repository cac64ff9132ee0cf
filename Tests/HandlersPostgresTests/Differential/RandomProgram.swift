import Handlers
import TestSupport

/// A program of steps that follows from a seed, to be run on any engine.
///
/// What it does may fail in every way in which a program can fail; what it leaves and what it learns must be the same on all engines.
struct RandomProgram {
    private var random: SplitMix

    init(seed: UInt64) { random = SplitMix(seed: seed) }

    /// Texts that an engine, a collation or a limit may treat in a way of its own.
    private static let texts = [
        "plain", "", "a\0b", "\0", "caf\u{e9}", "cafe\u{301}", "€😀", "ı İ ß ς", "' OR 1=1 --", "\u{FFFE}",
        "\u{1}\u{7F}",
        "A", "a", " a ", "%_\\", "{\"$handler\": 1}", "null", String(repeating: "x", count: 513),
        String(repeating: "e\u{301}", count: 2000), String(repeating: "long ", count: 14_000),
    ]
    private static let keys = [
        "k", "K", "caf\u{e9}", "cafe\u{301}", "", "k\0", String(repeating: "k", count: 512),
    ]
    private static let lanes = ["l", "L", "e\u{301}", "\u{e9}", String(repeating: "l", count: 700), ""]
    private static let values: [OwnValue] = [
        .integer(.min), .integer(.max), .integer(0), .real(.nan), .real(.infinity), .real(-.infinity),
        .real(.leastNonzeroMagnitude), .real(.greatestFiniteMagnitude), .real(1.5), .blob([]),
        .blob([0, 255, 0]),
        .blob(Array(repeating: 7, count: 70_000)), .null,
    ]

    private mutating func number(_ range: Range<Int>) -> Int { Int.random(in: range, using: &random) }
    private mutating func chance(_ percent: Int) -> Bool { number(0..<100) < percent }

    /// More often a plain one, so that a program gets anywhere.
    private mutating func text() -> String { chance(60) ? "plain" : Self.texts[number(0..<Self.texts.count)] }
    private mutating func key() -> String {
        Self.keys[chance(60) ? number(0..<2) : number(0..<Self.keys.count)]
    }
    private mutating func lane() -> String {
        Self.lanes[chance(60) ? number(0..<2) : number(0..<Self.lanes.count)]
    }

    mutating func value() -> OwnValue {
        let index = number(0..<Self.values.count + 3)
        return index < Self.values.count ? Self.values[index] : .text(text())
    }

    /// What a handler does.
    mutating func actions(depth: Int = 0) -> [Action] {
        (0..<number(0..<3)).map { _ in
            switch number(0..<(depth < 2 ? 11 : 8)) {
            case 0: .note(text())
            case 1: .own(value())
            case 2: .fail(text())
            case 3: .clash
            case 4: .dangle
            case 5: .signal(key(), text())
            case 6: .invalidate(key(), text())
            case 7: .swallow(text())
            case 8: .schedule(milliseconds: number(0..<3000), actions(depth: depth + 1))
            case 9: .run(actions(depth: depth + 1))
            default: .bind(key(), actions(depth: depth + 1))
            }
        }
    }

    /// The next operation of a step.
    mutating func operation() -> Operation {
        switch number(0..<22) {
        case 0, 1:
            .schedule(
                actions(), orElse: chance(50) ? actions() : nil, milliseconds: number(0..<3000), every: nil)
        case 2:
            .schedule(
                actions(), orElse: nil, milliseconds: number(0..<3000), every: number(0..<3) * 1000 + 500)
        case 3, 4: .async(actions(), orElse: chance(50) ? actions() : nil, result: text())
        case 5: .bind(key(), actions(), replaces: chance(40))
        case 6: .stand(key(), actions(), ordered: chance(40))
        case 7, 8: .signal(key(), text())
        case 9: .misfit(key(), text())
        case 10:
            .lane(
                lane(), concurrency: chance(70) ? number(1..<3) : nil, rate: chance(30) ? number(1..<4) : nil)
        case 11, 12:
            .enqueue(lane(), priority: number(-2..<3), order: chance(40) ? key() : nil, actions())
        case 13: .chain(milliseconds: number(1..<4000), actions())
        case 14: .join(actions(), actions(), any: chance(50), meets: actions())
        case 15, 16: .workflow((0..<number(1..<4)).map { _ in moment() })
        case 17: .own(value())
        case 18: .note(text())
        case 19: .invalidate(number(0..<40), text())
        case 20: .discard(number(0..<40))
        default: .requeue(number(0..<40))
        }
    }

    private mutating func moment() -> Moment {
        switch number(0..<7) {
        case 0, 1: .step(actions(depth: 1))
        case 2: .sleep(milliseconds: number(0..<3000))
        case 3: .compensate(actions(depth: 1))
        case 4: .wait(key(), milliseconds: number(1..<3000))
        case 5: .child(actions(depth: 1))
        default: .end(text())
        }
    }

    /// The next step: what it does, and whether it is given up at its end.
    mutating func step() -> (operations: [Operation], isGivenUp: Bool) {
        ((0..<number(1..<4)).map { _ in operation() }, chance(8))
    }

    mutating func pause() -> Duration { .milliseconds(number(0..<2500)) }
}

/// A value for the program's own table.
enum OwnValue: Codable, Sendable {
    case integer(Int64), real(Double), text(String), blob([UInt8]), null
}

/// What a handler does in its step.
indirect enum Action: Codable, Sendable {
    case note(String), own(OwnValue), fail(String), clash, dangle, signal(String, String), invalidate(
        String, String)
    /// Has another one fail inside, and goes on.
    case swallow(String)
    case schedule(milliseconds: Int, [Action]), run([Action]), bind(String, [Action])
}

/// What a workflow does.
enum Moment: Codable, Sendable {
    case step([Action]), sleep(milliseconds: Int), compensate([Action]), wait(String, milliseconds: Int),
        child([Action])
    case end(String)
}

/// What the program does in a step.
enum Operation: Sendable {
    case schedule([Action], orElse: [Action]?, milliseconds: Int, every: Int?)
    case async([Action], orElse: [Action]?, result: String)
    case bind(String, [Action], replaces: Bool), stand(String, [Action], ordered: Bool)
    case signal(String, String)
    /// A signal of another type than any receiver takes.
    case misfit(String, String)
    case lane(String, concurrency: Int?, rate: Int?)
    case enqueue(String, priority: Int, order: String?, [Action])
    case chain(milliseconds: Int, [Action]), join([Action], [Action], any: Bool, meets: [Action])
    case workflow([Moment]), own(OwnValue), note(String)
    case invalidate(Int, String), discard(Int), requeue(Int)
}
