package import Handlers
import Platform
import Synchronization

/// The clock of the server, by which all machines of a store decide what is due.
///
/// Between two looks at the server it runs with a clock of the machine that nobody sets, and that goes on while the machine is suspended: a wall
/// clock that is wrong, or jumps, has no part in it.
package final class ServerClock: Sendable {
    /// The difference between the clocks of machine and server from which on it is reported.
    private static let tolerance: Int64 = 1000
    /// What two looks may differ by for no other reason than the time that they take, beside what they took, in milliseconds.
    private static let noise: Int64 = 5

    private struct Look {
        let server, monotonic: Int64
    }

    /// The wall clock of the machine.
    private let machine: @Sendable () -> Timestamp
    private let look = Mutex<Look?>(nil)

    /// Makes a clock that shows the machine's time until it has seen the server's.
    ///
    /// - Parameter machine: The wall clock of the machine; tests pass one that is wrong.
    package init(machine: @escaping @Sendable () -> Timestamp = TimeSource.systemWall) {
        self.machine = machine
    }

    /// The time since the machine started, in milliseconds.
    static var monotonic: Int64 { SystemTime.bootNanoseconds() / 1_000_000 }

    /// Takes a time of the server over, unless what is known explains it.
    func adopt(_ server: Int64, between start: Int64, and end: Int64) {
        let (middle, doubt) = ((start + end) / 2, (end - start) / 2 + Self.noise)
        look.withLock { look in
            if let known = look, abs(known.server + middle - known.monotonic - server) <= doubt { return }
            look = Look(server: server, monotonic: middle)
        }
    }

    /// The server's time.
    package var now: Timestamp {
        guard let look = look.withLock({ $0 }) else { return machine() }
        return Timestamp(milliseconds: look.server + Self.monotonic - look.monotonic)
    }

    /// By how much the machine's wall clock is ahead of the server's, in milliseconds; negative for one that is behind.
    var ahead: Int64 { machine().milliseconds - now.milliseconds }

    /// Returns the clocks of a store, whose wall clock is the server's. A wall clock that a program has made itself stays as it is.
    package func source(_ time: TimeSource) -> TimeSource {
        guard time.usesMachineWall else { return time }
        // After a suspension the server's time has gone on.
        return TimeSource(monotonic: time.monotonic, wall: { self.now }, onSet: time.onSet)
    }

    /// Says that the clocks differ by more than a second; nil where they do not.
    ///
    /// - Parameter path: Names the database.
    func complaint(_ path: String) -> String? {
        let ahead = ahead
        guard abs(ahead) > Self.tolerance else { return nil }
        return
            "the clock of this machine is \(abs(ahead) / 1000) s \(ahead > 0 ? "ahead of" : "behind") that of the server of \(path), which decides what is due; have both set by NTP"
    }
}
