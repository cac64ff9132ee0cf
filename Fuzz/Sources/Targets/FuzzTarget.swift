// The fuzz targets: every entry of bytes that somebody else wrote, and what must hold whatever they are.
//
//     libFuzzer ──bytes──▶ Fuzzer ──┐
//                                   ├──▶ FuzzTarget.check ──▶ run: the code, and the rule that it must keep
//     corpus ───files───▶ Replay ───┘         └── processor time

/// An entry of foreign or stored bytes, and what must hold for all of them.
struct FuzzTarget: Sendable {
    /// What the input is.
    enum Form: Sendable {
        /// What a peer sends. Some inputs are also run with a piece of them repeated, up to ``FuzzTarget/largeBytes``.
        case text
        /// What a caller has limited to the length already, or directions for what is made or changed.
        case short
    }

    /// The name of the target and of its corpus.
    let name: String
    /// The longest input, in bytes.
    let maximumLength: Int
    /// The file in `Fuzz/dictionaries` with words that libFuzzer puts into inputs; nil for none.
    let dictionary: String?
    private let form: Form
    /// How many passes over one input its time is for.
    private let passes: Int64
    /// Runs the code under test on one input. It throws ``Finding`` where a rule is broken; what the code throws at bad
    /// input is none.
    private let run: @Sendable ([UInt8]) throws -> Void

    init(
        _ name: String, _ form: Form = .text, maximumLength: Int = 4096, passes: Int64 = 1,
        dictionary: String? = nil, _ run: @escaping @Sendable ([UInt8]) throws -> Void
    ) {
        self.name = name
        self.maximumLength = maximumLength
        self.dictionary = dictionary
        self.form = form
        self.passes = passes
        self.run = run
    }

    /// The longest that any input becomes, in bytes.
    static let largeBytes = 64 << 10
    /// Processor time that one pass over an input may cost, in milliseconds. Code that is not optimized is given more.
    static let limit: Int64 = {
        #if DEBUG
            1000
        #else
            100
        #endif
    }()
    /// One input in so many is also run large.
    private static let largeShare: UInt64 = 1024

    /// Runs the target once, so that what it makes for all inputs is there before time is taken.
    func prepare() { try? run([]) }

    /// Runs one input.
    ///
    /// - Throws: ``Finding`` when a rule is broken or the input costs too much time.
    func check(_ input: [UInt8]) throws(Finding) {
        try measure(input)
        let digest = Digest.of(input)
        guard case .text = form, !input.isEmpty, digest % Self.largeShare == 0 else { return }
        try measure(Self.enlarged(input, digest / Self.largeShare))
    }

    private func measure(_ input: [UInt8]) throws(Finding) {
        var cost = try time(input)
        // A busy machine makes the same input cost more now and then, as caches and pages are taken away: the least counts.
        for _ in 0..<2 where cost > Self.limit * passes { cost = min(cost, try time(input)) }
        try require(
            cost <= Self.limit * passes,
            "\(input.count) bytes took \(cost) ms of processor time, more than \(Self.limit * passes)")
    }

    private func time(_ input: [UInt8]) throws(Finding) -> Int64 {
        let start = ThreadClock.milliseconds
        do {
            try run(input)
        } catch let finding as Finding {
            throw finding
        } catch {
            // The code under test refused the input, which is its right.
        }
        return ThreadClock.milliseconds - start
    }

    /// An input with a piece of it repeated, half of the time a single character: what costs more than linear time shows.
    private static func enlarged(_ input: [UInt8], _ choice: UInt64) -> [UInt8] {
        let isContinuation = { (index: Int) in input[index] & 0xC0 == 0x80 }
        var start = Int(choice % UInt64(input.count))
        while start > 0, isContinuation(start) { start -= 1 }
        var end = start + 1
        if choice >> 48 & 1 == 0 { end += Int(choice >> 32 % 64) }
        end = min(end, input.count)
        while end < input.count, isContinuation(end) { end += 1 }
        let length = max(0, largeBytes - input.count) / (end - start) * (end - start)
        // Doubled, because this code is not optimized in tests.
        var repeated = Array(input[start..<end])
        while repeated.count < length { repeated += repeated.prefix(length - repeated.count) }
        return Array(input[..<end]) + repeated.prefix(length) + Array(input[end...])
    }
}

/// A rule that an input breaks.
struct Finding: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// Throws ``Finding`` unless the rule holds.
func require(_ holds: Bool, _ rule: @autoclosure () -> String) throws(Finding) {
    if !holds { throw Finding(rule()) }
}

extension Result {
    /// What a target needs besides its input; that it cannot be made is a finding, or the target would test nothing.
    func made() throws(Finding) -> Success {
        switch self {
        case .success(let value): return value
        case .failure(let error): throw Finding("the target cannot be set up: \(error)")
        }
    }
}
