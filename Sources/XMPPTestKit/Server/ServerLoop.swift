import Platform
import XMPPTransport
import XMPPCore

/// The server's thread. It moves bytes and performs what ``ServerDomain`` decides. A turn looks only at the connections that have
/// something to read or to send, so that ten thousand idle ones cost it nothing.
///
/// One turn:
/// 1. wait until a socket, a command or the clock has something
/// 2. commands
/// 3. new connections
/// 4. read and parse what has arrived; every element through the script into the domain; perform its actions
/// 5. what time brings, and `<r/>` for what was sent
/// 6. log, then sockets: no client sees an effect that is not logged
/// 7. notify the waiters for commands
final class ServerLoop {
    /// The state that survives a stop and start of the server.
    struct Lasting: Sendable {
        var domain: ServerDomain
        var bots: [JID: ScriptedServer.BotHandler] = [:]
        var script: ScriptedServer.Script?
        /// The text that is written in place of an element.
        var writing: (@Sendable (Element) -> String?)?
        var lastConnection = 0
    }

    var lasting: Lasting
    private let server: ScriptedServer.Core
    private let listeners: [LoopbackListener]
    private let context: TLSContext
    private let wake: Waker
    private let events: EventQueue
    /// By number.
    private var connections: [Int: ServerConnection] = [:]
    /// The numbers of connections that this turn has changed, or must look at.
    private var touched: Set<Int> = []
    /// The numbers of those that can read without waiting, and when those end that have nothing more to say.
    private var buffered: Set<Int> = []
    private var lingering: [Int: Int64] = [:]
    private let serializer = Serializer()
    /// The maximum number of rounds of answers between bots in one turn.
    private static let botRounds = 8
    private var state = State.running
    /// Faults for connections that are still to come, oldest first.
    var upcomingFaults: [UpcomingFault] = []
    /// Whether new connections are reset at once.
    var refusesConnections = false

    private enum State {
        case running
        case stopping(ConnectionEnding?)
    }

    /// A fault for a connection that is still to come.
    struct UpcomingFault: Sendable {
        var sending: ServerConnection.Budget?
        var receiving: ServerConnection.Budget?
    }

    /// - Parameter wake: Becomes readable when there is a command.
    init(
        _ lasting: Lasting, server: ScriptedServer.Core, listeners: [LoopbackListener], context: TLSContext,
        wake: Waker, events: EventQueue
    ) {
        self.lasting = lasting
        self.server = server
        self.listeners = listeners
        self.context = context
        self.wake = wake
        self.events = events
        arm(PollEntry(wake.pipe.readEnd), key: Self.wakeKey)
        for index in listeners.indices { armListener(index) }
    }

    /// Runs until ``stop(_:)``.
    func run() {
        while case .running = state { turn() }
        shutDown()
    }

    /// Ends after this turn.
    ///
    /// - Parameter ending: How connections end; nil: with a stream error.
    func stop(_ ending: ConnectionEnding?) { state = .stopping(ending) }

    // MARK: A turn

    private func turn() {
        let ready = wait()
        advance()
        var ticket = runCommands()
        for index in ready.listeners { accept(at: index) }
        for number in ready.connections.union(buffered).sorted() { read(number) }
        // Bots answer with commands. Their answers belong to the same turn, unless they answer each other without end.
        for _ in 0..<Self.botRounds where server.hasCommands { ticket = runCommands() }
        lasting.domain.endTurn()
        performActions()
        flush()
        server.finished(ticket)
    }

    /// What was found: the listeners, and the connections that can be read. Anything but "writable" is for a read to find out
    /// about.
    private struct Ready {
        var listeners: [Int] = []
        var connections: Set<Int> = []
    }

    private static let wakeKey: UInt32 = 0
    /// The keys of the connections follow those of the listeners.
    private var firstConnectionKey: UInt32 { Self.wakeKey + 1 + UInt32(listeners.count) }

