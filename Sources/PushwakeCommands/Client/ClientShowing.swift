import FoundationEssentials
import Handlers
import Simulation
import XMPPAccount
package import XMPPCore

extension Client {
    /// Shows the stored messages and all later ones, without an end.
    ///
    /// Each message is shown once. If the process is killed after it has shown a message and before it has stored that, the message
    /// is shown again. The exception is standard output that is appended to a file without other writers: the line is found in that
    /// file.
    ///
    /// - Parameters:
    ///   - peer: The address whose messages are shown. Other messages stay stored.
    ///   - isJSON: Whether to show JSON, one object a line.
    func showMessages(of peer: JID? = nil, isJSON: Bool) async throws {
        var known = try store.step { try OutputEnd.known(in: $0) }
        try showStored(of: peer, isJSON, &known)
        let scope = peer.map { WatchedRoom(room: $0).scope }
        for try await _ in store.events(ClientApp.Stored.self, in: scope) {
            try showStored(of: peer, isJSON, &known)
        }
    }

    /// - Parameter known: The stored end of the output of earlier processes. The first message consumes it.
    private func showStored(of peer: JID?, _ isJSON: Bool, _ known: inout OutputEnd?) throws {
        try store.step { try WatchedRoom.forgetEnded(in: $0) }
        while let (row, line) = try store.read({ try ClientApp.next(of: peer, in: $0) }) {
            let text = isJSON ? try Self.json(line) : line.text
            let isThere = try known.map { try $0.completes("\(text)\n") } ?? false
            known = nil
            guard isThere || Terminal.say(text) else {
                throw CommandFailure(
                    "standard output could not be written; what was not shown is shown by the next 'pushwake listen'"
                )
            }
            // Shows the message first and marks it then, so that a kill in between repeats the message instead of losing it.
            try store.step { step in
                try ClientApp.recordShown(row, in: step)
                try OutputEnd.current?.store(in: step)
            }
        }
    }

    package static func json(_ value: some Encodable) throws -> VisibleText {
        VisibleText(json: try OneLineJSON.text(value))
    }
}
