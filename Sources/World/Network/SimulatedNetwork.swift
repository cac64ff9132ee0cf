import HandlersTestKit
import Platform
package import XMPPTransport

/// The network between the processes of a simulated machine and one server. Its connections are slow, split bytes anywhere, stall,
/// break, and can be refused.
///
/// `@unchecked Sendable`: one thread uses it.
package final class SimulatedNetwork: @unchecked Sendable {
    /// The server's end of the connections.
    package struct Server {
        package var connected: (_ link: Int) -> Void
        /// Bytes of whole records.
        package var received: (_ link: Int, _ bytes: [UInt8]) -> Void
        /// Called when the client closed its direction, or the connection broke.
        package var ended: (_ link: Int) -> Void
    }

    /// The conditions for packets and new connections.
    package struct Weather: Sendable {
        /// The delay in one direction, in microseconds.
        package var delay: ClosedRange<Int64> = 200...2000
        /// The maximum number of bytes that arrive at once. The actual number is random.
        package var largestPiece = 4096
        /// Whether new connections are refused.
        package var refuses = false
        /// Whether new connection attempts get no answer.
        package var isSilent = false
        package init() {}
    }

    package var weather = Weather()
    package var server: Server?
    private(set) var links: [Int: SimulatedLink] = [:]
    /// The names of the processes of all links, closed ones included.
    private(set) var processes: [Int: String] = [:]
    private var lastLink = 0
    private var random: SeededGenerator
    private let now: () -> Int64
    /// Called at each send of a process. It may kill the process.
    package var onSend: ((SimulatedDisk.Process) -> Void)?
    /// Logs the events of the network.
    package var note: (_ line: @autoclosure () -> String) -> Void = { _ in }

    /// - Parameter now: Returns the time in nanoseconds.
    package init(seed: UInt64, now: @escaping () -> Int64) {
        random = SeededGenerator(seed: seed)
        self.now = now
    }

    /// The network as a process sees it.
    package func network(
        of process: SimulatedDisk.Process, clock: @escaping @Sendable () -> Int64
    ) -> any Network {
        ProcessNetwork(network: self, process: process, clock: clock)
    }

    private func delay() -> Int64 { Int64.random(in: weather.delay, using: &random) * 1000 }

    // MARK: By processes

    fileprivate func connect(
        _ process: SimulatedDisk.Process, _ place: String, until deadline: Deadline, on loop: EventLoop
    ) async throws(TransportError) -> Connection {
        await loop.sleep(.nanoseconds(2 * delay()))
        if process.isDead { throw TransportError(.interrupted, "Connecting to \(place) was interrupted.") }
        if weather.isSilent {
            var none: [PollEntry] = []
            let result = await loop.wait(&none, until: deadline)
            throw TransportError(
                result == .interrupted ? .interrupted : .timedOut, "\(place) did not answer in time.")
        }
        if weather.refuses { throw TransportError(.refused, "\(place) refused the connection.") }
        lastLink += 1
        let link = SimulatedLink(lastLink, process)
        links[link.number] = link
        processes[link.number] = process.name
        note("link \(link.number) of \(process.name)")
        server?.connected(link.number)
        return Connection(socket: SimulatedStream(link, self, peer: place))
    }

    func send(_ bytes: Slice<UnsafeRawBufferPointer>, on link: SimulatedLink) {
        if link.sendingSince == nil { link.sendingSince = now() }
        link.toServer.append(bytes, at: now(), due: now() + delay())
        onSend?(link.process)
    }

    func endWriting(_ link: SimulatedLink) { link.toServer.end(due: now() + delay()) }

    func close(_ link: SimulatedLink) {
        // The bytes that were sent before may still arrive, followed by the end.
        link.toServer.end(due: now() + delay())
        link.toClient.clear()
        link.arrived = []
    }

    // MARK: By the server

    package func send(_ bytes: [UInt8], to link: Int) {
        guard let link = links[link], link.isServerOpen, link.state == .open else { return }
        link.toClient.append(bytes, at: now(), due: now() + delay())
    }

    /// Closes the server's end of a connection, at once with a reset, or after everything that was sent.
    package func closeFromServer(_ number: Int, reset: Bool) {
        guard let link = links[number], link.isServerOpen else { return }
        link.isServerOpen = false
        link.toServer.clear()
        if reset {
            link.toClient.clear()
            if link.state == .open { link.state = .reset }
        } else {
            link.toClient.end(due: now() + delay())
        }
        dropIfOver(link)
    }

    // MARK: Faults

    /// The connections whose server end is open, oldest first.
    package var open: [Int] { links.keys.sorted().filter { links[$0]?.isServerOpen == true } }

    /// Resets a connection at both ends. Everything in transit is lost.
    package func reset(_ number: Int) {
        guard let link = links[number] else { return }
        note("reset \(number)")
        (link.toServer, link.toClient) = (.init(), .init())
        if link.state == .open { link.state = .reset }
        if link.isServerOpen {
            link.isServerOpen = false
            server?.ended(number)
        }
        dropIfOver(link)
    }

    /// Removes the client's end silently, as a restarted router does. The server notices it later or never.
    package func forget(_ number: Int) {
        guard let link = links[number] else { return }
        note("half open \(number)")
        link.toServer.clear()
        link.toClient.clear()
        link.blockedUntil = .max
    }

    /// Delays all arrivals of a connection for a while.
    package func block(_ number: Int, until: Int64) {
        note("block \(number)")
        guard let link = links[number] else { return }
        // A half-open connection stays half open: nothing arrives after a gap.
        link.blockedUntil = max(link.blockedUntil, until)
    }

    /// Closes the connections of a dead process. Bytes that it had sent may still arrive.
    package func processDied(_ process: SimulatedDisk.Process) {
        for number in links.keys.sorted() {
            guard let link = links[number], link.process === process, link.state != .closed else { continue }
            close(link)
            link.state = .closed
        }
    }

    // MARK: The schedule

    /// The connections with an arrival that is due.
    func due() -> [SimulatedLink] {
        links.values.filter { ($0.nextDue ?? .max) <= now() }.sorted { $0.number < $1.number }
    }

    /// The time of the next arrival.
    var nextDue: Int64? { links.values.compactMap(\.nextDue).min() }

    /// The time when the last bytes to reach the server on a connection were sent; 0 for a closed connection.
    func lastSent(on number: Int) -> Int64 { links[number]?.toServer.lastSent ?? 0 }

    /// Delivers the next piece of a connection.
    func arrive(_ link: SimulatedLink) {
        let limit = Int.random(in: 1...weather.largestPiece, using: &random)
        if let due = link.giveUpAt, due <= now(), link.state == .open {
            note("gave up \(link.number)")
            link.state = .reset
            link.toClient.clear()
            link.sendingSince = nil
            return
        }
        if let due = link.toServer.nextDue, max(due, link.blockedUntil) <= now() {
            arriveAtServer(link, limit)
        } else if let bytes = link.toClient.take(limit) {
            note("arrived \(link.number) \(bytes.count)")
            link.arrived += bytes
        } else {
            note("ended \(link.number)")
            link.toClient.clear()
            link.hasEnded = true
        }
        dropIfOver(link)
    }

    private func arriveAtServer(_ link: SimulatedLink, _ limit: Int) {
        guard let bytes = link.toServer.take(limit) else {
            link.toServer.clear()
            guard link.isServerOpen else { return }
            link.isServerOpen = false
            note("left \(link.number)")
            server?.ended(link.number)
            return
        }
        link.sendingSince = link.toServer.pieces.isEmpty ? nil : now()
        note("received \(link.number) \(bytes.count)")
        let records = link.records.add(bytes)
        if !records.isEmpty, link.isServerOpen { server?.received(link.number, records) }
    }

    private func dropIfOver(_ link: SimulatedLink) {
        if !link.isServerOpen, link.toServer.isEmpty, link.state == .closed { links[link.number] = nil }
    }

    /// The events that poll(2) would report for a descriptor of the network.
    func events(at descriptor: Int32) -> PollEvents {
        guard let link = links[Int(descriptor - SimulatedStream.firstDescriptor)] else { return .readable }
        var events: PollEvents = []
        if link.isReadable { events.insert(.readable) }
        if link.toServer.count < 64 * 1024 { events.insert(.writable) }
        return events
    }
}

