import XMPPCore

/// The server of an account, as it is known before any lookup: accounts of equal places share what one server may take.
enum ServerPlace: Hashable, Sendable {
    /// The place that DNS names for a domain.
    case domain(ForeignText)
    /// The place that the program names.
    case host(ForeignText, port: UInt16)

    init(_ configuration: AccountConfiguration) {
        if let server = configuration.server {
            self = .host(ForeignText(server.host), port: server.port)
        } else {
            self = .domain(ForeignText(configuration.jid.domain.string))
        }
    }
}
