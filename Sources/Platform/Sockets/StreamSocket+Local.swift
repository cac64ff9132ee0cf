import Glibc

/// Sockets with a name in the file system (unix(7)).
extension StreamSocket {
    /// Listens at a path, in the place of whatever has that name. Only this user and root can connect.
    ///
    /// - Parameter backlog: How many connections may wait to be accepted.
    package static func listening(atPath path: String, backlog: Int32) throws(Errno) -> StreamSocket {
        let socket = try StreamSocket(family: AF_UNIX)
        unlink(path)
        // Before it has a name: Linux takes the mode for the file, so that at no moment others may connect.
        fchmod(socket.descriptor, 0o600)
        try withAddress(of: path) { bind(socket.descriptor, $0, $1) }
        guard listen(socket.descriptor, backlog) == 0 else { throw Errno.current }
        return socket
    }

    /// Connects to the process that listens at a path.
    ///
    /// - Throws: `wouldBlock` while that process accepts nobody and its backlog is full.
    package static func connected(toPath path: String) throws(Errno) -> StreamSocket {
        let socket = try StreamSocket(family: AF_UNIX)
        try withAddress(of: path) { Glibc.connect(socket.descriptor, $0, $1) }
        return socket
    }

    /// Whether the process at the other end runs as this user, or as root (SO_PEERCRED).
    package var isPeerOwnUser: Bool {
        // struct ucred, which Glibc declares for _GNU_SOURCE only: process, user, group.
        var words = [UInt32](repeating: .max, count: 3)
        var size = socklen_t(12)
        let result = getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &words, &size)
        return result == 0 && size == 12 && (words[1] == geteuid() || words[1] == 0)
    }

    /// Waits until something can be read; false when the time is over.
    package func waitReadable(milliseconds: Int32) -> Bool {
        PollEntry.waitReadable(descriptor, milliseconds: milliseconds)
    }

    /// Reads what has arrived; empty when nothing has, or nothing will.
    package func receive(atMost count: Int) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: count) { buffer, read in
            read = max(0, recv(descriptor, buffer.baseAddress, count, 0))
        }
    }

    /// Sends a few bytes; false when the other side is gone.
    @discardableResult
    package func send(_ bytes: [UInt8]) -> Bool {
        Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count
    }

    /// Lends the address of a path. One that is longer than the system's limit is reached through its open folder.
    private static func withAddress(
        of path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
    ) throws(Errno) {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let capacity = MemoryLayout.size(ofValue: address.sun_path)
        var folder: OpenFile?
        var usable = path
        if path.utf8.count >= capacity, let slash = path.lastIndex(of: "/") {
            let opened = try OpenFile(folder: String(path[..<slash]))
            usable = "/proc/self/fd/\(opened.descriptor)/\(path[path.index(after: slash)...])"
            folder = opened
        }
        guard usable.utf8.count < capacity else { throw Errno(rawValue: ENAMETOOLONG) }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: usable.utf8) }
        let error: Errno? = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0 ? nil : .current
            }
        }
        withExtendedLifetime(folder) {}
        if let error { throw error }
    }
}