extension SimulatedLink {
    /// The time when the client's system ends the connection because sent bytes have not arrived.
    var giveUpAt: Int64? {
        guard let sendingSince, let unacknowledgedLimit, state == .open, blockedUntil > sendingSince else {
            return nil
        }
        return sendingSince + unacknowledgedLimit
    }

    var nextDue: Int64? {
        let arrivals = [toServer.nextDue, toClient.nextDue].compactMap(\.self).min().map {
            max($0, blockedUntil)
        }
        return [arrivals, giveUpAt].compactMap(\.self).min()
    }
}

/// Assembles records; see ``Connection/startRecords()``.
struct RecordReader {
    private var bytes: [UInt8] = []

    /// Returns the content of all complete records.
    mutating func add(_ more: ArraySlice<UInt8>) -> [UInt8] {
        bytes += more
        var content: [UInt8] = []
        var start = 0
        while bytes.count - start >= 4 {
            let size = (0..<4).reduce(0) { $0 | Int(bytes[start + $1]) << (8 * $1) }
            guard bytes.count - start - 4 >= size else { break }
            content += bytes[start + 4..<start + 4 + size]
            start += 4 + size
        }
        bytes.removeFirst(start)
        return content
    }
}

/// The network of one process.
private struct ProcessNetwork: Network {
    let network: SimulatedNetwork
    let process: SimulatedDisk.Process
    let clock: @Sendable () -> Int64

    func services(
        of domain: String, deadline: Deadline, on loop: EventLoop
    ) async throws(TransportError) -> [ServiceTarget] {
        [ServiceTarget(host: domain, port: 5223, isDirectTLS: true)]
    }

    func connect(
        host: String, port: UInt16, deadline: Deadline, on loop: EventLoop
    ) async throws(TransportError) -> Connection {
        try await network.connect(process, "\(host) port \(port)", until: deadline, on: loop)
    }

    var isSimulated: Bool { true }
}