    /// Fails only where the system has no memory: then nothing more is heard of it.
    private func arm(_ entry: PollEntry, key: UInt32) { try? events.arm(entry, key: key) }

    private func armListener(_ index: Int) {
        arm(PollEntry(listeners[index].fileDescriptor), key: Self.wakeKey + 1 + UInt32(index))
    }

    private func wait() -> Ready {
        var ready = Ready()
        for event in events.wait(milliseconds: timeout()) {
            if event.key == Self.wakeKey {
                wake.pipe.clear()
                arm(PollEntry(wake.pipe.readEnd), key: Self.wakeKey)
            } else if event.key < firstConnectionKey {
                ready.listeners.append(Int(event.key - Self.wakeKey) - 1)
            } else {
                let number = Int(event.key - firstConnectionKey)
                touched.insert(number)
                if event.found != .writable { ready.connections.insert(number) }
            }
        }
        return ready
    }

    private func timeout() -> Int32 {
        if server.hasCommands || !buffered.isEmpty || !touched.isEmpty { return 0 }
        var due: [Int64] = []
        // A hand-turned clock wakes the thread itself.
        if server.configuration.clock == nil, let next = lasting.domain.nextDue { due.append(next) }
        due += lingering.values
        guard let first = due.min() else { return -1 }
        return Int32(clamping: max(0, first - ServerTime.monotonicMilliseconds))
    }

    // MARK: Commands

    private func runCommands() -> Int {
        let (commands, ticket) = server.removeCommands()
        for command in commands {
            switch command {
            case .stanza(let stanza, let sender): lasting.domain.send(stanza, from: sender)
            case .action(let action):
                performActions()
                action(self)
            }
        }
        performActions()
        return ticket
    }

    /// Takes what the clock shows.
    func advance() {
        lasting.domain.advance(to: ServerTime.now(server.configuration.clock))
        performActions()
    }

    /// The connections that a fault concerns.
    func connections(of target: ServerTarget) -> [ServerConnection] {
        lasting.domain.connections(of: target).compactMap(connection)
    }

    /// Returns a connection that is about to be changed.
    private func connection(_ number: Int) -> ServerConnection? {
        guard let connection = connections[number] else { return nil }
        touched.insert(number)
        return connection
    }

    // MARK: Accepting

    private func accept(at index: Int) {
        // An error here is the machine's, such as too many open files; the next turn tries again.
        while let transport = (try? listeners[index].accept()) ?? nil { add(transport, listeners[index]) }
        armListener(index)
    }

    private func add(_ transport: Connection, _ listener: LoopbackListener) {
        lasting.lastConnection += 1
        guard let connection = try? ServerConnection(transport, number: lasting.lastConnection) else {
            return
        }
        if refusesConnections { return connection.drop(.reset) }
        if !upcomingFaults.isEmpty {
            let fault = upcomingFaults.removeFirst()
            connection.sendBudget = fault.sending
            connection.receiveBudget = fault.receiving
        }
        connections[connection.number] = connection
        touched.insert(connection.number)
        lasting.domain.connected(connection.number, isSecure: listener.isDirectTLS)
        if listener.isDirectTLS {
            do { try connection.startTLS(context) } catch { lose(connection, .reset) }
        }
    }

    // MARK: Reading

    private func read(_ number: Int) {
        // Also one that a command has just paused: what had arrived by then is read.
        guard let connection = connection(number) else { return }
        do {
            switch try connection.read() {
            case .nothing: break
            case .secured: lasting.domain.secured(connection.number, bindings: connection.bindings)
            case .events(let events): handle(events, from: connection)
            case .broken(let events, let error):
                handle(events, from: connection)
                lasting.domain.failed(connection.number, error)
                performActions()
            case .closed: lose(connection, .finish)
            case .spent(let events, let ending):
                handle(events, from: connection)
                lose(connection, ending)
            }
        } catch {
            lose(connection, .finish)
        }
    }

