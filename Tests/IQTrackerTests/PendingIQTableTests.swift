import Handlers
@testable import IQTracker
import TestThreads
import Testing
import XMPPCore

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

@Suite(.ownThread) struct PendingIQTableTests {
    struct Note: Handler {
        static let id = "test.note"
        func run(_ call: borrowing Call<Int>) throws {}
    }

    let folder: URL
    let store: HandlerStore
    let table = PendingIQTable(account: 7)
    let own: JID
    let peer: JID

    init() throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "iq-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        store = try HandlerStore(
            path: folder.appending(path: "store.db").path, registry: HandlerRegistry([Note.self]),
            schemas: [PendingIQTable.schema])
        own = try JID("me@example.org/phone")
        peer = try JID("you@example.com/desk")
    }

    private func clean() { try? FileManager.default.removeItem(at: folder) }

    @discardableResult
    private func insert(
        _ id: ForeignText, to peer: JID? = nil, session: Int64? = 1, deadline: Int64 = 100
    ) throws -> AnyHandlerID {
        try store.step { step in
            let handler = try step.bind(Note().durable)
            try table.insert(
                stanzaID: id, peer: peer ?? self.peer, session: session, handler: handler,
                connectedDeadline: .milliseconds(deadline), in: step)
            return AnyHandlerID(handler)
        }
    }

    private func answer(_ id: String, from: JID?, type: IQ.Kind = .result) throws -> PendingIQTable.Match {
        let payload = type == .error ? StanzaError(.itemNotFound).element : nil
        let iq = IQ(type: type, from: from, id: id, payload: payload)
        return try store.step { step in try table.claim(answer: iq, own: own, in: step) }
    }

    @Test("X30 another form of the address answers under an id that nobody could guess, and under no other")
    func forms() throws {
        defer { clean() }
        let (asked, served) = (try JID("groß@example.com/desk"), try JID("gross@example.com/desk"))
        for (id, isTaken) in [(StanzaID.random(), true), (StanzaID.random() + "/2", true), ("q1", false)] {
            try insert(ForeignText(id), to: asked)
            #expect(try answer(id, from: JID("mallory@example.com/desk")) == .refused)
            let match = try answer(id, from: served)
            if isTaken {
                guard case .request(let request) = match else {
                    Issue.record("\(match) under \(id)")
                    continue
                }
                #expect(request.peer == asked)
            } else {
                #expect(match == .refused)
                guard case .request = try answer(id, from: asked) else {
                    Issue.record("it waits no more")
                    continue
                }
            }
        }
    }

    @Test("Q2 what goes on for a request is canceled by the first one's id, and nothing else is")
    func successors() throws {
        defer { clean() }
        #expect(PendingIQTable.nextID(after: "q") == "q/2")
        #expect(PendingIQTable.nextID(after: "q/2") == "q/3")
        #expect(PendingIQTable.nextID(after: "q/9") == "q/10")
        #expect(PendingIQTable.nextID(after: "q/x") == "q/x/2")
        func cancel(_ id: ForeignText) throws -> ForeignText? {
            try store.step { step in try table.claim(id: id, in: step)?.stanzaID }
        }
        for id: ForeignText in ["q0", "q", "q/10", "q/x", "qq/2", "q0/2"] { try insert(id) }
        #expect(try cancel("q") == "q")
        #expect(try cancel("q") == "q/10")
        #expect(try cancel("q") == nil)
        #expect(try cancel("r") == nil)
        #expect(try ["q0", "q/x", "qq", "q0"].map { try cancel($0) } == ["q0", "q/x", "qq/2", "q0/2"])
    }

    @Test("Q2 three wrong senders are refused and the right one is still taken")
    func wrongSenders() throws {
        defer { clean() }
        let handler = try insert("q1")
        for sender in ["you@example.com", "example.com", "other@example.com/desk"] {
            #expect(try answer("q1", from: JID(sender)) == .refused)
        }
        #expect(try answer("q1", from: peer) == .request(.init(stanzaID: "q1", peer: peer, handler: handler)))
    }

    @Test("Q2 an id of another account matches nothing")
    func otherAccount() throws {
        defer { clean() }
        try insert("q1")
        let match = try store.step { step in
            try PendingIQTable(account: 8).claim(
                answer: IQ(type: .result, from: peer, id: "q1", payload: nil), own: own, in: step)
        }
        #expect(match == .unknown)
    }

    @Test("Q3 an answer is taken once; the second finds nothing")
    func repeatedAnswer() throws {
        defer { clean() }
        try insert("q1")
        _ = try answer("q1", from: peer)
        #expect(try answer("q1", from: peer) == .unknown)
    }

    @Test("Q1 a request of an id that waits already is refused and changes nothing")
    func repeatedID() throws {
        defer { clean() }
        let first = try insert("q1")
        #expect(throws: HandlerError.self) { try insert("q1") }
        #expect(try answer("q1", from: peer) == .request(.init(stanzaID: "q1", peer: peer, handler: first)))
    }

    @Test("H16 requests expire in the order of their deadlines and not before")
    func expiry() throws {
        defer { clean() }
        try insert("late", deadline: 300)
        try insert("early", deadline: 100)
        try insert("middle", deadline: 200)
        let expired = try store.step { step in
            try [99, 200, 1000].map { time in
                try table.claimExpired(connectedTime: .milliseconds(time), limit: 10, in: step).map(
                    \.stanzaID)
            }
        }
        #expect(expired == [[], ["early", "middle"], ["late"]])
    }

    @Test("H16 the next deadline is the earliest and none when nothing waits")
    func nextDeadline() throws {
        defer { clean() }
        #expect(try store.step { step in try table.nextConnectedDeadline(in: step) } == nil)
        try insert("a", deadline: 300)
        try insert("b", deadline: 100)
        #expect(try store.step { step in try table.nextConnectedDeadline(in: step) } == .milliseconds(100))
    }

    @Test("Q3 a lost session takes its own requests and leaves those that were never sent")
    func lostSession() throws {
        defer { clean() }
        try insert("sent", session: 3)
        try insert("waiting", session: nil)
        let lost = try store.step { step in
            try table.claimLost(session: 3, limit: 10, in: step).map(\.stanzaID)
        }
        #expect(lost == ["sent"])
        let adopted = try store.step { step in
            try table.adopt(session: 4, in: step)
            return try table.claimLost(session: 4, limit: 10, in: step).map(\.stanzaID)
        }
        #expect(adopted == ["waiting"])
    }

    @Test(
        "H16 a logout takes requests of every session a few at a time, each once, and leaves those of others")
    func claimedForLogout() throws {
        defer { clean() }
        let handlers = try (1...5).map { try insert("q\($0)", session: Int64($0 % 2)) }
        let other = PendingIQTable(account: 8)
        try store.step { step in
            let handler = try step.bind(Note().durable)
            try other.insert(
                stanzaID: "theirs", peer: peer, session: 1, handler: handler,
                connectedDeadline: .milliseconds(1), in: step)
        }
        var taken: [ForeignText] = []
        var last = AnyHandlerID(rawValue: 0)
        while true {
            let some = try store.step { step in
                try table.claimAny(boundAfter: last, upTo: handlers[3], limit: 2, in: step)
            }
            guard let end = some.last else { break }
            last = end.handler
            taken += some.map(\.stanzaID)
            #expect(some.count <= 2)
        }
        #expect(taken == ["q1", "q2", "q3", "q4"])
        let left = try store.step { step in
            try step.all("SELECT stanza_id FROM request ORDER BY 1") { (row) throws(HandlerError) in
                row.text(0)
            }
        }
        #expect(left == ["q5", "theirs"])
    }
}
