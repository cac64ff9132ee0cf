import Glibc
import Handlers

/// What one process asks of the owner of an account, and what it hears.
enum OwnerQuestion: UInt8 {
    /// A worker asks whether it is needed.
    case isAlive = 0x61
    /// The main program asks for the stream.
    case handOver = 0x68
}

enum OwnerAnswer: UInt8 {
    /// The owner goes on.
    case keeping = 0x6b
    /// The owner closes its stream, keeps the session and frees its lock.
    case releasing = 0x72
}

/// The owner's ear: a Unix socket beside the database. A process that is frozen does not answer.
final class OwnerSocket: Sendable {
    private let fileDescriptor: Int32
    private let path: String

    /// Begins to listen, in the place of whoever listened there before.
    ///
    /// - Throws: ``AccountError`` `invalidConfiguration` when the socket cannot be made, or something else stands there.
    init(path: String, beside database: String) throws(AccountError) {
        self.path = path
        do {
            try PrivateFile.checkName(path, kind: S_IFSOCK, beside: database)
        } catch {
            throw AccountError(.invalidConfiguration, error.message, cause: error)
        }
        let descriptor = socket(
            AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
        unlink(path)
        // Before it has a name: Linux takes the mode for the file (unix(7)), so that at no moment others may connect.
        fchmod(descriptor, 0o600)
        let bound = withSocketAddress(path) { Glibc.bind(descriptor, $0, $1) }
        guard descriptor >= 0, bound == 0, listen(descriptor, 8) == 0 else {
            let reason = String(cString: strerror(errno))
            if descriptor >= 0 { close(descriptor) }
            throw AccountError(
                .invalidConfiguration,
                "the socket \(path) cannot be made (\(reason)); check the database's folder")
        }
        fileDescriptor = descriptor
    }

    deinit { close(fileDescriptor) }

    /// Answers on a thread of its own until told to stop: a long step of the account is not silence.
    ///
    /// - Parameters:
    ///   - stop: Raised when the process owns the account no longer.
    ///   - decide: Gives the answer to a question; called on that thread.
    /// - Returns: The thread, to be joined once it was told to stop.
    func answer(
        until stop: WakeSignal, _ decide: @escaping @Sendable (OwnerQuestion) -> OwnerAnswer
    ) throws(HandlerError) -> WorkerThread {
        try WorkerThread("account owner") { [self] in
            var entries = [
                pollfd(fd: stop.fileDescriptor, events: Int16(POLLIN), revents: 0),
                pollfd(fd: fileDescriptor, events: Int16(POLLIN), revents: 0),
            ]
            while poll(&entries, 2, -1) >= 0 || errno == EINTR {
                if entries[0].revents != 0 { return }
                // Whoever waits stays readable: without a pause this would spin until a descriptor is free.
                if !answerWaiting(decide) { _ = poll(&entries, 1, 20) }
            }
        }
    }

    /// Answers everyone who waits.
    ///
    /// - Returns: False when somebody waits on and the process has no descriptor left for them.
    private func answerWaiting(_ decide: (OwnerQuestion) -> OwnerAnswer) -> Bool {
        while true {
            let client = accept(fileDescriptor, nil, nil)
            guard client >= 0 else { return ![EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(errno) }
            _ = fcntl(client, F_SETFD, FD_CLOEXEC)
            defer { close(client) }
            var byte: UInt8 = 0
            guard isOwnUser(client), waitReadable(client, milliseconds: 20), recv(client, &byte, 1, 0) == 1,
                let question = OwnerQuestion(rawValue: byte)
            else { continue }
            var answer = decide(question).rawValue
            send(client, &answer, 1, Int32(MSG_NOSIGNAL))
        }
    }

    /// Asks the owner.
    ///
    /// - Parameter milliseconds: How long to wait for the answer.
    /// - Returns: The answer, or nil when the owner is silent or nobody listens.
    static func ask(
        _ question: OwnerQuestion, path: String, beside database: String, milliseconds: Int32
    ) -> OwnerAnswer? {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        // A frozen owner accepts nobody: once its backlog is full, connecting would wait for ever.
        var limit = timeval(
            tv_sec: Int(milliseconds) / 1000, tv_usec: max(1, Int(milliseconds) % 1000 * 1000))
        setsockopt(
            descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        // connect(2) follows links, and somebody else may listen: who answers must be this user.
        guard (try? PrivateFile.checkName(path, kind: S_IFSOCK, beside: database)) != nil,
            withSocketAddress(path, { connect(descriptor, $0, $1) }) == 0, isOwnUser(descriptor)
        else { return nil }
        var byte = question.rawValue
        guard send(descriptor, &byte, 1, Int32(MSG_NOSIGNAL)) == 1,
            waitReadable(descriptor, milliseconds: milliseconds), recv(descriptor, &byte, 1, 0) == 1
        else { return nil }
        return OwnerAnswer(rawValue: byte)
    }
}

/// Whether the process at the other end runs as this user, or as root (unix(7), SO_PEERCRED).
private func isOwnUser(_ descriptor: Int32) -> Bool {
    // struct ucred, which Glibc declares for _GNU_SOURCE only: process, user, group.
    var words = [UInt32](repeating: .max, count: 3)
    var size = socklen_t(12)
    let result = getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &words, &size)
    return result == 0 && size == 12 && (words[1] == geteuid() || words[1] == 0)
}

private func waitReadable(_ descriptor: Int32, milliseconds: Int32) -> Bool {
    var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    return poll(&entry, 1, milliseconds) == 1
}

/// Lends the address of a Unix socket. A path longer than the system's limit is reached through its open folder.
private func withSocketAddress(_ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32
{
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let capacity = MemoryLayout.size(ofValue: address.sun_path)
    var folder: Int32 = -1
    defer { if folder >= 0 { close(folder) } }
    var usable = path
    if path.utf8.count >= capacity, let slash = path.lastIndex(of: "/") {
        folder = open(String(path[..<slash]), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        usable = "/proc/self/fd/\(folder)/\(path[path.index(after: slash)...])"
    }
    guard usable.utf8.count < capacity else {
        errno = ENAMETOOLONG
        return -1
    }
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: usable.utf8) }
    return withUnsafePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
        }
    }
}
