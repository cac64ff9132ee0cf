import FoundationEssentials
import XMPPCore

/// Reads which keys of which chains the messages of the account use; it shares no code with what makes them.
///
/// Source: XEP-0384 section 4.3; for the legacy version the messages of the Signal protocol.
struct KeyWitness {
    enum Sight {
        case fresh(digest: String)
        case wrong(String)
    }

    private struct Key: Hashable {
        let device: String
        let chain: [UInt8]
        let number: UInt64
    }

    /// What was encrypted with each key.
    private var used: [Key: [UInt8]] = [:]

    /// Looks at a message.
    mutating func see(_ message: Element) -> Sight {
        var digest: UInt64 = 0xcbf2_9ce4_8422_2325
        for encrypted in message.elements where encrypted.name == "encrypted" {
            guard let header = encrypted.elements.first(where: { $0.name == "header" }) else {
                return .wrong("\(message["id"] ?? "") has no header")
            }
            let lists = header.elements.filter { $0.name == "keys" }
            for list in lists.isEmpty ? [header] : lists {
                for key in list.elements where key.name == "key" {
                    let bytes = [UInt8](Data(base64Encoded: "\(key.text)") ?? Data())
                    for byte in bytes { digest = (digest ^ UInt64(byte)) &* 0x100_0000_01b3 }
                    let isExchange = ["true", "1"].contains("\(key["kex"] ?? key["prekey"] ?? "")")
                    let device = "\(list["jid"] ?? "")/\(key["rid"] ?? "")"
                    let isLegacy = lists.isEmpty
                    guard
                        let read = isLegacy ? Self.legacy(bytes, isExchange) : Self.current(bytes, isExchange)
                    else { return .wrong("a key of \(message["id"] ?? "") cannot be read") }
                    let place = Key(device: device, chain: read.chain, number: read.number)
                    if let before = used.updateValue(read.text, forKey: place), before != read.text {
                        return .wrong(
                            "\(message["id"] ?? "") uses key \(read.number) of a chain that another message has used"
                        )
                    }
                }
            }
        }
        return .fresh(digest: String(digest, radix: 16))
    }

    private typealias Read = (chain: [UInt8], number: UInt64, text: [UInt8])

    /// `OMEMOKeyExchange` and `OMEMOAuthenticatedMessage` around `OMEMOMessage`.
    private static func current(_ bytes: [UInt8], _ isExchange: Bool) -> Read? {
        guard let outer = isExchange ? Fields(bytes)?.bytes[5] : bytes, let message = Fields(outer)?.bytes[2],
            let fields = Fields(message), let number = fields.numbers[1], let chain = fields.bytes[3],
            let text = fields.bytes[4]
        else { return nil }
        return (chain, number, text)
    }

    /// `PreKeySignalMessage` and `SignalMessage`, each after a byte for the version; the second has a code of 8 bytes at its end.
    private static func legacy(_ bytes: [UInt8], _ isExchange: Bool) -> Read? {
        guard let outer = isExchange ? Fields(bytes.dropFirst())?.bytes[4] : bytes, outer.count > 9,
            let fields = Fields(outer[1..<(outer.count - 8)]), let chain = fields.bytes[1],
            let number = fields.numbers[2], let text = fields.bytes[4]
        else { return nil }
        return (chain, number, text)
    }

    /// The fields of a message of Protocol Buffers, by their numbers.
    private struct Fields {
        var numbers: [UInt64: UInt64] = [:]
        var bytes: [UInt64: [UInt8]] = [:]

        init?(_ message: some Collection<UInt8>) {
            var rest = Array(message)[...]
            while !rest.isEmpty {
                guard let tag = Self.number(&rest), let value = Self.number(&rest) else { return nil }
                switch tag & 7 {
                case 0: numbers[tag >> 3] = value
                case 2:
                    guard value <= rest.count else { return nil }
                    bytes[tag >> 3] = Array(rest.prefix(Int(value)))
                    rest = rest.dropFirst(Int(value))
                default: return nil
                }
            }
        }

        private static func number(_ rest: inout ArraySlice<UInt8>) -> UInt64? {
            var (value, shift): (UInt64, UInt64) = (0, 0)
            while let byte = rest.popFirst(), shift < 64 {
                value |= UInt64(byte & 0x7f) << shift
                if byte < 0x80 { return value }
                shift += 7
            }
            return nil
        }
    }
}
