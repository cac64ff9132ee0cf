import COpenSSL
import XMPPCore

/// What a certificate says that its server is: the kinds of names of RFC 6120 section 13.7.1.2 beside DNS-ID and IP-ID, which OpenSSL
/// compares.
///
/// The common name of the subject counts never (RFC 9525 section 2), although RFC 6120 let it count where no other name is there.
struct ServerIdentifiers {
    /// `dNSName` and `iPAddress`, for errors alone.
    private(set) var names: [String] = []
    /// `id-on-dnsSRV` (RFC 4985): `_service.domain`.
    private(set) var services: [String] = []
    /// `id-on-xmppAddr` (RFC 6120 section 13.7.1.4): a domain, or an account's address, which no server has.
    private(set) var addresses: [String] = []

    init(of certificate: OpaquePointer) {
        guard let extensions = X509_get_ext_d2i(certificate, NID_subject_alt_name, nil, nil) else { return }
        let alternatives = OpaquePointer(extensions)
        defer { GENERAL_NAMES_free(alternatives) }
        for index in 0..<dh_GENERAL_NAMES_count(alternatives) {
            guard let name = dh_GENERAL_NAMES_at(alternatives, index) else { continue }
            switch name.pointee.type {
            case GEN_DNS: names.append(Self.text(name.pointee.d.dNSName))
            case GEN_OTHERNAME: add(name.pointee.d.otherName.pointee)
            default: continue
            }
        }
    }

    private mutating func add(_ other: OTHERNAME) {
        guard let value = other.value?.pointee else { return }
        switch (OBJ_obj2nid(other.type_id), value.type) {
        case (NID_SRVName, V_ASN1_IA5STRING): services.append(Self.text(value.value.ia5string))
        case (NID_XmppAddr, V_ASN1_UTF8STRING): addresses.append(Self.text(value.value.utf8string))
        default: return
        }
    }

    private static func text(_ string: UnsafeMutablePointer<ASN1_STRING>?) -> String {
        guard let string, let bytes = ASN1_STRING_get0_data(string) else { return "" }
        let buffer = UnsafeBufferPointer(start: bytes, count: Int(ASN1_STRING_length(string)))
        return String(decoding: buffer, as: UTF8.self)
    }

    /// All of them, for an error.
    var all: [String] { names + services + addresses }

    /// Returns whether an SRV-ID or XmppAddr is for the service for clients of a domain.
    func isService(of domain: String) -> Bool {
        let name = DomainName.ascii(domain).lowercased()
        return services.contains { Self.isService($0.lowercased(), of: name) }
            || addresses.contains { text in
                // As the domain of an address, so that both forms of an international name count.
                guard let jid = try? JID(text), jid == jid.domainJID else { return false }
                return DomainName.ascii(jid.domain.string) == name
            }
    }

    /// The service of servers is another one.
    private static let service = "_xmpp-client."

    private static func isService(_ presented: String, of name: String) -> Bool {
        guard presented.utf8.starts(with: service.utf8) else { return false }
        return isDomain(presented.dropFirst(service.count), of: name)
    }

    /// A wildcard stands for one whole label, the leftmost one, and not for all domains of a registry (RFC 6125 section 6.4.3).
    private static func isDomain(_ presented: Substring, of name: String) -> Bool {
        if presented.utf8.elementsEqual(name.utf8) { return true }
        guard presented.utf8.starts(with: "*.".utf8), let dot = name.utf8.firstIndex(of: UInt8(ascii: ".")),
            dot != name.utf8.startIndex
        else { return false }
        let (rest, parent) = (presented.dropFirst(), name[dot...])
        return rest.utf8.count { $0 == UInt8(ascii: ".") } > 1 && rest.utf8.elementsEqual(parent.utf8)
    }
}
