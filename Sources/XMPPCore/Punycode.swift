/// Punycode (RFC 3492), in which DNS writes labels of other letters than those of ASCII.
package enum Punycode {
    /// The prefix of an encoded label (RFC 5890 section 2.3.2.5).
    package static let prefix = "xn--"

    /// Returns the Punycode of a label (RFC 3492 section 6.3).
    package static func encode(_ label: some Sequence<Unicode.Scalar>) -> String {
        let scalars = label.map(\.value)
        var output = scalars.filter { $0 < 0x80 }.map { UInt8($0) }
        let basicCount = output.count
        var handled = basicCount
        if basicCount > 0 { output.append(UInt8(ascii: "-")) }
        var threshold: UInt32 = 0x80
        var bias = 72
        var delta = 0
        while handled < scalars.count, let next = scalars.filter({ $0 >= threshold }).min() {
            delta += Int(next - threshold) * (handled + 1)
            threshold = next
            for scalar in scalars {
                if scalar < threshold { delta += 1 }
                if scalar == threshold {
                    appendVariableLength(delta, bias: bias, to: &output)
                    bias = adapted(delta, points: handled + 1, isFirst: handled == basicCount)
                    delta = 0
                    handled += 1
                }
            }
            delta += 1
            threshold += 1
        }
        return String(decoding: output, as: UTF8.self)
    }

    /// Returns the label of a Punycode text (RFC 3492 section 6.2); nil if the text is not Punycode.
    ///
    /// - Parameter text: The label without its prefix.
    package static func decode(_ text: Substring) -> String? {
        guard text.utf8.allSatisfy({ $0 < 0x80 }) else { return nil }
        let delimiter = text.utf8.lastIndex(of: UInt8(ascii: "-"))
        var scalars = text[..<(delimiter ?? text.startIndex)].unicodeScalars.map { $0 }
        var digits = text.utf8[(delimiter.map { text.utf8.index(after: $0) } ?? text.startIndex)...]
        var scalar = 0x80
        var index = 0
        var bias = 72
        while !digits.isEmpty {
            guard let step = readVariableLength(&digits, bias: bias) else { return nil }
            let count = scalars.count + 1
            bias = adapted(step, points: count, isFirst: index == 0 && scalar == 0x80)
            scalar += (index + step) / count
            index = (index + step) % count
            guard scalar <= 0x10FFFF, let next = Unicode.Scalar(UInt32(scalar)) else { return nil }
            scalars.insert(next, at: index)
            index += 1
        }
        return String(String.UnicodeScalarView(scalars))
    }

    // MARK: Numbers of variable length

    private static func limit(_ step: Int, _ bias: Int) -> Int { min(max(step - bias, 1), 26) }

    private static func appendVariableLength(_ number: Int, bias: Int, to output: inout [UInt8]) {
        var rest = number
        for step in sequence(first: 36, next: { $0 + 36 }) {
            let limit = limit(step, bias)
            if rest < limit { break }
            output.append(digit(limit + (rest - limit) % (36 - limit)))
            rest = (rest - limit) / (36 - limit)
        }
        output.append(digit(rest))
    }

    /// Nil when the digits end too early or say more than any label can mean.
    private static func readVariableLength(_ digits: inout Substring.UTF8View, bias: Int) -> Int? {
        var number = 0
        var weight = 1
        for step in sequence(first: 36, next: { $0 + 36 }) {
            guard let byte = digits.popFirst(), let digit = value(byte), weight < 1 << 32 else { return nil }
            number += digit * weight
            let limit = limit(step, bias)
            if digit < limit { break }
            weight *= 36 - limit
        }
        return number < 1 << 32 ? number : nil
    }

    private static func digit(_ value: Int) -> UInt8 {
        value < 26 ? UInt8(ascii: "a") + UInt8(value) : UInt8(ascii: "0") + UInt8(value - 26)
    }

    private static func value(_ digit: UInt8) -> Int? {
        switch digit {
        case UInt8(ascii: "a")...UInt8(ascii: "z"): Int(digit - UInt8(ascii: "a"))
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): Int(digit - UInt8(ascii: "A"))
        case UInt8(ascii: "0")...UInt8(ascii: "9"): Int(digit - UInt8(ascii: "0")) + 26
        default: nil
        }
    }

    private static func adapted(_ delta: Int, points: Int, isFirst: Bool) -> Int {
        var rest = isFirst ? delta / 700 : delta / 2
        rest += rest / points
        var bias = 0
        while rest > 35 * 26 / 2 {
            rest /= 35
            bias += 36
        }
        return bias + 36 * rest / (rest + 38)
    }
}
