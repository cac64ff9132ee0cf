import Foundation
import Handlers
import Simulation
import XMPPCore

/// The page of a run: machines and primaries over the handlers that took longest.
struct FleetPage {
    /// How many handlers are drawn; more would be too many for a browser.
    private static let limit = 3000

    static func text(_ fleet: Fleet, _ findings: Findings) throws -> String {
        let machines = try fleet.query("SELECT node, name, at FROM machine").split(separator: "\n").map {
            $0.split(separator: "|")
        }
        var owners: [Int64: Int] = [:]
        for row in machines where row.count == 3 {
            guard let node = Int64(row[0]), let time = Int64(row[2]) else { continue }
            owners[node] = fleet.chronicle.lives.lastIndex { $0.role == row[1] && $0.start <= time }
        }
        let rows = try fleet.query(
            """
            SELECT substr(handled.name, 2), handled.at, handled.node, finished.at, finished.node
            FROM handled LEFT JOIN finished ON finished.name = handled.name
            WHERE finished.at IS NOT NULL OR substr(handled.name, length(handled.name)) IN ('0', '5')
            ORDER BY coalesce(finished.at, handled.at + 1000000) - handled.at DESC LIMIT \(limit)
            """)
        let flights = rows.split(separator: "\n").compactMap { line -> FlightRecorder.Flight? in
            let words = line.split(separator: "|", omittingEmptySubsequences: false)
            guard words.count == 5, let id = Int64(words[0]), let bound = Int64(words[1]),
                let node = Int64(words[2])
            else { return nil }
            return FlightRecorder.Flight(
                id: id, name: Machine.Finish.id, arguments: "{}", bound: bound, boundBy: node,
                ended: Int64(words[3]),
                endedBy: Int64(words[4]), outcome: Int64(words[3]) == nil ? nil : .result, trace: id)
        }
        var page = TimelinePage(
            title: "make fleet: \(findings.machines) machines, seed \(findings.seed)",
            verdict: findings.isProven ? "Nothing lost, nothing repeated." : "Something is wrong.",
            isGood: findings.isProven, summary: VisibleText(lines: findings.text),
            lives: fleet.chronicle.lives,
            marks: fleet.chronicle.marks, flights: flights, owners: owners)
        page.lanes = ["server", "primary"] + fleet.members.map(\.name)
        return try page.page()
    }
}
