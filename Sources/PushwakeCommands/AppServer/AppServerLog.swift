import FoundationEssentials
import Handlers
import Simulation
import XMPPCore

/// The log of an app server, with a line or a JSON object for each event. It contains no secrets.
struct AppServerLog: Sendable {
    let isJSON: Bool

    private struct Entry: Encodable {
        /// Milliseconds since 1970.
        var at = TimeSource.systemWall().milliseconds
        var event: String
        var node: String?
        var pid: Int32?
        var from: String?
        var reason: String?
        /// The ending of a worker, and its duration.
        var status: Int32?
        var signal: Int32?
        var milliseconds: Int64?
    }

    func tell(_ event: AppServer.Event) {
        switch event {
        case .connected: say(Entry(event: "connected"), "connected")
        case .disconnected(let reason, let retry):
            say(
                Entry(event: "disconnected", reason: reason, milliseconds: retry.milliseconds),
                "disconnected: \(reason) Trying again in \(Span.text(retry.milliseconds)).")
        case .desk(.push(let device)): say(Entry(event: "push", node: device.node), "push \(device.node)")
        case .desk(.refused(let from, let reason)):
            say(Entry(event: "refused", from: from, reason: reason), "refused \(from): \(reason)")
        }
    }

    func tell(_ event: WorkerStarter.Event) {
        switch event {
        case .started(let node, let pid):
            say(Entry(event: "started", node: node, pid: pid), "started \(node): process \(pid)")
        case .ended(let node, let pid, let ending):
            let time = ending.elapsed.milliseconds
            say(
                Entry(
                    event: "ended", node: node, pid: pid, status: ending.status, signal: ending.signal,
                    milliseconds: time),
                "ended \(node): process \(pid) \(ending) after \(Span.text(time))")
        case .overtime(let node, let pid):
            say(
                Entry(event: "overtime", node: node, pid: pid),
                "overtime \(node): process \(pid) is killed, its time is over")
        case .failed(let node, let reason):
            say(Entry(event: "failed", node: node, reason: reason), "failed \(node): \(reason)")
        }
    }

    private func say(_ entry: Entry, _ text: VisibleText) {
        guard isJSON else {
            Terminal.say(text)
            return
        }
        if let line = try? OneLineJSON.text(entry) { Terminal.say(VisibleText(json: line)) }
    }
}
