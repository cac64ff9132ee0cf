import XMPPTestKit
import Glibc

/// The thread of a ``LoopbackProxy``.
final class ProxyLoop: @unchecked Sendable {
    // Unchecked: made on one thread, then used by its own thread alone.

    /// One direction of a connection.
    private struct Lane {
        let from: Int32
        let to: Int32
        /// Bytes with the time at which they are passed on.
        var held: [(due: Int64, bytes: [UInt8])] = []
        /// The due bytes that were not passed on yet.
        var output: ArraySlice<UInt8> = []
        var isAtEnd = false
        var isShut = false

        var isIdle: Bool { held.isEmpty && output.isEmpty }
    }

    private struct Link {
        let index: Int
        let client: FileDescriptorBox
        let server: FileDescriptorBox
        var up: Lane
        var down: Lane
        /// Whether the client has sent something since it was last sent something.
        var isInFlight = false
    }

    /// A descriptor that can live in an array.
    private final class FileDescriptorBox {
        let descriptor: FileDescriptor
        init(_ descriptor: consuming FileDescriptor) { self.descriptor = descriptor }
    }

    private let shared: ProxyState
    private let delay: Int64
    private var links: [Link] = []
    /// Those that are open and carry nothing.
    private var stranded: [Link] = []
    private var cuts = 0
    private var strandings = 0

    init(_ shared: ProxyState, delay: Int64) {
        self.shared = shared
        self.delay = delay
    }

    func run() {
        while turn() {}
        for link in links + stranded { reset(link) }
    }

    /// One turn; false when the proxy is closed.
    private func turn() -> Bool {
        let question = shared.state.withLock { $0.departureQuestion }
        let isCalled = wait()
        let orders = shared.state.withLock {
            (isClosed: $0.isClosed, cuts: $0.cuts, strandings: $0.strandings, isSilent: $0.isSilent)
        }
        guard !orders.isClosed else { return false }
        guard !obey(cuts: orders.cuts, strandings: orders.strandings) else { return true }
        if isCalled {
            accept()
        } else if stranded.isEmpty, !links.contains(where: Self.hasDeparted) {
            shared.state.withLock { $0.departureAnswer = question }
        }
        guard !orders.isSilent else {
            // What has arrived stays where it is; without a pause this would spin.
            usleep(5000)
            return true
        }
        for index in links.indices { carry(&links[index]) }
        links.removeAll { $0.up.isShut && $0.down.isShut }
        return true
    }

    /// Waits until something can be carried or is due; whether somebody connects.
    private func wait() -> Bool {
        var entries = [
            pollfd(fd: shared.signal.reader, events: Int16(POLLIN), revents: 0),
            pollfd(fd: shared.listener.number, events: Int16(POLLIN), revents: 0),
        ]
        for link in links {
            // A server with Nagle's algorithm would keep the rest of its answer back until then, up to 40 ms.
            LoopbackSocket.acknowledgeAtOnce(link.up.from)
            LoopbackSocket.acknowledgeAtOnce(link.down.from)
            entries.append(Self.entry(link.up.from, reads: link.up, writes: link.down))
            entries.append(Self.entry(link.down.from, reads: link.down, writes: link.up))
        }
        let due = links.flatMap { $0.up.held.prefix(1) + $0.down.held.prefix(1) }.map(\.due).min()
        _ = poll(&entries, nfds_t(entries.count), due.map { Int32(clamping: max(0, $0 - Self.now)) } ?? 1000)
        shared.signal.clear()
        return entries[1].revents != 0
    }

    /// Cuts or strands every connection when that was ordered; whether it was.
    private func obey(cuts: Int, strandings: Int) -> Bool {
        if cuts != self.cuts {
            self.cuts = cuts
            (links + stranded).forEach(reset)
            (links, stranded) = ([], [])
            return true
        }
        guard strandings != self.strandings else { return false }
        self.strandings = strandings
        stranded += links
        links = []
        return true
    }

    /// Returns whether the client has closed its end, also when not all that it sent before was carried on.
    private static func hasDeparted(_ link: Link) -> Bool {
        if link.up.isAtEnd { return true }
        var entry = pollfd(fd: link.up.from, events: hasEnded, revents: 0)
        return poll(&entry, 1, 0) > 0
    }

    /// POLLRDHUP of poll(2), which Swift's module of the C library leaves out.
    private static let hasEnded: Int16 = 0x2000

