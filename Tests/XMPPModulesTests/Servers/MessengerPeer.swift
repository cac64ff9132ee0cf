import TestSupport
import TestServers

/// An independent messenger; see messenger_peer.py.
extension SlixmppPeer {
    /// The bodies of what it has seen of one kind.
    func bodies(_ kind: PeerRecord.Kind) throws -> [String] { try records(kind).map { $0.body ?? "" } }
}

extension RealHome {
    /// An independent messenger with an account of its own, or one more client of this account.
    func messenger(ofThisAccount: Bool = false) throws -> SlixmppPeer {
        try scene.peer(
            PackageResources.messenger_peer_py, as: ofThisAccount ? jid : nil, resource: "messenger")
    }
}
