import Platform

/// Random ids of stanzas: not guessable, and not repeated after a restart.
///
/// ```swift
/// let iq = IQ(type: .get, id: StanzaID.random(), payload: Element("ping", namespace: Namespaces.ping))
/// ```
public enum StanzaID {
    /// Returns 128 random bits in hexadecimal.
    ///
    /// - Returns: 32 hexadecimal digits.
    public static func random() -> String {
        let (high, low) = (Randomness().next(), Randomness().next())
        return String(unsafeUninitializedCapacity: 32) { space in
            for place in 0..<32 {
                let bits = (place < 16 ? high : low) >> (60 - 4 * (place % 16))
                let digit = UInt8(truncatingIfNeeded: bits & 15)
                space[place] = digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10
            }
            return 32
        }
    }

    /// Returns whether an id has the form of ``random()``, so that nobody can guess it who has not read the stanza.
    ///
    /// The requests that continue an operation have the id of the first one, with a mark and a number after it.
    package static func isRandom(_ id: ForeignText) -> Bool {
        let first = id.utf8.prefix { $0 != UInt8(ascii: "/") }
        return first.count == 32 && first.allSatisfy(isDigit)
            && id.utf8.dropFirst(32).allSatisfy { $0 < 0x40 }
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
            || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
    }
}
