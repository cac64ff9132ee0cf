/// A type of channel binding (XEP-0440 lists those of a server).
package enum ChannelBindingType: String, CaseIterable, Hashable, Sendable {
    /// Derived from the session's keys, TLS 1.3 only (RFC 9266).
    case tlsExporter = "tls-exporter"
    /// The first Finished message, TLS 1.2 only (RFC 5929 section 3).
    case tlsUnique = "tls-unique"
    /// The hash of the server's certificate (RFC 5929 section 4).
    case tlsServerEndPoint = "tls-server-end-point"

    /// The best first: the first two bind to the session, the third only to the certificate.
    package static var byPreference: [ChannelBindingType] { allCases }
}

/// The channel binding data of a TLS session.
package struct ChannelBindings: Hashable, Sendable {
    private var values: [ChannelBindingType: [UInt8]] = [:]

    package init(_ values: [ChannelBindingType: [UInt8]] = [:]) { self.values = values }

    package subscript(type: ChannelBindingType) -> [UInt8]? {
        get { values[type] }
        set { values[type] = newValue }
    }

    /// The types that the session has data for, the best first.
    package var types: [ChannelBindingType] { ChannelBindingType.byPreference.filter { values[$0] != nil } }

    /// The type to use where the server does not say which it has: `tls-exporter` with TLS 1.3 (RFC 9266 section 3),
    /// `tls-unique` with TLS 1.2 (RFC 5929, RFC 5801 section 8), and the certificate's where the session has neither.
    package var defaultType: ChannelBindingType? { types.first }

    package var isEmpty: Bool { values.isEmpty }
}

/// The statement of a SCRAM client about channel binding in the gs2 header (RFC 5802 section 6).
package enum ChannelBinding: Hashable, Sendable {
    /// `n`: this client does not use it.
    case unsupported
    /// `y`: this client could, but believes that the server cannot. A server that can then knows that its
    /// offer was tampered with.
    case notOffered
    /// `p=…`: used, with this data.
    case used(ChannelBindingType, [UInt8])

    /// The start of the gs2 header, and the data that follows the header in `c=`.
    var flagAndData: (flag: String, data: [UInt8]) {
        switch self {
        case .unsupported: ("n", [])
        case .notOffered: ("y", [])
        case .used(let type, let data): ("p=\(type.rawValue)", data)
        }
    }
}
