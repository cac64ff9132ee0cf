import Simulation
import TestServers

/// When machines and primaries lived, for the page.
final class Chronicle {
    private(set) var lives: [Simulation.Chronicle.Life] = []
    private(set) var marks: [Simulation.Chronicle.Mark] = []

    func started(_ member: Member) { start(member.name, member.process?.processID) }

    func started(primary: PostgresServer) { start("primary", primary.processID) }

    private func start(_ role: String, _ process: Int32?) {
        lives.append(.init(role: role, pid: process ?? 0, start: now))
    }

    func ended(_ member: Member) { end(member.name) }
    func ended(primary: PostgresServer) {
        end("primary")
        mark("restart", "the primary \(primary.processID ?? 0) is killed")
    }

    private func end(_ role: String) {
        change(role) { ($0.end, $0.fate) = (now, "killed") }
    }

    func stopped(_ member: Member) { change(member.name) { $0.frozen.append([now]) } }
    func wentOn(_ member: Member) {
        change(member.name) { if !$0.frozen.isEmpty { $0.frozen[$0.frozen.count - 1].append(now) } }
    }

    func mark(_ kind: String, _ text: String) { marks.append(.init(at: now, kind: kind, text: text)) }

    private func change(_ role: String, _ body: (inout Simulation.Chronicle.Life) -> Void) {
        if let index = lives.lastIndex(where: { $0.role == role }) { body(&lives[index]) }
    }
}
