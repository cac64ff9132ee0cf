import Platform
import XMPPTestKit

/// The thread of a ``LoopbackProxy``.
final class ProxyLoop: @unchecked Sendable {
    // Unchecked: one thread makes it, and then only its own thread uses it.

    /// One direction of a connection.
    private struct Lane {
        let from: StreamSocket
        let to: StreamSocket
        /// Bytes with the time when they are due.
        var held: [(due: Int64, bytes: [UInt8])] = []
        /// Due bytes that were not sent yet.
        var output: ArraySlice<UInt8> = []
        var isAtEnd = false
        var isShut = false

        var isIdle: Bool { held.isEmpty && output.isEmpty }
    }

    private struct Link {
        let index: Int
        let client: StreamSocket
        let server: StreamSocket
        var up: Lane
        var down: Lane
        /// Whether the client has sent something since it last received something.
        var isInFlight = false
    }

    private let shared: ProxyState
    private let delay: Int64
    private var links: [Link] = []
    /// Links that are open and carry nothing.
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

    /// Runs one turn; false when the proxy is closed.
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
            // Arrived bytes are left unread. Without a pause the loop would spin.
            SystemThread.sleep(microseconds: 5000)
            return true
        }
        for index in links.indices { carry(&links[index]) }
        links.removeAll { $0.up.isShut && $0.down.isShut }
        return true
    }

    /// Waits until bytes can be carried or are due. Returns whether a client connects.
    private func wait() -> Bool {
        var entries = [
            PollEntry(shared.signal.pipe.readEnd), PollEntry(shared.listener.descriptor),
        ]
        for link in links {
            // Otherwise a server with Nagle's algorithm would hold back the rest of its answer, for up to 40 ms.
            link.client.acknowledgeAtOnce()
            link.server.acknowledgeAtOnce()
            entries.append(Self.entry(link.up.from, reads: link.up, writes: link.down))
            entries.append(Self.entry(link.down.from, reads: link.down, writes: link.up))
        }
        let due = links.flatMap { $0.up.held.prefix(1) + $0.down.held.prefix(1) }.map(\.due).min()
        _ = try? PollEntry.wait(
            &entries, milliseconds: due.map { Int32(clamping: max(0, $0 - Self.now)) } ?? 1000)
        shared.signal.pipe.clear()
        return entries[1].isReady
    }

    /// Cuts or strands every connection if that was requested. Returns whether it was.
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

    /// Returns whether the client has closed its end, even if not all its bytes were carried yet.
    private static func hasDeparted(_ link: Link) -> Bool {
        if link.up.isAtEnd { return true }
        var entries = [PollEntry(link.client.descriptor, for: hasEnded)]
        return (try? PollEntry.wait(&entries, milliseconds: 0)) ?? 0 > 0
    }

    /// POLLRDHUP of poll(2), which Swift's module of the C library lacks.
    private static let hasEnded = PollEvents(rawValue: 0x2000)

    private static func entry(_ socket: StreamSocket, reads: Lane, writes: Lane) -> PollEntry {
        var events: PollEvents = reads.isAtEnd ? [] : .readable
        if !writes.output.isEmpty { events.insert(.writable) }
        return PollEntry(events.isEmpty ? -1 : socket.descriptor, for: events)
    }

    private func accept() {
        guard let client = try? StreamSocket.accept(from: shared.listener.descriptor) else { return }
        client.sendAtOnce()
        let (index, target) = shared.start()
        guard let server = LoopbackSocket.connect(to: target) else {
            return StreamSocket.resetOnClose(client.descriptor)
        }
        links.append(
            Link(
                index: index, client: client, server: server, up: Lane(from: client, to: server),
                down: Lane(from: server, to: client)))
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

    /// Breaks the client's end. The server's end closes after all earlier bytes.
    private func leave(_ link: inout Link) {
        link.up.isAtEnd = true
        link.client.shutdownBoth()
    }

    private func read(_ lane: inout Lane, atMost limit: Int? = nil, isLost: Bool = false) -> [UInt8] {
        guard !lane.isAtEnd, limit != 0 else { return [] }
        var bytes = [UInt8](repeating: 0, count: min(limit ?? .max, 64 * 1024))
        do {
            let count = try bytes.withUnsafeMutableBytes { try lane.from.receive(into: $0) }
            guard let count, count > 0 else {
                lane.isAtEnd = count == 0
                return []
            }
            let arrived = Array(bytes.prefix(count))
            if isLost { return [] }
            lane.held.append((Self.now + delay, arrived))
            return arrived
        } catch {
            if error as? Errno != .notConnected { lane.isAtEnd = true }
            return []
        }
    }

    /// Sends the due bytes, and returns their number.
    private func write(_ lane: inout Lane) -> Int {
        while let first = lane.held.first, first.due <= Self.now {
            lane.output += first.bytes
            lane.held.removeFirst()
        }
        var total = 0
        while !lane.output.isEmpty {
            do {
                let count = try lane.output.withUnsafeBytes { try lane.to.send($0) }
                guard count > 0 else { break }
                lane.output = lane.output.dropFirst(count)
                total += count
            } catch {
                if error as? Errno != .notConnected { (lane.output, lane.isAtEnd) = ([], true) }
                break
            }
        }
        if lane.isAtEnd && lane.isIdle && !lane.isShut {
            lane.to.shutdownWriting()
            lane.isShut = true
        }
        return total
    }

    private func reset(_ link: Link) {
        StreamSocket.resetOnClose(link.client.descriptor)
        StreamSocket.resetOnClose(link.server.descriptor)
    }

    private static var now: Int64 { ServerTime.monotonicMilliseconds }
}
