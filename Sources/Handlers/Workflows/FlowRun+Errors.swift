/// Reasons why a workflow is parked.
extension FlowRun {
    func misfit(_ sentence: String) -> HandlerError {
        HandlerError(.journalMisfit, "the workflow \(workflow) ('\(name)') \(sentence)")
    }

    func mismatch(_ place: FlowPlace, _ known: Name, _ operation: Name) -> HandlerError {
        misfit(
            "has '\(known)' at place \(place.position) of its journal, where this program does '\(operation)'; bring back the code that wrote it, or ask flow.version where it changed"
        )
    }

    var tooLong: HandlerError { tooLong("returned") }

    var waitsTooLong: HandlerError { tooLong("waits") }

    private func tooLong(_ verb: String) -> HandlerError {
        let (position, next) = state.withLock { ($0.position, $0.known($0.position)?.operation ?? "nothing") }
        return misfit(
            "\(verb) before place \(position) of its journal, which holds '\(next)'; bring back the code that wrote it, or ask flow.version where it changed"
        )
    }

    func notAwaited(_ result: FlowResult) -> HandlerError {
        misfit(
            "has the result of '\(result.entry.operation)' at place \(result.position) of its journal, for which this program does not wait; bring back the code that wrote it, or ask flow.version where it changed"
        )
    }

    func notCanceled(_ position: Int) -> HandlerError {
        misfit(
            "has canceled its wait at place \(position) of its journal, where this program still waits; bring back the code that wrote it, or ask flow.version where it changed"
        )
    }

    var tooManyEntries: HandlerError {
        HandlerError(
            .tooManyEntries,
            "the workflow '\(name)' has \(Self.maximumEntries) operations in its journal; let it go on with flow.again, or run a part of them as a workflow of its own"
        )
    }

    var foreignWait: HandlerError {
        HandlerError(
            .foreignWait,
            "the workflow \(workflow) ('\(name)') awaits something that is not its flow's; do that in an async handler, and flow.run it"
        )
    }
}
