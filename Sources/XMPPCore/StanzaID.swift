/// Ids of stanzas: random, so that nobody can guess one and none is used again after a restart.
///
/// ```swift
/// let iq = IQ(type: .get, id: StanzaID.random(), payload: Element("ping", namespace: Namespaces.ping))
/// ```
public enum StanzaID {
    /// 128 random bits in hexadecimal.
    ///
    /// - Returns: 32 hexadecimal digits.
    public static func random() -> String {
        var generator = SystemRandomNumberGenerator()
        return [generator.next(), generator.next()].map { (bits: UInt64) in
            let text = String(bits, radix: 16)
            return String(repeating: "0", count: 16 - text.count) + text
        }.joined()
    }
}
