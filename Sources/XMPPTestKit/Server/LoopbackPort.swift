import Platform

/// A TCP port on 127.0.0.1 that stays reserved as long as this object lives.
///
/// The reserving socket is bound but does not listen, so that a server that sets `SO_REUSEADDR` (every one
/// does) can bind and listen beside it, now and after each restart, while the system gives the port to nobody
/// who asks for a free one.
package final class LoopbackPort: Sendable {
    /// The port, 1...65535.
    package let number: UInt16
    private let reservation: StreamSocket

    /// Reserves a port that is free now.
    /// - Throws: ``ScriptedServerError`` `port` when the system has no socket or port to give.
    package init() throws(ScriptedServerError) {
        do throws(Errno) {
            reservation = try StreamSocket.bound(toLoopback: 0)
        } catch {
            throw ScriptedServerError(
                .port, "The system gave no port on 127.0.0.1: \(error); close other programs.")
        }
        number = reservation.port
    }

    /// Whether a process listens on the port now.
    package var isListening: Bool {
        guard let caller = try? StreamSocket.connecting(toLoopback: number) else { return false }
        var entries = [PollEntry(caller.descriptor, for: .writable)]
        _ = try? PollEntry.wait(&entries, milliseconds: 1000)
        return entries[0].isReady && (try? caller.checkError()) != nil
    }
}
