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
}
