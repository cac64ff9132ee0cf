package import XMPPCore

/// The page of a run, with its processes.
extension TimelinePage {
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
        let times =
            lives.flatMap { [$0.start, $0.end ?? $0.start] } + marks.map(\.at)
            + flights.flatMap { [$0.bound, $0.ended ?? $0.bound] }
        let start = times.min() ?? 0
        let end = times.max() ?? 0
        let names = Set(flights.map(\.name)).sorted()
        let places = Dictionary(uniqueKeysWithValues: names.enumerated().map { ($0.element, $0.offset) })
        self.init(
            title: title, verdict: verdict, isGood: isGood, summary: summary, duration: end - start,
            names: names,
            handlers: flights.map { flight in
                var bar = Bar(flight, name: places[flight.name] ?? 0, start: start)
                bar.boundBy = owners[flight.boundBy]
                bar.endedBy = flight.endedBy.flatMap { owners[$0] }
                return bar
            })
        lanes = ["main", "worker", "server"]
        processes = lives.map { life in
            Process(
                role: life.role, pid: life.pid, start: life.start - start, end: (life.end ?? end) - start,
                fate: VisibleText(life.fate).description,
                frozen: life.frozen.map { [$0[0] - start, ($0.last ?? $0[0]) - start] })
        }
        self.marks = marks.map {
            .init(at: $0.at - start, kind: $0.kind, text: VisibleText($0.text).description)
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
}

extension TimelinePage.Bar {
    fileprivate init(_ flight: FlightRecorder.Flight, name: Int, start: Int64) {
        self.init(
            id: flight.id, name: name, arguments: flight.arguments, bound: flight.bound,
            ended: flight.ended, state: flight.outcome.map { .ended($0) } ?? .waiting,
            reason: flight.reason, trace: flight.trace)
        failures = flight.failures
        move(start: start)
    }
}
