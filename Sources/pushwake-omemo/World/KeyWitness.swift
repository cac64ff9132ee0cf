import FoundationEssentials
import XMPPCore

/// Reads which keys of which chains the account's messages use. It shares no code with the encryption.
///
/// Source: XEP-0384 section 4.3; for the legacy version, the messages of the Signal protocol.
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

    /// The ciphertext that was encrypted with each key.
    private var used: [Key: [UInt8]] = [:]
    /// The chains of the peer, in the order of their first use.
    private var chains: [[UInt8]] = []
    /// The chains of the peer's messages, by their ids.
    private var chainOfMessage: [String: [UInt8]] = [:]
    /// The number of the peer's chains that libomemo-c keeps in a session. Messages of older chains cannot be read.
    private static let keptChains = 5

    /// Checks a message of the account.
    mutating func see(_ message: Element) -> Sight {
        var digest = StableHash()
        guard let keys = Self.keys(in: message) else {
            return .wrong("\(message["id"] ?? "") cannot be understood")
        }
        for key in keys {
            digest.combine(key.bytes)
            let place = Key(device: key.device, chain: key.read.chain, number: key.read.number)
            guard let before = used.updateValue(key.read.text, forKey: place) else { continue }
            if before != key.read.text {
                return .wrong(
                    "\(message["id"] ?? "") uses a key again, number \(key.read.number) of its chain")
            }
        }
        return .fresh(digest: String(digest.value, radix: 16))
    }

    /// Records the chain of a peer's message.
    mutating func seeOfPeer(_ message: Element) {
        guard let chain = Self.keys(in: message)?.first?.read.chain else { return }
        if !chains.contains(chain) { chains.append(chain) }
        chainOfMessage["\(message["id"] ?? "")"] = chain
    }

    /// Whether the peer has used so many newer chains that the account cannot read the message any more.
    func isTooOld(_ id: String) -> Bool {
        let place = chainOfMessage[id].flatMap { chains.firstIndex(of: $0) } ?? chains.count
        return chains.count - place > Self.keptChains
    }

    // MARK: Reading

    /// Returns the keys in a message; nil if any key cannot be read.
    private static func keys(in message: Element) -> [(device: String, bytes: [UInt8], read: Read)]? {
        var keys: [(device: String, bytes: [UInt8], read: Read)] = []
        for encrypted in message.elements where encrypted.name == "encrypted" {
            guard let header = encrypted.elements.first(where: { $0.name == "header" }) else { return nil }
            let lists = header.elements.filter { $0.name == "keys" }
            for list in lists.isEmpty ? [header] : lists {
                for key in list.elements where key.name == "key" {
                    let bytes = [UInt8](Data(base64Encoded: "\(key.text)") ?? Data())
                    let isExchange = ["true", "1"].contains("\(key["kex"] ?? key["prekey"] ?? "")")
                    let read = lists.isEmpty ? legacy(bytes, isExchange) : current(bytes, isExchange)
                    guard let read else { return nil }
                    keys.append(("\(list["jid"] ?? "")/\(key["rid"] ?? "")", bytes, read))
                }
            }
        }
        return keys
    }

    private typealias Read = (chain: [UInt8], number: UInt64, text: [UInt8])

    /// Reads `OMEMOKeyExchange` and `OMEMOAuthenticatedMessage` around `OMEMOMessage`.
    private static func current(_ bytes: [UInt8], _ isExchange: Bool) -> Read? {
        guard let outer = isExchange ? Fields(bytes)?.bytes[5] : bytes, let message = Fields(outer)?.bytes[2],
            let fields = Fields(message), let number = fields.numbers[1], let chain = fields.bytes[3],
            let text = fields.bytes[4]
        else { return nil }
        return (chain, number, text)
    }

    /// Reads `PreKeySignalMessage` and `SignalMessage`. Each follows a byte for the version, and the second ends with a code of 8
    /// bytes.
    private static func legacy(_ bytes: [UInt8], _ isExchange: Bool) -> Read? {
        guard let outer = isExchange ? Fields(bytes.dropFirst())?.bytes[4] : bytes, outer.count > 9,
            let fields = Fields(outer[1..<(outer.count - 8)]), let chain = fields.bytes[1],
            let number = fields.numbers[2], let text = fields.bytes[4]
        else { return nil }
        return (chain, number, text)
    }

    /// The fields of a Protocol Buffers message, by number.
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
