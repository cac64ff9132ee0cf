import Synchronization
import TestServers

/// A primary with two standbys, of which one confirms each commit. When the primary dies, a standby that has all confirmed commits takes
/// its place, the other one follows it, and a new one is made at the port of the dead one.
final class DatabaseServers: Sendable {
    private struct State {
        var primary: PostgresServer
        /// By their names, which are those of their slots, too.
        var standbys: [(name: String, server: PostgresServer)] = []
        var made = 0
        /// The failure of the making of the newest standby.
        var failure: TestServerError?
    }

    private let state: Mutex<State>

    /// - Parameter host: Where they listen beside 127.0.0.1; nil for nowhere.
    init(at host: String?) throws(TestServerError) {
        var options = PostgresOptions()
        options.address = host
        let server = try PostgresServer(options: options)
        state = Mutex(State(primary: server))
        try server.start()
        try addStandby()
        try addStandby()
    }

    func kill() {
        for server in state.withLock({ [$0.primary] + $0.standbys.map(\.server) }) { server.kill() }
    }

    var primary: PostgresServer { state.withLock { $0.primary } }
    /// The ports of all, which stay the same.
    var ports: [UInt16] { state.withLock { [$0.primary.port] + $0.standbys.map(\.server.port) } }
    /// Whether the death of the primary can be survived.
    var isComplete: Bool {
        get throws(TestServerError) {
            try state.withLock { (state) throws(TestServerError) in
                if let failure = state.failure { throw failure }
                return state.standbys.count == 2
            }
        }
    }

    /// Makes a standby, and has all servers know of it: each is primary some day.
    private func addStandby(inPlaceOf dead: PostgresServer? = nil) throws(TestServerError) {
        let (primary, name) = state.withLock { state in
            state.made += 1
            return (state.primary, "standby\(state.made)")
        }
        let standby = try primary.makeStandby(name: name, inPlaceOf: dead)
        let all = state.withLock { state in
            state.standbys.append((name, standby))
            return state.standbys
        }
        for (own, server) in all {
            try server.setSynchronousStandbys(all.map(\.name).filter { $0 != own }, awaited: 1)
        }
        try primary.setSynchronousStandbys(all.map(\.name), awaited: 1)
    }

    /// Kills the primary and promotes a standby. Another standby is made in the background.
    func killPrimary() throws(TestServerError) {
        let (old, standbys) = state.withLock { ($0.primary, $0.standbys) }
        old.kill()
        // Which of the two has confirmed a commit is not known here, so the one with more of the log is taken.
        let positions = try standbys.map { (standby) throws(TestServerError) in try standby.server.receivedLog
        }
        let next = positions[0] >= positions[1] ? 0 : 1
        let (promoted, other) = (standbys[next], standbys[1 - next])
        try promoted.server.promote()
        try other.server.follow(promoted.server, as: other.name)
        state.withLock { state in
            (state.primary, state.standbys) = (promoted.server, [other])
        }
        Task.detached { [self] in
            do throws(TestServerError) {
                try addStandby(inPlaceOf: old)
            } catch {
                state.withLock { $0.failure = error }
            }
        }
    }
}