    private func handle(_ events: [StreamParser.Event], from connection: ServerConnection) {
        let number = connection.number
        for event in events {
            switch event {
            case .opened(let header): lasting.domain.opened(header, on: number)
            case .element(let element):
                let verdict =
                    lasting.script.map { $0(element, lasting.domain.info(number, element)) } ?? .pass
                lasting.domain.receive(element, on: number, verdict: verdict)
            // RFC 6120 section 4.9: a server ends the stream of a client that sends such a thing.
            case .refused(let refused): lasting.domain.failed(number, refused.reason.streamError)
            case .closed: lasting.domain.closed(number)
            }
            // Until a session starts an element may change how the next bytes are read.
            if !lasting.domain.hasSession(number) { performActions() }
            if connection.phase != .open { return }
        }
        performActions()
    }

    /// The connection is broken, or is to be.
    func lose(_ connection: ServerConnection, _ ending: ConnectionEnding) {
        touched.insert(connection.number)
        connection.drop(ending)
        lasting.domain.lost(connection.number)
        performActions()
    }

    // MARK: Performing

    func performActions() {
        while case let actions = lasting.domain.removeActions(), !actions.isEmpty {
            for action in actions { perform(action) }
        }
    }

    private func perform(_ action: ServerDomain.Action) {
        switch action {
        case .header(let number, let to, let id):
            connection(number)?.output += Serializer.streamHeader(
                to: to, from: lasting.domain.name, id: id)
        case .send(let number, let element):
            guard let connection = connection(number) else { return }
            if let text = lasting.writing?(element) {
                connection.output += text.utf8
            } else {
                serializer.append(element, to: &connection.output)
            }
        case .startTLS(let number): connection(number)?.awaitTLS()
        case .restart(let number):
            guard let connection = connection(number) else { return }
            do { try connection.restart() } catch { lose(connection, .reset) }
        case .close(let number): connection(number)?.close()
        case .drop(let number, let ending): connection(number)?.drop(ending)
        case .deliver(let jid, let stanza):
            guard let handler = lasting.bots[jid] else { return }
            handler(stanza, ScriptedServer.Bot(jid: jid, server: server))
        }
    }

    // MARK: Flushing

    private func flush() {
        writeLog()
        let now = ServerTime.monotonicMilliseconds
        for (number, limit) in lingering where limit <= now { connection(number)?.drop(.finish) }
        let changed = touched.sorted()
        touched = []
        var gone: [Int] = []
        for number in changed {
            guard let connection = connections[number] else { continue }
            do { try connection.flush(context) } catch { connection.drop(.finish) }
            if connection.phase == .gone { gone.append(number) } else { expect(connection) }
        }
        guard !gone.isEmpty else { return }
        for number in gone {
            connections[number] = nil
            buffered.remove(number)
            lingering[number] = nil
            lasting.domain.lost(number)
        }
        performActions()
        writeLog()
    }

    /// Waits for what comes next on a connection.
    private func expect(_ connection: ServerConnection) {
        let (number, entry) = (connection.number, connection.pollEntry)
        if entry.descriptor >= 0 {
            arm(entry, key: firstConnectionKey + UInt32(number))
        } else {
            events.remove(connection.fileDescriptor)
        }
        if connection.hasBufferedInput { buffered.insert(number) } else { buffered.remove(number) }
        if case .lingering(let limit) = connection.phase { lingering[number] = limit }
    }

    private func writeLog() {
        let (rows, addresses) = lasting.domain.removeLog()
        server.log.append(rows, addresses: addresses)
    }

    private func shutDown() {
        if case .stopping(let ending?) = state {
            for number in connections.keys.sorted() {
                if let connection = connection(number) { lose(connection, ending) }
            }
        }
        lasting.domain.shutDown(StreamError(.systemShutdown))
        performActions()
        flush()
        for connection in connections.values { connection.drop(.finish) }
    }
}
