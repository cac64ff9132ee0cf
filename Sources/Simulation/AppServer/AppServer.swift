import Handlers
import Synchronization

/// A push service on the stream of a component. It reopens the stream when it breaks.
package final class AppServer: Sendable {
    /// An event of the app server.
    package enum Event: Sendable {
        /// The server has accepted the component.
        case connected
        /// The stream broke or could not be opened. It is retried after `retry`.
        case disconnected(reason: String, retry: Duration)
        case desk(PushDesk.Event)
    }

    private static let firstDelay = Duration.milliseconds(100)
    private static let longestDelay = Duration.seconds(10)

    private let address: ComponentStream.Address
    private let desk: PushDesk
    private let stopped: WakeSignal
    private let isStopped = Atomic<Bool>(false)
    private let report: @Sendable (Event) -> Void
    private let thread = Mutex<WorkerThread?>(nil)

    /// - Parameters:
    ///   - address: The address of the server.
    ///   - desk: The devices that may be woken.
    ///   - report: Called on the service's thread. The answer to a push is sent after it returns.
    package init(
        _ address: ComponentStream.Address, desk: PushDesk, report: @escaping @Sendable (Event) -> Void
    ) throws {
        self.address = address
        self.desk = desk
        self.report = report
        stopped = try WakeSignal()
    }

    /// Serves on a new thread until ``stop()``.
    func start() throws {
        let started = try WorkerThread("app server") { self.serve() }
        thread.withLock { $0 = started }
    }

    /// Returns once the thread has ended.
    func stop() {
        isStopped.store(true, ordering: .sequentiallyConsistent)
        stopped.raise()
        thread.withLock { $0.take() }?.join()
    }

    /// Serves until ``stop()``.
    package func serve() {
        var delay = Self.firstDelay
        while !isStopped.load(ordering: .sequentiallyConsistent) {
            var reason = "the server ended the stream"
            do {
                let stream = try ComponentStream(address, interrupt: stopped.fileDescriptor)
                defer { stream.close() }
                delay = Self.firstDelay
                report(.connected)
                try serve(stream)
            } catch {
                reason = "\(error)"
            }
            if isStopped.load(ordering: .sequentiallyConsistent) { return }
            report(.disconnected(reason: reason, retry: delay))
            stopped.wait(atMost: delay)
            delay = min(delay * 2, Self.longestDelay)
        }
    }

    private func serve(_ stream: ComponentStream) throws {
        while let element = try stream.nextElement() {
            let decision = desk.decide(element)
            if let event = decision.event { report(.desk(event)) }
            if let reply = decision.reply { try stream.send(reply) }
        }
    }
}
