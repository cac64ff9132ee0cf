import Platform

/// A TCP port on 127.0.0.1, or on another address of this machine, that stays reserved as long as this object lives.
///
/// The reserving socket is bound but does not listen, so that a server that sets `SO_REUSEADDR` (every one
/// does) can bind and listen beside it, now and after each restart, while the system gives the port to no
/// caller that wants a free one.
package final class LoopbackPort: Sendable {
    /// The port, 1...65535.
    package let number: UInt16
    /// The four bytes of the address, the first one highest.
    package let address: UInt32
    private let reservation: StreamSocket

    /// Reserves a port that is free now.
    ///
    /// - Parameter address: The four bytes of an address of IPv4, the first one highest.
    /// - Throws: ``ScriptedServerError`` `port` when the system has no socket or port to give.
    package init(at address: UInt32 = SocketAddress.loopback) throws(ScriptedServerError) {
        self.address = address
        do throws(Errno) {
            reservation = try StreamSocket.bound(toLoopback: 0, at: address)
        } catch {
            throw ScriptedServerError(.port, "The system gave no port: \(error); close other programs.")
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
