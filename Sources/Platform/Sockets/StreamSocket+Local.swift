import CPlatform

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Sockets with a name in the file system (unix(7)).
extension StreamSocket {
    /// Listens at a path, in the place of whatever has that name. Only this user and root can connect.
    ///
    /// - Parameter backlog: How many connections may wait to be accepted.
    package static func listening(atPath path: String, backlog: Int32) throws(Errno) -> StreamSocket {
        let socket = try StreamSocket(family: AF_UNIX)
        unlink(path)
        // At no moment others may connect. Linux takes the mode of a socket without a name for its file; Darwin refuses connections
        // until the socket listens.
        #if canImport(Darwin)
            try withAddress(of: path) { bind(socket.descriptor, $0, $1) }
            try FileSystem.setPermissions(0o600, of: path)
        #else
            fchmod(socket.descriptor, 0o600)
            try withAddress(of: path) { bind(socket.descriptor, $0, $1) }
        #endif
        guard listen(socket.descriptor, backlog) == 0 else { throw Errno.current }
        return socket
    }

    /// Connects to the process that listens at a path.
    ///
    /// - Throws: `wouldBlock` while that process accepts nobody and its backlog is full.
    package static func connected(toPath path: String) throws(Errno) -> StreamSocket {
        let socket = try StreamSocket(family: AF_UNIX)
        try withAddress(of: path) { systemConnect(socket.descriptor, $0, $1) }
        return socket
    }

    /// Whether the process at the other end runs as this user, or as root (SO_PEERCRED; getpeereid(3) on Darwin).
    package var isPeerOwnUser: Bool {
        #if canImport(Darwin)
            var (user, group) = (uid_t.max, gid_t.max)
            guard getpeereid(descriptor, &user, &group) == 0 else { return false }
        #else
            // struct ucred, which Glibc declares for _GNU_SOURCE only: process, user, group.
            var words = [UInt32](repeating: .max, count: 3)
            var size = socklen_t(12)
            guard getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &words, &size) == 0, size == 12 else {
                return false
            }
            let user = words[1]
        #endif
        return user == geteuid() || user == 0
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
        bytes.withUnsafeBytes { systemSend(descriptor, $0) } == bytes.count
    }

    /// Lends the address of a path. One that is longer than the system's limit is reached through its open folder; on iOS not at all.
    private static func withAddress(
        of path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
    ) throws(Errno) {
        var address = sockaddr_un()
        #if canImport(Darwin)
            address.sun_len = UInt8(MemoryLayout<sockaddr_un>.size)
        #endif
        address.sun_family = sa_family_t(AF_UNIX)
        let capacity = MemoryLayout.size(ofValue: address.sun_path)
        var folder: OpenFile?
        var usable = path
        if path.utf8.count >= capacity, let slash = path.lastIndex(of: "/") {
            let opened = try OpenFile(folder: String(path[..<slash]))
            #if canImport(Darwin)
                usable = String(path[path.index(after: slash)...])
            #elseif !DH_KQUEUE
                usable = "/proc/self/fd/\(opened.descriptor)/\(path[path.index(after: slash)...])"
            #endif
            folder = opened
        }
        guard usable.utf8.count < capacity else { throw Errno(rawValue: ENAMETOOLONG) }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: usable.utf8) }
        #if canImport(Darwin)
            if let folder, dh_enter_folder(folder.descriptor) != 0 { throw Errno.current }
            defer { if folder != nil { dh_leave_folder() } }
        #endif
        let error: Errno? = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0 ? nil : .current
            }
        }
        withExtendedLifetime(folder) {}
        if let error { throw error }
    }
}
