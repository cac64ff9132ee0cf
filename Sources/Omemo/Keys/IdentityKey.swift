import COmemo
import XMPPTransport

/// The public identity key of a device: what its user compares, and what trust is given to.
///
/// Both versions of OMEMO use the same key in different forms; this is the Curve25519 form, which other clients
/// show as the fingerprint.
///
/// ```swift
/// let key = IdentityKey(fingerprint: scanned)
/// if key == device.key { try account.omemo.setTrust(.verified, in: device.key!, of: juliet, in: step) }
/// ```
///
/// Source: XEP-0384 section 8 (fingerprints), RFC 7748 section 4.1 (the map between the forms).
public struct IdentityKey: Hashable, Sendable, CustomStringConvertible {
    /// 32 bytes.
    public let bytes: [UInt8]

    /// The byte before a Curve25519 key where several kinds of keys are possible.
    static let curveType: UInt8 = 5
    static let size = 32

    /// Takes the bytes of a key; nil unless there are 32.
    ///
    /// - Parameter bytes: The Curve25519 form.
    public init?(bytes: [UInt8]) {
        guard bytes.count == Self.size else { return nil }
        self.bytes = bytes
    }

    /// The fingerprint as clients show it: 8 groups of 8 lowercase hexadecimal digits.
    public var fingerprint: String {
        stride(from: 0, to: Self.size, by: 4).map { bytes[$0..<$0 + 4].hexadecimal }.joined(separator: " ")
    }

    /// Reads a fingerprint, with or without spaces, in lower or upper case. Nil for anything else.
    ///
    /// - Parameter fingerprint: 64 hexadecimal digits.
    public init?(fingerprint: String) {
        let digits = fingerprint.utf8.filter { $0 != UInt8(ascii: " ") }
        guard digits.count == Self.size * 2, let bytes = [UInt8](hexadecimal: digits) else { return nil }
        self.init(bytes: bytes)
    }

    public var description: String { fingerprint }

    // MARK: The forms of the two versions

    /// Reads the form of a bundle: 33 bytes in the legacy version, the Ed25519 form in the current one.
    init?(wire: [UInt8], _ version: OmemoVersion) {
        guard let key = try? SignalKeys.publicKey(wire, version, isIdentity: true) else { return nil }
        self.init(signal: key.pointer)
    }

    /// Reads a key of libomemo-c.
    init?(signal key: OpaquePointer?) {
        guard let key, let buffer = ec_public_key_get_mont(key) else { return nil }
        self.init(bytes: SignalBuffer(buffer).bytes)
    }

    /// The form of a bundle.
    func wire(_ version: OmemoVersion) throws(SignalFailure) -> [UInt8] {
        let prefixed = [Self.curveType] + bytes
        guard version == .omemo2 else { return prefixed }
        let key = try SignalKeys.publicKey(prefixed, .legacy, isIdentity: true)
        guard let buffer = ec_public_key_get_ed(key.pointer) else { throw SignalFailure(code: SG_ERR_NOMEM) }
        return SignalBuffer(buffer).bytes
    }
}

/// The identity of the own device.
struct OwnIdentity: Sendable {
    let device: OmemoDeviceID
    let key: IdentityKey
    /// The private key, 32 bytes.
    let secret: SecretBytes
    /// The number of database copies at the device's last check; nil for a device that is not stored yet.
    var copies: Int64?
}