    private static func entry(_ descriptor: Int32, reads: Lane, writes: Lane) -> pollfd {
        let events = (reads.isAtEnd ? 0 : POLLIN) | (writes.output.isEmpty ? 0 : POLLOUT)
        return pollfd(fd: events == 0 ? -1 : descriptor, events: Int16(events), revents: 0)
    }

    private func accept() {
        let number = Glibc.accept(shared.listener.number, nil, nil)
        guard number >= 0 else { return }
        let client = FileDescriptorBox(FileDescriptor(number))
        _ = fcntl(number, F_SETFL, O_NONBLOCK)
        _ = fcntl(number, F_SETFD, FD_CLOEXEC)
        var on: Int32 = 1
        setsockopt(number, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
        let (index, target) = shared.start()
        guard let connection = LoopbackSocket.connect(to: target) else {
            LoopbackSocket.resetOnClose(number)
            return
        }
        let server = FileDescriptorBox(connection)
        let (near, far) = (number, server.descriptor.number)
        links.append(
            Link(
                index: index, client: client, server: server, up: Lane(from: near, to: far),
                down: Lane(from: far, to: near)))
    }

    private func carry(_ link: inout Link) {
        let isLost = shared.state.withLock { $0.deafUpTo > link.index }
        let arrived = read(&link.up, atMost: room(of: link), isLost: isLost)
        if !arrived.isEmpty {
            let isNew = !link.isInFlight
            link.isInFlight = true
            shared.record(link.index) { record in
                if isNew { record.flights += 1 }
                record.sent += arrived.count
                let room = (1 << 20) - record.clientBytes.count
                record.clientBytes += arrived.prefix(max(0, room))
            }
        }
        if room(of: link) == 0, !link.up.isAtEnd { leave(&link) }
        _ = read(&link.down)
        if write(&link.up) > 0 { shared.record(link.index) { $0.record(fromClient: true) } }
        let delivered = write(&link.down)
        if delivered > 0 {
            link.isInFlight = false
            shared.record(link.index) { record in
                record.received += delivered
                record.record(fromClient: false)
            }
        }
    }

    /// Returns the number of further bytes of a client before its connection breaks; nil for no break.
    private func room(of link: Link) -> Int? {
        shared.state.withLock { state in
            guard let cut = state.cutAfter, cut.index == link.index else { return nil }
            return max(0, cut.total - state.records[link.index].sent)
        }
    }

    /// The client's end breaks; the server's end closes behind what was carried.
    private func leave(_ link: inout Link) {
        link.up.isAtEnd = true
        shutdown(link.client.descriptor.number, Int32(SHUT_RDWR))
    }

    private func read(_ lane: inout Lane, atMost limit: Int? = nil, isLost: Bool = false) -> [UInt8] {
        guard !lane.isAtEnd, limit != 0 else { return [] }
        var bytes = [UInt8](repeating: 0, count: min(limit ?? .max, 64 * 1024))
        let count = recv(lane.from, &bytes, bytes.count, Int32(MSG_DONTWAIT))
        if count > 0 {
            let arrived = Array(bytes.prefix(count))
            if isLost { return [] }
            lane.held.append((Self.now + delay, arrived))
            return arrived
        }
        if count == 0 || ![EAGAIN, EINTR, ENOTCONN].contains(errno) { lane.isAtEnd = true }
        return []
    }

    /// Sends what is due; how many bytes went.
    private func write(_ lane: inout Lane) -> Int {
        while let first = lane.held.first, first.due <= Self.now {
            lane.output += first.bytes
            lane.held.removeFirst()
        }
        var total = 0
        while !lane.output.isEmpty {
            let count = lane.output.withUnsafeBytes {
                send(lane.to, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL | MSG_DONTWAIT))
            }
            guard count > 0 else {
                if ![EAGAIN, EINTR, ENOTCONN].contains(errno) { (lane.output, lane.isAtEnd) = ([], true) }
                break
            }
            lane.output = lane.output.dropFirst(count)
            total += count
        }
        if lane.isAtEnd && lane.isIdle && !lane.isShut {
            shutdown(lane.to, Int32(SHUT_WR))
            lane.isShut = true
        }
        return total
    }

    private func reset(_ link: Link) {
        LoopbackSocket.resetOnClose(link.client.descriptor.number)
        LoopbackSocket.resetOnClose(link.server.descriptor.number)
    }

    private static var now: Int64 { ServerTime.monotonicMilliseconds }
}
