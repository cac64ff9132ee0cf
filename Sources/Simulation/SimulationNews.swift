import HandlerMacrosSupport
package import Handlers
package import PubSub
import XMPPAccount
import XMPPCore

// The peer publishes one item on its node and replaces it repeatedly. Main binds a standing handler for it, and the owner of the
// stream runs the handler.
extension SimulationApp {
    /// The node's items. They are numbered, and in JSON (XEP-0335), so that the peer need not know this program.
    package struct News: PubSubPayload, Codable {
        package static let node = "urn:durable-handlers:sim:news"
        var n: Int
    }

    /// Stores every item, and the session in which it arrived.
    @Handler("simulation.news")
    package static func news(_ call: borrowing Call<PubSubEvent.Of<News>>) throws {
        guard case .items(let items) = call.change else { return }
        let session = try call.step.first("SELECT max(number) FROM session") { $0.integer(0) }
        for item in items {
            try call.step.execute(
                "INSERT INTO sim_news(n, session, role) VALUES (?, ?, ?)", item.value.n, session ?? 0,
                call.account.configuration.role.rawValue)
        }
    }
}
