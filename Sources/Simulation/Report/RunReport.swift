import FoundationEssentials
import Handlers
package import XMPPCore

/// The content of a run's page. Times are in milliseconds since the start of the run.
package struct RunReport: Encodable {
    package struct Process: Encodable {
        package var role: String
        package var pid: Int32
        package var start: Int64
        package var end: Int64
        package var fate: String
        package var frozen: [[Int64]]
    }

    /// A handler from its binding to its end, encoded as an array so that thousands of them stay small.
    package struct Bar: Encodable {
        package var flight: FlightRecorder.Flight
        /// Indexes into ``RunReport/names`` and ``RunReport/processes``.
        package var name: Int
        package var boundBy: Int?
        package var endedBy: Int?
        package var start: Int64

        /// The maximum length of the shown arguments.
        private static let argumentLimit = 2000

        /// Encodes the values in the order in which the page reads them.
        package func encode(to encoder: any Encoder) throws {
            var row = encoder.unkeyedContainer()
            try row.encode(flight.id)
            try row.encode(name)
            let isLong = flight.arguments.utf8.count > Self.argumentLimit
            let arguments =
                isLong ? flight.arguments.prefix(Self.argumentLimit) + " …" : flight.arguments[...]
            try row.encode(VisibleText(json: String(arguments)).description)
            try row.encode(flight.bound - start)
            try row.encode(flight.ended.map { $0 - start })
            try row.encode(flight.outcome.map { Int($0.rawValue) - 1 } ?? 4)
            try row.encode(boundBy)
            try row.encode(endedBy)
            try row.encode(flight.reason.map { VisibleText($0).description })
            try row.encode(flight.trace)
            if !flight.failures.isEmpty { try row.encode(flight.failures.map { $0 - start }) }
        }
    }

    package var title: String
    /// One line that says whether the run kept the promises.
    package var verdict: String
    package var isGood: Bool
    /// The summary.
    package var summary: String
    package var duration: Int64
    package var processes: [Process]
    package var marks: [Chronicle.Mark]
    /// The distinct names of the handlers.
    package var names: [String]
    package var handlers: [Bar]

    package init(
        title: VisibleText, verdict: String, isGood: Bool, summary: VisibleText, lives: [Chronicle.Life],
        marks: [Chronicle.Mark], record: FlightRecorder.Record
    ) {
        self.init(
            title: title, verdict: verdict, isGood: isGood, summary: summary, lives: lives,
            marks: (marks + record.sessions).sorted { $0.at < $1.at }, flights: record.flights,
            owners: Self.owners(record.epochs, lives))
    }

    /// - Parameters:
    ///   - marks: The events in the order of their times.
    ///   - owners: The index into `lives` for each owner number in `flights`.
    package init(
        title: VisibleText, verdict: String, isGood: Bool, summary: VisibleText, lives: [Chronicle.Life],
        marks: [Chronicle.Mark], flights: [FlightRecorder.Flight], owners: [Int64: Int]
    ) {
        (self.title, self.verdict, self.isGood) = (title.description, verdict, isGood)
        self.summary = summary.description
        let times =
            lives.flatMap { [$0.start, $0.end ?? $0.start] } + marks.map(\.at)
            + flights.flatMap { [$0.bound, $0.ended ?? $0.bound] }
        let start = times.min() ?? 0
        let end = times.max() ?? 0
        duration = end - start
        processes = lives.map { life in
            Process(
                role: life.role, pid: life.pid, start: life.start - start, end: (life.end ?? end) - start,
                fate: VisibleText(life.fate).description,
                frozen: life.frozen.map { [$0[0] - start, ($0.last ?? $0[0]) - start] })
        }
        self.marks = marks.map {
            .init(at: $0.at - start, kind: $0.kind, text: VisibleText($0.text).description)
        }
        let known = Set(flights.map(\.name)).sorted()
        names = known.map { VisibleText($0).description }
        let places = Dictionary(uniqueKeysWithValues: known.enumerated().map { ($0.element, $0.offset) })
        handlers = flights.map { flight in
            Bar(
                flight: flight, name: places[flight.name] ?? 0, boundBy: owners[flight.boundBy],
                endedBy: flight.endedBy.flatMap { owners[$0] }, start: start)
        }
    }

    /// Returns the index into `lives` of each epoch's process: the last process of its role that had started by then.
    private static func owners(_ epochs: [FlightRecorder.Epoch], _ lives: [Chronicle.Life]) -> [Int64: Int] {
        var owners: [Int64: Int] = [:]
        for epoch in epochs {
            // The start is recorded a moment after the process was created.
            owners[epoch.number] = lives.indices.last {
                lives[$0].role == epoch.owner && lives[$0].start <= epoch.since + 20
                    && lives[$0].end ?? .max >= epoch.since
            }
        }
        return owners
    }

    /// Returns the whole page, which needs no other files.
    package func page() throws -> String {
        // No text may end the script element that contains it.
        let data = try OneLineJSON.text(self)
            .replacing("<", with: "\\u003c").replacing(">", with: "\\u003e")
        return Self.text(PackageResources.report_html)
            .replacing("/*STYLE*/", with: Self.text(PackageResources.report_css))
            .replacing("/*SCRIPT*/", with: Self.text(PackageResources.report_js))
            .replacing("/*DATA*/", with: data)
    }

    private static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
}
