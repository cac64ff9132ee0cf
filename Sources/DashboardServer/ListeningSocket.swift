import Glibc

/// A socket on the loopback address that accepts connections.
package struct ListeningSocket {
    let descriptor: Int32
    package let port: UInt16
    /// How many ports are tried after the first, where none was named.
    private static let tried: UInt16 = 20
    private static let first: UInt16 = 8377

    /// - Parameter port: The port; nil for 8377 or the next free one, 0 for any.
    /// - Throws: ``ServerFailure`` when none of the ports is free.
    package init(_ port: UInt16?) throws {
        let ports = port.map { $0...$0 } ?? Self.first...(Self.first + Self.tried)
        var problem: Int32 = 0
        for port in ports {
            do throws(SocketProblem) {
                (descriptor, self.port) = try Self.listen(port)
                return
            } catch { problem = error.number }
        }
        throw ServerFailure(
            description:
                "127.0.0.1:\(ports.lowerBound) cannot be served: \(String(cString: strerror(problem))); name another port with --listen 127.0.0.1:PORT"
        )
    }

    private struct SocketProblem: Error { let number: Int32 }

    private static func listen(_ port: UInt16) throws(SocketProblem) -> (Int32, UInt16) {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw SocketProblem(number: errno) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var (one, length): (Int32, socklen_t) = (1, socklen_t(MemoryLayout<sockaddr_in>.size))
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, socklen_t(MemoryLayout<Int32>.size))
        let status = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                guard bind(descriptor, address, length) == 0, Glibc.listen(descriptor, 64) == 0 else {
                    return errno
                }
                return getsockname(descriptor, address, &length) == 0 ? 0 : errno
            }
        }
        guard status == 0 else {
            Glibc.close(descriptor)
            throw SocketProblem(number: status)
        }
        return (descriptor, UInt16(bigEndian: address.sin_port))
    }
}

/// Why a page cannot be served, as a sentence.
package struct ServerFailure: Error, CustomStringConvertible {
    package let description: String
}
