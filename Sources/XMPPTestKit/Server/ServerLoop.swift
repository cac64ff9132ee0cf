import Platform
import XMPPTransport
import XMPPCore

/// The server's thread: one poll(2) for all connections. It moves bytes and performs what ``ServerDomain`` decides.
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
    private var connections: [ServerConnection] = []
    private var connectionsByNumber: [Int: ServerConnection] = [:]
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
        wake: Waker
    ) {
        self.lasting = lasting
        self.server = server
        self.listeners = listeners
        self.context = context
        self.wake = wake
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
        accept(ready)
        for (index, connection) in connections.enumerated()
        where connection.hasBufferedInput || ready.isReadable(index) { read(connection) }
        // Bots answer with commands. Their answers belong to the same turn, unless they answer each other without end.
        for _ in 0..<Self.botRounds where server.hasCommands { ticket = runCommands() }
        lasting.domain.endTurn()
        performActions()
        flush()
        server.finished(ticket)
    }

    private struct Ready {
        var entries: [PollEntry]
        var listenerCount: Int

        /// Anything but "writable" is for a read to find out about.
        func isReadable(_ index: Int) -> Bool {
            let entry = listenerCount + 1 + index
            return entry < entries.count && entries[entry].isReady && entries[entry].found != .writable
        }
    }

    private func wait() -> Ready {
        var entries = [PollEntry(wake.pipe.readEnd)]
        entries += listeners.map { PollEntry($0.fileDescriptor) }
        entries += connections.map(\.pollEntry)
        // Fails only where poll(2) has no memory, which leaves all entries as they are: not ready.
        _ = try? PollEntry.wait(&entries, milliseconds: timeout())
        if entries[0].isReady { wake.pipe.clear() }
        return Ready(entries: entries, listenerCount: listeners.count)
    }

    private func timeout() -> Int32 {
        if server.hasCommands || connections.contains(where: \.hasBufferedInput) { return 0 }
        var due: [Int64] = []
        // A hand-turned clock wakes the thread itself.
        if server.configuration.clock == nil, let next = lasting.domain.nextDue { due.append(next) }
        for case .lingering(let limit) in connections.lazy.map(\.phase) { due.append(limit) }
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
        lasting.domain.connections(of: target).compactMap { connectionsByNumber[$0] }
    }

    // MARK: Accepting

    private func accept(_ ready: Ready) {
        for (index, listener) in listeners.enumerated() where ready.entries[index + 1].isReady {
            // An error here is the machine's, such as too many open files; the next turn tries again.
            while let transport = (try? listener.accept()) ?? nil { add(transport, listener) }
        }
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
        connections.append(connection)
        connectionsByNumber[connection.number] = connection
        lasting.domain.connected(connection.number, isSecure: listener.isDirectTLS)
        if listener.isDirectTLS {
            do { try connection.startTLS(context) } catch { lose(connection, .reset) }
        }
    }

    // MARK: Reading

    private func read(_ connection: ServerConnection) {
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
            // Until a session begins an element may change how the next bytes are read.
            if !lasting.domain.hasSession(number) { performActions() }
            if connection.phase != .open { return }
        }
        performActions()
    }

    /// The connection is broken, or is to be.
    func lose(_ connection: ServerConnection, _ ending: ConnectionEnding) {
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
            connectionsByNumber[number]?.output += Serializer.streamHeader(
                to: to, from: lasting.domain.name, id: id)
        case .send(let number, let element):
            guard let connection = connectionsByNumber[number] else { return }
            if let text = lasting.writing?(element) {
                connection.output += text.utf8
            } else {
                serializer.append(element, to: &connection.output)
            }
        case .startTLS(let number): connectionsByNumber[number]?.awaitTLS()
        case .restart(let number):
            guard let connection = connectionsByNumber[number] else { return }
            do { try connection.restart() } catch { lose(connection, .reset) }
        case .close(let number): connectionsByNumber[number]?.close()
        case .drop(let number, let ending): connectionsByNumber[number]?.drop(ending)
        case .deliver(let jid, let stanza):
            guard let handler = lasting.bots[jid] else { return }
            handler(stanza, ScriptedServer.Bot(jid: jid, server: server))
        }
    }

    // MARK: Flushing

    private func flush() {
        writeLog()
        let now = ServerTime.monotonicMilliseconds
        for connection in connections {
            if case .lingering(let limit) = connection.phase, limit <= now { connection.drop(.finish) }
            do { try connection.flush(context) } catch { connection.drop(.finish) }
        }
        guard connections.contains(where: { $0.phase == .gone }) else { return }
        for connection in connections where connection.phase == .gone {
            connectionsByNumber[connection.number] = nil
            lasting.domain.lost(connection.number)
        }
        connections.removeAll { $0.phase == .gone }
        performActions()
        writeLog()
    }

    private func writeLog() {
        let (rows, addresses) = lasting.domain.removeLog()
        server.log.append(rows, addresses: addresses)
    }

    private func shutDown() {
        if case .stopping(let ending?) = state {
            for connection in connections { lose(connection, ending) }
        }
        lasting.domain.shutDown(StreamError(.systemShutdown))
        performActions()
        flush()
        for connection in connections { connection.drop(.finish) }
    }
}
