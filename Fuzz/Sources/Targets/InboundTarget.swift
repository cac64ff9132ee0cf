import Glibc
@testable import Handlers
@testable import XMPPAccount
import XMPPCore

extension FuzzTarget {
    /// What a server sends on an open stream, taken into a step of an account with every module: no stanza makes the step
    /// fail, each is counted once, and the store holds together. The step is then undone.
    static let inbound = FuzzTarget("inbound", maximumLength: 8192, dictionary: "xml") { bytes in
        let events = try StreamOutcome(content: bytes).events.dropFirst()
        struct Undo: Error {}
        do {
            try world.made().store.step { step in
                try take(events, world.made(), in: step)
                if Digest.of(bytes) % pageCheckShare == 0 { try checkPages(step) }
                throw Undo()
            }
        } catch is Undo {}
    }

    private static let world = Result { () throws in
        let made = try FuzzAccount(path: ScratchFolder.make() + "/store.db")
        try made.fill()
        return made
    }

    /// Looking at every page takes as long as the step; one input in so many does.
    private static let pageCheckShare: UInt64 = 64

    private static func checkPages(_ step: borrowing Step) throws {
        let result = try step.first("PRAGMA quick_check(1)") { (row) throws(HandlerError) in row.text(0) }
        try require(result == "ok", "the database is damaged: \(result ?? "no answer")")
    }

    private static func take(
        _ events: some Sequence<StreamParser.Event>, _ world: FuzzAccount, in step: borrowing Step
    ) throws {
        var inbound = try world.start(in: step)
        for event in events {
            let before = inbound.management.received
            let progress: InboundStep.Progress
            do {
                progress = try inbound.process(event, in: step)
            } catch {
                throw Finding("\(event) makes the step fail: \(error)")
            }
            if case .end(let fault) = progress {
                try require(!event.isStanza, "a stanza ends the stream: \(fault.error)")
                break
            }
            let counted = inbound.management.received.distance(from: before)
            try require(counted == (event.isStanza ? 1 : 0), "\(event) was counted \(counted) times")
        }
        try world.end(inbound, in: step)
        try check(step)
    }

    private static func check(_ step: borrowing Step) throws {
        let dangling = try step.first("PRAGMA foreign_key_check") { (row) throws(HandlerError) in row.text(0)
        }
        try require(dangling == nil, "a row of \(dangling ?? "") names one that is not there")
        let lost = try step.first(
            "SELECT count(*) FROM request WHERE handler NOT IN (SELECT id FROM handler)"
        ) { (row) throws(HandlerError) in row.integer(0) }
        try require(lost == 0, "a request waits without a handler")
        let waiting = try step.all("SELECT xml FROM outbox ORDER BY seq DESC LIMIT 8") {
            (row) throws(HandlerError) in row.blob(0)
        }
        for xml in waiting {
            let text = String(decoding: xml, as: UTF8.self)
            let element = try? Element(stored: text, defaultNamespace: Namespaces.client)
            try require(
                element.flatMap { try? Stanza($0) } != nil, "what waits to be sent is no stanza: \(text)")
        }
    }
}
