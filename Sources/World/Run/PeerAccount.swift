import AccountTestKit
import CWorld
package import Handlers
package import XMPPAccount
package import XMPPCore

/// An account of the peer without a connection: the library's code with a store on a separate disk without faults.
package final class PeerAccount {
    private let process: SimulatedDisk.Process
    private let files: SQLiteFileSystem
    private let driver: WorldDriver
    private let offline: OfflineAccount
    package var account: Account { offline.account }

    /// - Parameters:
    ///   - jid: The full address.
    ///   - modules: The modules of the account.
    ///   - handlers: The handlers of the peer's application.
    ///   - schemas: The tables of the modules.
    package init(
        _ jid: JID, modules: [any AccountModule], handlers: [any DurableHandler.Type], schemas: [Schema],
        in world: SimulatedWorld
    ) throws {
        let disk = SimulatedDisk(seed: 0)
        process = disk.startProcess("peer")
        disk.current = process
        let clock = world.clock
        files = SQLiteFileSystem(disk, clock: { clock.peerWall })
        driver = WorldDriver(now: { clock.now }, events: { _ in [] }, wait: { $0.turn(.max) })
        let (process, files, driver) = (process, files, driver)
        offline = try Self.undisturbed(process) {
            let store = try HandlerStore(
                path: "/peer.db", registry: HandlerRegistry(handlers), schemas: Account.schemas + schemas,
                role: .main, synchronous: .full, busyTimeout: .seconds(5),
                time: TimeSource(
                    monotonic: { .nanoseconds(clock.now) },
                    wall: { Timestamp(milliseconds: clock.peerWall) }),
                log: nil,
                system: SystemServices(
                    driver: driver, files: files, asyncHandlers: nil, presence: SimulatedMachine().presence))
            var configuration = AccountConfiguration(jid: jid.bare, password: "none")
            configuration.modules = modules
            configuration.ownerPlaces = SimulatedPlaces().places(of: process)
            return try OfflineAccount(
                configuration, store: store, resource: jid.resource?.string ?? "")
        }
        try perform { step in
            _ = try step.execute("UPDATE session SET number = 1 WHERE account = ?", account.id)
        }
        close()
    }

    /// Closes the account, so that only calls of this type do work. The store stays open.
    private func close() {
        Self.undisturbed(process) { [offline] in _ = Task { await offline.close() } }
        while true {
            runTasks()
            guard let loop = driver.runs.first(where: { !$0.isOver }) else { return }
            Self.undisturbed(process) { loop.turn(.max) }
        }
    }

    /// Runs a step in the peer's store.
    package func perform<R>(_ body: (borrowing Step) throws -> R) throws -> R {
        defer { runTasks() }
        return try Self.undisturbed(process) { try offline.store.step(body) }
    }

    /// Receives a stanza.
    package func receive(_ element: Element) throws {
        defer { runTasks() }
        _ = try Self.undisturbed(process) { try offline.receive(element) }
    }

    /// Removes and returns the stanzas in the account's outbox, oldest first.
    package func takeSent() throws -> [Element] {
        try Self.undisturbed(process) {
            let sent = try offline.sent
            try offline.store.step { step in _ = try step.execute("DELETE FROM outbox") }
            return sent
        }
    }

    /// Runs the tasks that calls have started. They end at once, because the account is closed.
    private func runTasks() {
        while let job = WorldTasks.shared.job(of: process) {
            Self.undisturbed(process) { WorldTasks.shared.run(job) }
        }
    }

    /// Runs as the peer, without any faults, built-in ones included.
    private static func undisturbed<R>(_ process: SimulatedDisk.Process, _ body: () throws -> R) rethrows -> R
    {
        let before = WorldTasks.shared.current
        let allocations = dh_fail_allocation(0)
        WorldTasks.shared.current = process
        defer {
            WorldTasks.shared.current = before
            _ = dh_fail_allocation(allocations)
        }
        return try BuiltInFault.withoutFaults(body)
    }
}
