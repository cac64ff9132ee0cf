import TestThreads
import Testing
import XMPPCore
import XMPPTestKit

/// Stream management of one session, by tables.
@Suite(.ownThread) struct ServerSessionTests {
    private func session(_ change: (inout ServerBehavior) -> Void = { _ in }) throws -> ServerSession {
        var behavior = ServerBehavior()
        change(&behavior)
        return ServerSession(
            number: 1, jid: try JID("alice@localhost/a"), connection: 7, id: "sm-1", behavior: behavior)
    }

    private func enabled(_ change: (inout ServerBehavior) -> Void = { _ in }) throws -> ServerSession {
        var session = try session(change)
        _ = session.receive(enable)
        return session
    }

    private let enable = Element("enable", namespace: Namespaces.sm, attributes: ["resume": "true"])
    private let request = Element("r", namespace: Namespaces.sm)

    private func message(_ id: String) -> Element {
        Element("message", namespace: Namespaces.client, attributes: ["id": id])
    }

    private func acknowledgement(_ count: UInt32) -> Element {
        Element("a", namespace: Namespaces.sm, attributes: ["h": String(count)])
    }

    private func tooHigh(_ count: UInt32, sent: UInt32) -> [ServerSession.Action] {
        [
            .end(
                StreamError(
                    .undefinedCondition,
                    applicationCondition: Element(
                        "handled-count-too-high", namespace: Namespaces.sm,
                        attributes: ["h": String(count), "send-count": String(sent)])))
        ]
    }

    @Test(
        "S1 enabling gives the session's id and the shorter of both windows",
        arguments: [
            ("true", nil, "600"), ("1", "60", "60"), ("true", "9999", "600"), ("true", "x", "600"),
        ] as [(String, String?, String)])
    func enabling(resume: String, maximum: String?, granted: String) throws {
        var session = try session()
        let actions = session.receive(
            Element("enable", namespace: Namespaces.sm, attributes: ["resume": resume, "max": maximum]))
        let answer = Element(
            "enabled", namespace: Namespaces.sm, attributes: ["id": "sm-1", "resume": "true", "max": granted])
        #expect(actions == [.send(answer), .enabled])
        #expect(session.isResumable)
        #expect(session.window == Int64(granted).map { $0 * 1000 })
    }

    @Test("S1 without resumption there is no id to resume with", arguments: [true, false])
    func withoutResumption(isOffered: Bool) throws {
        var session = try session { $0.offersResumption = isOffered }
        let wanted = Element(
            "enable", namespace: Namespaces.sm, attributes: ["resume": isOffered ? nil : "true"])
        #expect(session.receive(wanted) == [.send(Element("enabled", namespace: Namespaces.sm)), .enabled])
        #expect(!session.isResumable)
    }

    @Test("S1 a second enable ends the stream")
    func enabledTwice() throws {
        var session = try enabled()
        guard case .end(let error) = session.receive(enable).first else {
            Issue.record("There is no stream error.")
            return
        }
        #expect(error.condition == .policyViolation)
    }

