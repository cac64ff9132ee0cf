import Platform
import XMPPCore

/// Where connections to web servers may lead.
///
/// Links come from strangers, and slots from a service. Either may name this machine or a service of its network, which does
/// not expect strangers. A name says nothing: what counts is the address to which the connection is made.
struct HTTPReach: Hashable, Sendable {
    /// Hosts that may be on this machine or in a private network, each with the names below it.
    let privateHosts: [String]
    /// The address of the proxy that makes all connections; nil for none.
    let proxy: String?

    init(privateHosts: [String] = [], proxy: String? = nil) {
        self.privateHosts = privateHosts.filter { !$0.isEmpty }
        // libcurl takes an empty text for none.
        self.proxy = proxy?.isEmpty == false ? proxy : nil
    }

    /// Returns whether a request may reach a web server at an address.
    ///
    /// - Parameters:
    ///   - request: The address of the request.
    ///   - address: What its host, or the proxy, was resolved to.
    func allows(_ request: ForeignText, at address: SocketAddress) -> Bool {
        // The proxy is the program's own choice, and decides where it connects.
        proxy != nil || address.isPublic || isPrivateHost(request)
    }

    private func isPrivateHost(_ request: ForeignText) -> Bool {
        guard let host = UploadSlot.authority(request).map(Self.withoutPort) else { return false }
        return privateHosts.contains { known in
            let end = host.suffix(known.utf8.count)
            guard known.isEqualIgnoringCase(end) else { return false }
            let rest = host.dropLast(end.count)
            return rest.isEmpty || rest.last == UInt8(ascii: ".")
        }
    }

    /// The bytes of the host, those of an address of IPv6 without brackets.
    private static func withoutPort(_ authority: ForeignText) -> [UInt8] {
        let bytes = Array(authority.utf8)
        guard bytes.first == UInt8(ascii: "[") else { return Array(bytes.prefix { $0 != UInt8(ascii: ":") }) }
        return Array(bytes.dropFirst().prefix { $0 != UInt8(ascii: "]") })
    }
}
