import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
@testable import XMPPAccount
import XMPPCore
import XMPPTestKit

/// Requests: every one ends exactly once, in whatever process is there by then.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct AccountRequestTests {
    private let peer = AccountRig.peer

    @Test("Q1 Q3 a request ends with the result or the error that its peer gave")
    func answered() async throws {
        try await withRig { rig in
            let account = try await rig.connected()
            try await account.ask(rig.question("q1"))
            try await account.ask(rig.question("q2", want: "error"))
            try await account.ask(
                IQ(type: .get, id: "q3", payload: Element("ping", namespace: Namespaces.ping)))
            try await eventually { try account.store.waitingHandlers == 0 }
            #expect(
                try account.store.notes("ended").sorted() == [
                    "q1: result answer from peer@localhost/bot",
                    "q2: error item-not-found from peer@localhost/bot",
                    "q3: result - from -",
                ])
            #expect(try account.store.notes("abandoned").isEmpty)
            #expect(try account.store.number("SELECT count(*) FROM ending") == 3)
        }
    }

    @Test("Q3 an unanswered request times out with an error of our own from the asked address, once")
    func timesOut() async throws {
        let clock = VirtualClock()
        try await withRig(clock: clock) { rig in
            let account = try await rig.connected { $0.connectedRequestTimeout = .seconds(60) }
            try await account.ask(rig.question("q1", want: "silence"))
            try await account.ask(rig.question("q2", want: "silence"), timeout: .seconds(5))
            try await rig.saw { $0.event == .received && $0.id == "q2" }
            try await account.caughtUp()
            clock.advance(by: .milliseconds(4999))
            try await account.perform { _ in }
            #expect(try account.store.notes("ended").isEmpty)
            clock.advance(by: .milliseconds(1))
            try await eventually { try account.store.notes("ended").count == 1 }
            #expect(
                try account.store.notes("ended") == [
                    "q2: timeout remote-server-timeout from peer@localhost/bot"
                ])
            // The late answer finds nothing, is counted, and is not answered.
            rig.bot.answer(
                IQ(
                    type: .get, to: peer, from: rig.server.boundAddresses[0], id: "q2",
                    payload: Element("x", namespace: "x")
                ).element)
            try await account.caughtUp()
            #expect(try account.store.number("SELECT received FROM session") == 1)
            #expect(rig.sent().filter { $0.hasPrefix("iq") } == ["iq q1", "iq q2"])
            #expect(try account.store.notes("ended").count == 1)
            #expect(try account.store.waitingHandlers == 1)
        }
    }

    @Test("Q3 time without a stream does not count, so nothing times out while offline")
    func connectedTime() async throws {
        let clock = VirtualClock()
        try await withRig(clock: clock) { rig in
            let account = try await rig.connected { $0.connectedRequestTimeout = .seconds(60) }
            try await account.ask(rig.question("q1", want: "silence"))
            try await account.caughtUp()
            clock.advance(by: .seconds(59))
            try await account.suspend()
            clock.advance(by: .seconds(500))
            try await account.connect()
            try await account.perform { _ in }
            #expect(try account.store.notes("ended").isEmpty)
            clock.advance(by: .seconds(1))
            try await eventually { try account.store.notes("ended").count == 1 }
        }
    }

    @Test(
        "Q3 time in which the process was frozen is no connected time, as far as it had not planned to wait")
    func frozenTime() async throws {
        let time = FrozenTime()
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected {
                $0.time = time.source
                $0.keepAlive = nil
            }
            // While a request waits, the account plans to wait for a minute at most.
            try await account.ask(rig.question("q1", want: "silence"), timeout: .seconds(30 * 86_400))
            try await account.caughtUp()
            var isShown = false
            while !isShown {
                let before = try #require(account.connectedClock.connectedTime)
                try await eventually("the account waits") { time.sleeps != nil }
                let sleeps = time.sleeps
                time.pass(.seconds(3600))
                // Unless something has woken it in between, it has slept through the hour.
                isShown = sleeps != nil && time.sleeps == sleeps
                try await account.perform { _ in }
                // The account's thread has counted the hour, or not, before it comes to that.
                try await account.caughtUp()
                let after = try #require(account.connectedClock.connectedTime)
                if isShown { #expect(after - before < .seconds(600)) }
            }
        }
    }

    @Test("Q3 H16 time for which the process was frozen in the middle of a step is no connected time")
    func frozenStep() async throws {
        let time = FrozenTime()
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected {
                $0.time = time.source
                $0.keepAlive = nil
            }
            try await account.ask(rig.question("q1", want: "silence"), timeout: .seconds(60))
            try await account.caughtUp()
            try await account.perform { _ in time.pass(.seconds(3600)) }
            try await account.caughtUp()
            #expect(try account.store.notes("ended") == [])
            #expect(try account.store.waitingHandlers == 1)
        }
    }

    @Test("Q3 a time-out as long as can be is no trap")
    func longestTimeout() async throws {
        try await withRig { rig in
            let account = try await rig.connected {
                $0.acknowledgementTimeout = .seconds(Int64.max)
                $0.connectTimeout = .seconds(Int64.max)
                $0.ownerSilence = .seconds(Int64.max)
            }
            try await account.ask(rig.question("q1"), timeout: .seconds(Int64.max))
            try await eventually { try account.store.waitingHandlers == 0 }
            try await account.caughtUp()
        }
    }

    @Test(
        "Q3 H22 a canceled request is invalidated once, with the canceler's values, and its late answer is ignored"
    )
    func cancelled() async throws {
        try await withRig { rig in
            let account = try await rig.connected()
            try await account.ask(rig.question("q1", want: "silence"))
            #expect(
                try await account.perform { step in
                    try account.cancelRequest(id: "q1", overriding: ["name": "called"], in: step)
                })
            #expect(try await !account.perform { step in try account.cancelRequest(id: "q1", in: step) })
            #expect(try account.store.notes("abandoned") == ["called: cancelled"])
            try await rig.saw { $0.event == .received && $0.id == "q1" }
            let own = rig.server.boundAddresses[0]
            rig.server.send(IQ(type: .result, to: own, id: "q1", payload: nil).element, from: peer)
            try await account.caughtUp()
            #expect(try account.store.notes("ended").isEmpty)
        }
    }

    @Test("Q3 a request that is canceled before it was written is not sent")
    func cancelledUnsent() async throws {
        try await withRig { rig in
            let account = try rig.account()
            try await account.ask(rig.question("q1"))
            try await account.ask(rig.question("q2"))
            #expect(try await account.perform { step in try account.cancelRequest(id: "q1", in: step) })
            try await account.connect()
            try await eventually { try !account.store.notes("ended").isEmpty }
            #expect(rig.xml(ofID: "q1").isEmpty && rig.xml(ofID: "q2").count == 1)
            #expect(try account.store.notes("abandoned") == ["q1: cancelled"])
        }
    }

    @Test("Q3 logging out invalidates what waits, empties the outbox and ends the session")
    func logsOut() async throws {
        try await withRig { rig in
            let account = try await rig.connected()
            try await account.ask(rig.question("q1", want: "silence"))
            try await rig.saw { $0.event == .received && $0.id == "q1" }
            try await account.caughtUp()
            try await account.logOut()
            #expect(try account.store.notes("abandoned") == ["q1: logout"])
            #expect(try account.store.outboxCount == 0)
            #expect(try account.store.waitingHandlers == 0)
            try await rig.saw { $0.event == .closedCleanly }
            let events = EventReader(account)
            try await account.connect()
            await events.until("bound")
            #expect(events.seen == ["bound"])
        }
    }

    /// What the server has by the time a log-out invalidates a request.
    private struct LogOutWitness: Handler {
        static let id = "test.log-out-witness"
        static let retry = RetryPolicy.never
        static let server = Kept<ScriptedServer?>(nil)
        func run(_ call: borrowing Call<Invalidation>) throws {
            let log = Self.server.withLock { $0?.log }
            let isClosed = becomesTrue(before: .now + .seconds(20)) {
                log?.entries.contains { $0.event == .closedCleanly } == true
            }
            try TestApp.note("closed", "stream", "\(isClosed)", in: call.step)
        }
    }

    @Test("Q3 the server has the end of the stream before the steps of a log-out run, however long they take")
    func endsStreamFirst() async throws {
        try await withRig(handlers: [LogOutWitness.self]) { rig in
            LogOutWitness.server.withLock { $0 = rig.server }
            defer { LogOutWitness.server.withLock { $0 = nil } }
            let account = try await rig.connected()
            try await account.send(
                .iq(rig.question("q1", want: "silence")), then: TestApp.Answered(name: "q1").durable,
                orElse: LogOutWitness().durable)
            try await account.caughtUp()
            try await account.logOut()
            #expect(try account.store.notes("closed") == ["stream: true"])
        }
    }

    @Test("Q1 Q6 a request sent while offline goes out after connecting, once, and ends in another account")
    func sentOffline() async throws {
        try await withRig { rig in
            let offline = try rig.account()
            try await offline.ask(rig.question("q1"))
            await offline.close()
            let account = try await rig.connected()
            try await eventually { try account.store.notes("ended").count == 1 }
            try await account.suspend()
            try await account.connect()
            try await account.caughtUp()
            #expect(rig.sent().filter { $0 == "iq q1" }.count == 1)
        }
    }

    @Test("Q6 a handler bound by one account is finished by another one on the same file")
    func finishedElsewhere() async throws {
        try await withRig { rig in
            let first = try await rig.connected()
            try await first.ask(rig.question("q1", want: "silence"))
            try await rig.saw { $0.event == .received && $0.id == "q1" }
            let own = rig.server.boundAddresses[0]
            await first.close()
            // Answered while nobody is connected.
            rig.server.send(IQ(type: .result, to: own, id: "q1", payload: nil).element, from: peer)
            let second = try await rig.connected()
            try await second.caughtUp()
            #expect(try second.store.notes("ended") == ["q1: result - from peer@localhost/bot"])
        }
    }

    @Test("Q6 a request survives a restart of the server that keeps no sessions: it is invalidated, not lost")
    func serverRestarts() async throws {
        try await withRig(reconnects: false) { rig in
            let account = try await rig.connected()
            let events = EventReader(account)
            try await account.ask(rig.question("q1", want: "silence"))
            try await rig.saw { $0.event == .received && $0.id == "q1" }
            rig.server.stop(.reset)
            await events.until("suspended")
            try rig.server.start()
            try await account.connect()
            await events.until("bound")
            #expect(events.seen == ["suspended connection-failed", "sessionLost", "bound"])
            #expect(try account.store.notes("abandoned") == ["q1: session-lost"])
        }
    }

    @Test("Q1 what a handler sends commits with it; when it throws nothing is sent")
    func sentFromHandler() async throws {
        try await withRig { rig in
            let account = try await rig.connected()
            try await account.listen(as: "test", TestApp.AskBack().durable)
            rig.bot.send(rig.messageToAlice("m1", "throw"))
            rig.bot.send(rig.messageToAlice("m2", "fine"))
            try await eventually { try account.store.notes("ended").count == 1 }
            try await account.caughtUp()
            #expect(try account.store.notes("ended") == ["back-m2: result answer from peer@localhost/bot"])
            #expect(rig.sent().filter { $0 != "presence " } == ["iq back-m2", "message reply-m2"])
            #expect(try account.store.unfinished == 1)
            #expect(try account.store.waitingHandlers == 0)
        }
    }

    @Test("Q1 a request sent from the handler of another one goes on and on")
    func chain() async throws {
        try await withRig { rig in
            let account = try await rig.connected()
            try await account.send(.iq(rig.question("chain-20")), then: TestApp.Chained(left: 20).durable)
            try await eventually { try account.store.notes("chained").count == 21 }
            #expect(try account.store.waitingHandlers == 0)
        }
    }

    @Test("Q1 what the program's own step sends goes out without further traffic, and times out in time")
    func sentFromForeignStep() async throws {
        let clock = VirtualClock()
        try await withRig(clock: clock) { rig in
            let account = try await rig.connected()
            try await account.caughtUp()
            let answered = try TestApp.Answered(name: "q1").durable
            _ = try account.store.step { step in
                try account.send(
                    .iq(rig.question("q1", want: "silence")), then: answered, timeout: .milliseconds(100),
                    in: step)
            }
            try await rig.saw("the request was sent") { $0.event == .received && $0.id == "q1" }
            try await account.caughtUp()
            clock.advance(by: .milliseconds(100))
            try await eventually { try account.store.notes("ended").count == 1 }
        }
    }

    @Test("Q1 a result or error cannot be sent as a request")
    func noRequest() async throws {
        try await withRig { rig in
            let account = try rig.account()
            for type in [IQ.Kind.result, .error] {
                let error = await errorOf { try await account.ask(IQ(type: type, id: "x", payload: nil)) }
                #expect((error as? AccountError)?.code == .invalidStanza)
            }
            #expect(try account.store.waitingHandlers == 0)
        }
    }

    @Test("Q1 two requests with one id: the second is refused and leaves no trace")
    func sameID() async throws {
        try await withRig { rig in
            let account = try rig.account()
            try await account.ask(rig.question("q1"))
            #expect(await errorOf { try await account.ask(rig.question("q1")) } is HandlerError)
            #expect(try account.store.waitingHandlers == 1)
            #expect(try account.store.outboxCount == 1)
        }
    }

    @Test("S11 more than the outbox may hold is refused with an error")
    func outboxFull() async throws {
        try await withRig { rig in
            let account = try rig.account { $0.maximumOutbox = 3 }
            for id in ["a", "b", "c"] { try await account.tell(id) }
            let error = await errorOf { try await account.tell("d") } as? AccountError
            #expect(error?.code == .outboxFull)
            #expect(await errorOf { try await account.ask(rig.question("q")) } != nil)
            try await account.connect()
            try await eventually { try account.store.outboxCount == 0 }
            try await account.tell("e")
        }
    }

    // MARK: Who may answer

    @Test("Q2 answers from other addresses neither fire nor consume, and the right one still does")
    func spoofed() async throws {
        try await withRig { rig in
            let account = try await rig.connected()
            try await account.ask(rig.question("q1", want: "silence"))
            try await rig.saw { $0.event == .received && $0.id == "q1" }
            let own = rig.server.boundAddresses[0]
            for from in [
                "peer@localhost", "localhost", "mallory@localhost/bot", "peer@localhost/BOT",
                "peer@localhost/bot2", own.description, own.bare.description,
            ] {
                rig.server.send(
                    IQ(type: .result, to: own, from: try JID(from), id: "q1", payload: nil).element,
                    to: .everyone)
            }
            // No `from`: only an error may come so.
            rig.server.send(IQ(type: .result, to: own, id: "q1", payload: nil).element, to: .everyone)
            try await account.caughtUp()
            #expect(try account.store.notes("ended").isEmpty)
            #expect(try account.store.waitingHandlers == 1)
            rig.server.send(
                IQ(type: .result, to: own, from: peer, id: "q1", payload: nil).element, to: .everyone)
            try await account.caughtUp()
            #expect(try account.store.notes("ended") == ["q1: result - from peer@localhost/bot"])
            #expect(rig.sent().filter { $0.hasPrefix("iq") } == ["iq q1"], "answers are never answered")
        }
    }

    @Test("Q2 a get, a set or an unknown type with the id of a request does not end it")
    func wrongType() async throws {
        try await withRig { rig in
            let account = try await rig.connected()
            try await account.ask(rig.question("q1", want: "silence"))
            try await rig.saw { $0.event == .received && $0.id == "q1" }
            let own = rig.server.boundAddresses[0]
            for type in ["get", "set", "answer"] {
                var element = IQ(
                    type: .get, to: own, from: peer, id: "q1", payload: Element("x", namespace: "urn:x")
                ).element
                element["type"] = ForeignText(type)
                rig.server.send(element, to: .everyone)
            }
            try await account.caughtUp()
            #expect(try account.store.notes("ended").isEmpty)
            #expect(try account.store.waitingHandlers == 1)
            // Each of the three is answered with an error, for it was addressed to us.
            try await rig.saw { $0.event == .received && $0.type == "error" }
            try await eventually { rig.xml(ofID: "q1").count == 4 }
        }
    }

    // MARK: Requests of others

    @Test("Q4 a ping is answered, an unknown request gets service-unavailable, an answer gets nothing")
    func inbound() async throws {
        try await withRig { rig in
            let account = try await rig.connected()
            let own = rig.server.boundAddresses[0]
            func send(_ type: IQ.Kind, _ id: String, _ payload: Element?) {
                rig.bot.send(IQ(type: type, to: own, id: id, payload: payload).element)
            }
            send(.get, "p1", Element("ping", namespace: Namespaces.ping))
            send(.get, "u1", Element("x", namespace: "urn:x"))
            send(.set, "u2", Element("ping", namespace: Namespaces.ping))
            send(.result, "r1", nil)
            send(.error, "e1", StanzaError(.itemNotFound).element)
            try await account.caughtUp()
            // What the loop owes was written in the turn before the next one's answer.
            try await account.caughtUp()
            let answers = rig.server.log.entries.filter {
                $0.event == .received && $0.name == "iq" && $0.session != 0
            }
            #expect(
                answers.map { "\($0.id ?? "") \($0.type ?? "")" } == ["p1 result", "u1 error", "u2 error"])
            for answer in answers.dropFirst() {
                #expect(answer.xml?.contains("service-unavailable") == true)
            }
        }
    }

    @Test("Q4 X37 a request without a child is a bad one, of two children the first one counts")
    func malformedRequest() async throws {
        try await withRig { rig in
            let account = try await rig.connected()
            let own = rig.server.boundAddresses[0]
            let empty = IQ(type: .get, to: own, from: peer, id: "b1", payload: nil).element
            var double = IQ(
                type: .set, to: own, from: peer, id: "b2", payload: Element("x", namespace: "urn:x")
            ).element
            double.append(Element("y", namespace: "urn:x"))
            rig.server.send(empty, to: .everyone)
            rig.server.send(double, to: .everyone)
            try await account.caughtUp()
            try await account.caughtUp()
            for (id, condition) in [("b1", "bad-request"), ("b2", "service-unavailable")] {
                let answers = rig.xml(ofID: id)
                #expect(answers.count == 1)
                #expect(answers.first?.contains(condition) == true)
            }
        }
    }
}