    @Test("S13 counting starts with enable, in both directions, and leaves nonzas out")
    func counting() throws {
        var session = try session()
        _ = session.receive(message("before"))
        #expect(
            session.deliver(message("early"), time: Timestamp(milliseconds: 0)) == .send(message("early")))
        #expect((session.received, session.sent, session.queue.count) == (0, 0, 0))
        _ = session.receive(enable)
        #expect(session.receive(message("m1")) == [.route(message("m1"))])
        _ = session.receive(Element("active", namespace: Namespaces.csi))
        _ = session.deliver(message("d1"), time: Timestamp(milliseconds: 0))
        #expect(session.receive(request) == [.send(acknowledgement(1))])
        #expect((session.received, session.sent, session.queue.count) == (1, 1, 1))
    }

    @Test(
        "W6 a request for acknowledgement is answered as the test wants",
        arguments: [
            (.prompt, [3]), (.never, []), (.claiming(77), [77]), (.offset(-1), [2]), (.offset(5), [8]),
        ] as [(ServerBehavior.Acknowledgements, [UInt32])])
    func answers(_ acknowledgements: ServerBehavior.Acknowledgements, counts: [UInt32]) throws {
        var session = try enabled { $0.acknowledgements = acknowledgements }
        for number in 1...3 { _ = session.receive(message("m\(number)")) }
        #expect(session.receive(request) == counts.map { .send(acknowledgement($0)) })
    }

    @Test("W6 a delayed acknowledgement carries the count of its own time")
    func delayedAnswer() throws {
        var session = try enabled { $0.acknowledgements = .delayed(.milliseconds(1500)) }
        #expect(session.receive(request) == [.answerLater(1500)])
        _ = session.receive(message("m1"))
        #expect(session.answer() == .send(acknowledgement(1)))
    }

    @Test("S10 counts wrap from 2^32-1 to 0 in both directions")
    func wrap() throws {
        var session = try enabled {
            $0.initialReceivedCount = .max - 1
            $0.initialSentCount = .max - 1
        }
        for number in 1...3 {
            _ = session.receive(message("m\(number)"))
            _ = session.deliver(message("d\(number)"), time: Timestamp(milliseconds: 0))
        }
        #expect((session.received, session.sent) == (1, 1))
        #expect(session.receive(request) == [.send(acknowledgement(1))])
        #expect(session.receive(acknowledgement(.max)) == [])
        #expect(session.queue.count == 2)
        #expect(session.receive(acknowledgement(1)) == [])
        #expect(session.queue.isEmpty)
        #expect(session.receive(acknowledgement(2)) == tooHigh(2, sent: 1))
    }

    @Test(
        "S10 a count that cannot be true ends the session",
        arguments: [
            (4, [(4, 3)]), (2, [(2, nil), (1, 3)]), (3, [(3, nil), (3, nil)]),
            (0, [(0, nil), (UInt32.max, 3)]),
        ] as [(UInt32, [(UInt32, UInt32?)])])
    func counts(_: UInt32, steps: [(count: UInt32, sent: UInt32?)]) throws {
        var session = try enabled()
        for number in 1...3 { _ = session.deliver(message("d\(number)"), time: Timestamp(milliseconds: 0)) }
        for step in steps {
            let expected = step.sent.map { tooHigh(step.count, sent: $0) } ?? []
            #expect(session.receive(acknowledgement(step.count)) == expected)
        }
    }

    @Test("S2 a resumed session drops what was handled and sends the rest again, in order and with old marks")
    func resuming() throws {
        var session = try enabled()
        _ = session.receive(message("m1"))
        for number in 1...3 { _ = session.deliver(message("d\(number)"), time: Timestamp(milliseconds: 0)) }
        session.detach()
        #expect(session.deliver(message("d4"), time: Timestamp(milliseconds: 0)) == nil)
        let resumed = Element("resumed", namespace: Namespaces.sm, attributes: ["previd": "sm-1", "h": "1"])
        #expect(
            session.resume(h: 2, on: 8) == [
                .send(resumed), .send(message("d3"), isResent: true), .send(message("d4")),
            ])
        #expect(session.connection == 8)
        #expect(session.sent == 4)
        #expect(session.requestAcknowledgement() == .send(request))
    }

    @Test("S13 a session resumed twice before an acknowledgement sends everything again both times")
    func resumedTwice() throws {
        var session = try enabled()
        for number in 1...2 { _ = session.deliver(message("d\(number)"), time: Timestamp(milliseconds: 0)) }
        for connection in 8...9 {
            session.detach()
            let sent = session.resume(h: 0, on: connection).dropFirst()
            #expect(sent == [.send(message("d1"), isResent: true), .send(message("d2"), isResent: true)])
        }
        #expect(session.resume(h: 3, on: 10) == tooHigh(3, sent: 2))
    }

    @Test("W6 acknowledgements are asked for once for everything that was sent together")
    func asking() throws {
        var session = try enabled()
        #expect(session.requestAcknowledgement() == nil)
        for number in 1...2 { _ = session.deliver(message("d\(number)"), time: Timestamp(milliseconds: 0)) }
        #expect(session.requestAcknowledgement() == .send(request))
        #expect(session.requestAcknowledgement() == nil)
        // An answer that covers only a part is no reason to ask again at once.
        _ = session.receive(acknowledgement(1))
        #expect(session.requestAcknowledgement() == nil)
    }

    @Test("W6 a session that would hold too much is ended")
    func queueLimit() throws {
        var session = try enabled { $0.queueLimit = 2 }
        for number in 1...2 { _ = session.deliver(message("d\(number)"), time: Timestamp(milliseconds: 0)) }
        #expect(
            session.deliver(message("d3"), time: Timestamp(milliseconds: 0))
                == .end(StreamError(.resourceConstraint)))
    }

    @Test(
        "W6 what is neither stanza nor known is refused",
        arguments: [
            (
                Element("what", namespace: "urn:example"),
                ServerSession.Action.end(StreamError(.unsupportedStanzaType))
            ),
            (
                Element("resume", namespace: Namespaces.sm, attributes: ["previd": "x", "h": "0"]),
                .send(ServerSession.failed("unexpected-request"))
            ),
            (
                Element("a", namespace: Namespaces.sm, attributes: ["h": "-1"]),
                .end(StreamError(.badFormat, text: "<a/> needs 'h', a number below 2^32."))
            ),
        ])
    func refused(_ element: Element, action: ServerSession.Action) throws {
        var session = try enabled()
        #expect(session.receive(element) == [action])
    }

    @Test("W6 the queue keeps its order through many rounds of adding and removing")
    func queue() {
        var queue = StanzaQueue()
        var next = 0
        var first = 0
        for round in 1...3000 {
            for _ in 0..<(round % 7) {
                queue.append(message("\(next)"), time: Timestamp(milliseconds: 0), wasSent: false)
                next += 1
            }
            let removed = min(round % 5, queue.count)
            queue.removeFirst(removed)
            first += removed
            #expect(queue.count == next - first)
        }
        #expect(queue.removeAll().map { $0.element["id"] } == (first..<next).map { "\($0)" })
        #expect(queue.isEmpty)
    }
}
