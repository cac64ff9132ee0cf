import Platform
import XMPPTransport
import XMPPCore

extension ScriptedServer {
    /// The state that the server's thread and its users share.
    final class Core: Sendable {
        /// A command to the thread.
        enum Command: Sendable {
            case stanza(Element, from: JID)
            case action(@Sendable (ServerLoop) -> Void)
        }

        private struct State {
            var commands: [Command] = []
            /// The number of commands ever given, and of those that are done.
            var given = 0
            var done = 0
            /// Nil while a thread has it.
            var lasting: ServerLoop.Lasting?
            var thread: ServerThread?
        }

        let configuration: Configuration
        let log: ServerLog
        private let state: Monitor<State>

        init(_ configuration: Configuration) throws(ScriptedServerError) {
            self.configuration = configuration
            log = try ServerLog(path: configuration.logFile)
            let domain = try ServerDomain(configuration)
            state = Monitor(State(lasting: ServerLoop.Lasting(domain: domain, script: configuration.script)))
            configuration.clock?.onTurn { [weak self] in self?.perform { $0.advance() } }
        }

        // MARK: Commands

        /// Has the thread do something, without waiting for it. While there is no thread it is kept for the next one.
        ///
        /// - Returns: What to wait for; nil on the thread itself, and while there is none.
        @discardableResult
        func submit(_ command: Command) -> Int? {
            state.withLock { state in
                state.commands.append(command)
                state.given += 1
                guard let thread = state.thread, !thread.isCurrent else { return nil }
                if state.commands.count == 1 { thread.wake() }
                return state.given
            }
        }

        /// Has the thread do something, and waits until it is done and what follows from it is sent.
        func perform(_ action: @escaping @Sendable (ServerLoop) -> Void) {
            guard let ticket = submit(.action(action)) else { return }
            _ = state.wait(limit: nil) { $0.done >= ticket || $0.thread == nil ? true : nil }
        }

        /// Like ``perform(_:)``, with a result; nil on the thread itself, and while there is none.
        func ask<Answer: Sendable>(_ question: @escaping @Sendable (ServerLoop) -> Answer) -> Answer? {
            let answer = Monitor<Answer?>(nil)
            perform { loop in answer.withLock { $0 = question(loop) } }
            return answer.withLock { $0 }
        }

        // MARK: The thread's side

        var hasCommands: Bool { state.withLock { !$0.commands.isEmpty } }

        /// The commands given since the last call, and the ticket that they complete.
        func removeCommands() -> (commands: [Command], ticket: Int) {
            state.withLock { state in
                defer { state.commands = [] }
                return (state.commands, state.given)
            }
        }

        func finished(_ ticket: Int) {
            state.withLock { $0.done = ticket }
        }

        // MARK: Start and stop

        func start(
            _ context: TLSContext, startTLS: LoopbackPort, directTLS: LoopbackPort
        ) throws(ScriptedServerError) {
            guard state.withLock({ $0.lasting != nil }) else { throw Self.runsAlready }
            let listeners = [
                try LoopbackListener(startTLS, isDirectTLS: false),
                try LoopbackListener(directTLS, isDirectTLS: true),
            ]
            let events: EventQueue
            do throws(Errno) {
                events = try EventQueue()
            } catch {
                throw ScriptedServerError(
                    .port, "The system gives no event queue (\(error)); close some files.")
            }
            let failure = state.withLock { state -> ScriptedServerError? in
                guard let lasting = state.lasting else { return Self.runsAlready }
                do throws(ScriptedServerError) {
                    state.thread = try ServerThread(name: "xmpp-\(startTLS.number)") { [self] wake in
                        let loop = ServerLoop(
                            lasting, server: self, listeners: listeners, context: context, wake: wake,
                            events: events)
                        loop.run()
                        self.state.withLock { $0.lasting = loop.lasting }
                    }
                    state.lasting = nil
                    return nil
                } catch { return error }
            }
            if let failure { throw failure }
        }

        private static let runsAlready = ScriptedServerError(
            .running, "The server runs already; stop it first.")

        func stop(_ ending: ConnectionEnding?) {
            let thread = state.withLock { state -> ServerThread? in
                guard let thread = state.thread else { return nil }
                state.thread = nil
                state.commands.append(.action { $0.stop(ending) })
                thread.wake()
                return thread
            }
            thread?.join()
            // A thread that drops the last reference to its own server ends alone.
            if thread?.isCurrent == true { return }
            // Somebody else may be stopping it.
            _ = state.wait(limit: nil) { $0.lasting != nil ? true : nil }
        }
    }
}

extension ServerDomain {
    init(_ configuration: ScriptedServer.Configuration) throws(ScriptedServerError) {
        guard let domain = try? JID(domain: configuration.domain), domain.domain == configuration.domain,
            configuration.accounts.keys.allSatisfy({
                (try? JID(local: $0, domain: domain.domain))?.local == $0
            })
        else {
            throw ScriptedServerError(
                .invalidAddress,
                "Give the server a domain and localparts in the form that addresses have, lower case.")
        }
        var credentials = ServerCredentials(
            passwords: configuration.accounts, iterations: max(1, configuration.scramIterations))
        do {
            try credentials.prepare(
                for: configuration.behavior.mechanisms + configuration.behavior.extensibleMechanisms)
        } catch {
            throw ScriptedServerError(.password, "Give every account a usable password.", cause: error)
        }
        self.init(
            name: configuration.domain, behavior: configuration.behavior, credentials: credentials,
            keepsXML: configuration.logsXML, makeID: { StanzaID.random() })
    }
}
