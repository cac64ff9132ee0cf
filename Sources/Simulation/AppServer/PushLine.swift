import Platform
import Synchronization
import XMPPCore

/// The app server through which a server wakes the simulation's worker. It counts the pushes for one device.
package final class PushLine: Sendable {
    static let node = "phone-1"
    static let secret = "one phone's secret"
    /// The shared secret of the component and its server.
    static let componentSecret = "the component's secret"

    let service: JID
    private let server: AppServer
    private let counts: Counts

    /// - Parameters:
    ///   - service: The component's domain.
    ///   - port: The server's port for components, on this machine.
    ///   - account: The account whose server may push.
    init(service: JID, port: UInt16, account: JID) throws {
        self.service = service
        let counts = Counts()
        self.counts = counts
        let device = PushDevice(account: account.description, node: Self.node, secret: Self.secret)
        server = try AppServer(
            .init(host: "127.0.0.1", port: port, domain: service.description, secret: Self.componentSecret),
            desk: PushDesk([device]), report: counts.take)
        try server.start()
    }

    /// The counts that the app server's thread updates.
    private final class Counts: Sendable {
        struct State {
            var pushes = 0
            var refused = 0
            /// The number of pushes at the end of the last process.
            var seen = 0
        }

        let state = Mutex(State())

        @Sendable func take(_ event: AppServer.Event) {
            state.withLock { state in
                switch event {
                case .connected, .disconnected: break
                case .desk(.push): state.pushes += 1
                case .desk(.refused): state.refused += 1
                }
            }
        }
    }

    /// The number of publications without the right node and secret. It must be 0 in a simulation.
    package var refused: Int { counts.state.withLock { $0.refused } }

    /// Ignores the pushes up to now, which were for a process that has ended.
    func forget() { counts.state.withLock { $0.seen = $0.pushes } }

    /// Waits for a push that came after ``forget()``.
    ///
    /// - Returns: False when none came in time.
    func waitForPush(deadline: ContinuousClock.Instant) -> Bool {
        while ContinuousClock.now < deadline {
            if counts.state.withLock({ $0.pushes > $0.seen }) { return true }
            SystemThread.sleep(microseconds: 500)
        }
        return false
    }

    func close() { server.stop() }
}
