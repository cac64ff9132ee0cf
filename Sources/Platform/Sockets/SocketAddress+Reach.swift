// Which networks an address leads to (IANA's registries of special-purpose addresses, RFC 6890).
extension SocketAddress {
    /// Whether it is an address of the public internet, of one host: not of this machine, a private or local network, a network of a
    /// carrier, a multicast group, documentation, nor reserved.
    ///
    /// An address of IPv6 that stands for one of IPv4 is public if that is.
    package var isPublic: Bool {
        let bytes = hostBytes
        return switch bytes.count {
        case 4: Self.isPublic(version4: bytes)
        case 16: Self.isPublic(version6: bytes)
        default: false
        }
    }

    private static func isPublic(version4 bytes: some RandomAccessCollection<UInt8>) -> Bool {
        let number = bytes.reduce(0 as UInt32) { $0 << 8 | UInt32($1) }
        return !specialNetworks4.contains { $0.network == number & ~UInt32(0) << (32 - $0.length) }
    }

    private static func isPublic(version6 bytes: [UInt8]) -> Bool {
        // ::ffff:0:0/96, IPv4-mapped (RFC 4291 section 2.5.5.2); 64:ff9b::/96, translated (RFC 6052 section 2.1).
        let mapped = [UInt8](repeating: 0, count: 10) + [0xFF, 0xFF]
        let translated = [0, 0x64, 0xFF, 0x9B] + [UInt8](repeating: 0, count: 8)
        if bytes.starts(with: mapped) || bytes.starts(with: translated) {
            return isPublic(version4: bytes[12...])
        }
        // 2002::/16, 6to4 (RFC 3056 section 2).
        if bytes.starts(with: [0x20, 0x02]) { return isPublic(version4: bytes[2..<6]) }
        // Global unicast addresses are in 2000::/3 alone (RFC 4291 section 2.4): all else is loopback, unspecified, unique-local,
        // link-local, site-local, multicast or reserved.
        guard bytes[0] & 0xE0 == 0x20 else { return false }
        let start = bytes[..<4].reduce(0 as UInt32) { $0 << 8 | UInt32($1) }
        return !specialNetworks6.contains { $0.network == start & ~UInt32(0) << (32 - $0.length) }
    }

    /// Networks of IPv4 without public hosts.
    private static let specialNetworks4: [(network: UInt32, length: UInt32)] = [
        (0x0000_0000, 8),  // this network, the unspecified address (RFC 791)
        (0x0A00_0000, 8),  // private (RFC 1918)
        (0x6440_0000, 10),  // shared by the customers of a carrier (RFC 6598)
        (0x7F00_0000, 8),  // loopback (RFC 1122)
        (0xA9FE_0000, 16),  // link-local (RFC 3927): also what clouds tell a machine about itself
        (0xA83F_8110, 32),  // what Azure tells a machine about itself, at an address that looks public
        (0xAC10_0000, 12),  // private
        (0xC000_0000, 24),  // protocols of the IETF (RFC 6890)
        (0xC000_0200, 24),  // documentation (RFC 5737)
        (0xC058_6300, 24),  // relays of 6to4 (RFC 7526)
        (0xC0A8_0000, 16),  // private
        (0xC612_0000, 15),  // measurements (RFC 2544)
        (0xC633_6400, 24),  // documentation
        (0xCB00_7100, 24),  // documentation
        (0xE000_0000, 4),  // multicast (RFC 5771)
        (0xF000_0000, 4),  // reserved, broadcast (RFC 1112)
    ]

    /// Networks within 2000::/3 without public hosts, by the first 32 bits.
    private static let specialNetworks6: [(network: UInt32, length: UInt32)] = [
        (0x2001_0000, 23),  // protocols of the IETF (RFC 2928), Teredo (RFC 4380) among them
        (0x2001_0DB8, 32),  // documentation (RFC 3849)
        (0x3FFF_0000, 20),  // documentation (RFC 9637)
    ]
}