/// The machine's clock, set forward while the account's thread sleeps, as it is found when a frozen process thaws.
private final class FrozenTime: Sendable {
    private let passed = Kept<Int64>(0)
    /// The folder of the account's thread below `/proc`.
    private let thread = Kept<String?>(nil)

    var source: TimeSource {
        TimeSource(monotonic: { [self] in
            findThread()
            return TimeSource.systemMonotonic() + .milliseconds(passed.withLock { $0 })
        })
    }

    private func findThread() {
        guard thread.withLock({ $0 == nil }),
            (try? String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8)) == "account\n"
        else { return }
        let own = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/thread-self")
        thread.withLock { $0 = own }
    }

    func pass(_ time: Duration) { passed.withLock { $0 += Int64(time / .milliseconds(1)) } }

    /// How often the account's thread has gone to sleep; nil unless it sleeps in poll(2) now.
    var sleeps: String? {
        // Its number on x86-64, and on AArch64 that of ppoll.
        guard let task = thread.withLock({ $0.map { "/proc/\($0)/" } }),
            let call = try? String(contentsOfFile: task + "syscall", encoding: .utf8),
            ["7", "73"].contains(call.prefix { $0 != " " }),
            let status = try? String(contentsOfFile: task + "status", encoding: .utf8)
        else { return nil }
        return status.split(separator: "\n").first { $0.hasPrefix("voluntary_ctxt_switches") }.map(
            String.init)
    }
}
