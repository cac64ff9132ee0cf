import Glibc

/// A TCP port on 127.0.0.1 that stays reserved as long as this object lives.
///
/// The reserving socket is bound but does not listen, so that a server that sets `SO_REUSEADDR` (every one
/// does) can bind and listen beside it, now and after each restart, while the system gives the port to nobody
/// who asks for a free one.
package final class LoopbackPort: Sendable {
    /// The port, 1...65535.
    package let number: UInt16
    private let reservation: FileDescriptor

    /// Reserves a port that is free now.
    /// - Throws: ``ScriptedServerError`` `port` when the system has no socket or port to give.
    package init() throws(ScriptedServerError) {
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        let number = socket(AF_INET, kind, 0)
        guard number >= 0 else { throw Self.refused(errno) }
        reservation = FileDescriptor(number)
        var on: Int32 = 1
        setsockopt(number, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
        var address = Self.address(port: 0)
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                bind(number, pointer, size) == 0 ? getsockname(number, pointer, &size) : -1
            }
        }
        guard result == 0 else { throw Self.refused(errno) }
        self.number = UInt16(bigEndian: address.sin_port)
    }

    /// Whether a process listens on the port now.
    package var isListening: Bool {
        let number = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard number >= 0 else { return false }
        let caller = FileDescriptor(number)
        var address = Self.address(port: self.number)
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                connect(caller.number, pointer, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }

    private static func address(port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        return address
    }

    private static func refused(_ failure: Int32) -> ScriptedServerError {
        ScriptedServerError(
            .port, "The system gave no port on 127.0.0.1: \(systemMessage(failure)); close other programs.")
    }
}
