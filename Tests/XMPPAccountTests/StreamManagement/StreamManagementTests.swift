import TestThreads
import Testing

@testable import XMPPAccount

/// The rules of XEP-0198 as a table: what happens, at what time, and what is due then.
@Suite(.ownThread) struct StreamManagementTests {
    /// What happens to the value, in milliseconds since the start.
    enum Happening: Sendable {
        case wrote(Int)
        case askedByServer
        case arrived(Int)
        case answer(UInt32, waiting: Int)
        /// An acknowledgement that was not asked for.
        case acknowledged(UInt32, waiting: Int)
        case policy(AcknowledgementPolicy)
        /// What the rules say is due is done, and noted.
        case look
    }

    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var policy = AcknowledgementPolicy()
        let happenings: [(Int64, Happening)]
        /// When `<r/>` and `<a/>` were written.
        let written: [String]
    }

    private static func play(_ game: Case) throws -> [String] {
        var management = StreamManagement(policy: game.policy)
        var written: [String] = []
        for (milliseconds, happening) in game.happenings {
            let time = Duration.milliseconds(milliseconds)
            switch happening {
            case .wrote(let count): management.didWrite(count, now: time)
            case .askedByServer: management.receiveRequest(now: time)
            case .arrived(let count): for _ in 0..<count { _ = management.arrive(now: time) }
            case .answer(let count, let waiting):
                _ = try management.acknowledge(HandledCount(rawValue: count), waiting: waiting)
                management.didReceiveAnswer()
            case .acknowledged(let count, let waiting):
                _ = try management.acknowledge(HandledCount(rawValue: count), waiting: waiting)
            case .policy(let policy): management.policy = policy
            case .look: break
            }
            if management.isRequestDue(now: time) {
                management.didRequest(now: time)
                written.append("r \(milliseconds)")
            }
            if management.isAcknowledgementDue(now: time) {
                written.append("a \(management.h) \(milliseconds)")
                management.didAcknowledge()
            }
        }
        return written
    }

    static let asking: [Case] = [
        Case(
            testDescription: "each stanza by default, one question at a time",
            happenings: [
                (0, .wrote(1)), (1, .wrote(1)), (2, .answer(1, waiting: 2)), (3, .answer(2, waiting: 1)),
            ],
            written: ["r 0", "r 2"]),
        Case(
            testDescription: "B6 by count first",
            policy: .init(requestsAfterStanzas: 5, requestsAfter: .seconds(2)),
            happenings: [(0, .wrote(2)), (10, .wrote(2)), (20, .wrote(1)), (2000, .look)], written: ["r 20"]),
        Case(
            testDescription: "B6 by time first, from the first stanza on",
            policy: .init(requestsAfterStanzas: 5, requestsAfter: .seconds(2)),
            happenings: [(100, .wrote(1)), (1999, .wrote(1)), (2099, .look), (2100, .look), (4200, .look)],
            written: ["r 2100"]),
        Case(
            testDescription: "B6 both off", policy: .init(requestsAfterStanzas: 0),
            happenings: [(0, .wrote(100)), (1_000_000, .look)], written: []),
        Case(
            testDescription: "B6 a change in the midst is measured from where the time began",
            policy: .init(requestsAfterStanzas: 0, requestsAfter: .seconds(5)),
            happenings: [
                (0, .wrote(1)), (1500, .policy(.init(requestsAfterStanzas: 0, requestsAfter: .seconds(2)))),
                (1999, .look),
                (2000, .look),
            ], written: ["r 2000"]),
        Case(
            testDescription: "B6 a change to a time that is over asks at once",
            policy: .init(requestsAfterStanzas: 0, requestsAfter: .seconds(5)),
            happenings: [
                (0, .wrote(1)), (1500, .policy(.init(requestsAfterStanzas: 0, requestsAfter: .seconds(1)))),
            ], written: ["r 1500"]),
        Case(
            testDescription: "an acknowledgement that empties the queue leaves nothing to ask about",
            policy: .init(requestsAfterStanzas: 0, requestsAfter: .seconds(2)),
            happenings: [(0, .wrote(2)), (500, .acknowledged(2, waiting: 2)), (2000, .look), (9000, .look)],
            written: []),
        Case(
            testDescription: "one that leaves something is no reason not to ask",
            policy: .init(requestsAfterStanzas: 0, requestsAfter: .seconds(2)),
            happenings: [(0, .wrote(2)), (500, .acknowledged(1, waiting: 2)), (2000, .look)],
            written: ["r 2000"]),
        Case(
            testDescription: "B5 a repeated count changes nothing",
            happenings: [
                (0, .wrote(3)), (1, .answer(3, waiting: 3)), (2, .acknowledged(3, waiting: 0)), (3, .look),
            ], written: ["r 0"]),
    ]

    static let telling: [Case] = [
        Case(
            testDescription: "not unasked by default", happenings: [(0, .arrived(100)), (99_999, .look)],
            written: []),
        Case(
            testDescription: "when asked, at once", happenings: [(0, .arrived(2)), (5, .askedByServer)],
            written: ["a 2 5"]),
        Case(
            testDescription: "B7 by count",
            policy: .init(acknowledgesAfterStanzas: 3, acknowledgesAfter: .seconds(1)),
            happenings: [(0, .arrived(2)), (10, .arrived(1)), (20, .arrived(2)), (1020, .look)],
            written: ["a 3 10", "a 5 1020"]),
        Case(
            testDescription: "B7 an answer begins counting again",
            policy: .init(acknowledgesAfterStanzas: 3, acknowledgesAfter: .seconds(1)),
            happenings: [
                (0, .arrived(2)), (10, .askedByServer), (20, .arrived(2)), (1000, .look), (1020, .look),
            ],
            written: ["a 2 10", "a 4 1020"]),
        Case(
            testDescription: "B9 a burst of questions within the delay gets one answer",
            policy: .init(responseDelay: .milliseconds(100)),
            happenings: [
                (0, .arrived(1)), (10, .askedByServer), (20, .askedByServer), (30, .arrived(1)),
                (60, .askedByServer),
                (109, .look), (110, .look), (111, .look),
            ], written: ["a 2 110"]),
        Case(
            testDescription: "a question is answered even when there is nothing new",
            happenings: [(0, .askedByServer), (1, .askedByServer)], written: ["a 0 0", "a 0 1"]),
    ]

    @Test("S3 the server is asked by count and by time, whichever comes first", arguments: asking)
    func asks(_ game: Case) throws { #expect(try Self.play(game) == game.written) }

    @Test("S4 our count is reported by count and by time, and when asked", arguments: telling)
    func tells(_ game: Case) throws { #expect(try Self.play(game) == game.written) }

    @Test("S3 S4 what is due next is known beforehand")
    func nextDue() {
        var management = StreamManagement(
            policy: .init(
                requestsAfterStanzas: 0, requestsAfter: .milliseconds(300),
                acknowledgesAfter: .milliseconds(200), responseDelay: .milliseconds(50)))
        #expect(management.nextDue == nil)
        management.didWrite(1, now: .milliseconds(1000))
        #expect(management.nextDue == .milliseconds(1300))
        _ = management.arrive(now: .milliseconds(1050))
        #expect(management.nextDue == .milliseconds(1250))
        management.receiveRequest(now: .milliseconds(1060))
        #expect(management.nextDue == .milliseconds(1110))
        management.didAcknowledge()
        #expect(management.nextDue == .milliseconds(1300))
        management.didRequest(now: .milliseconds(1300))
        #expect(management.nextDue == nil)
    }

    // MARK: Deferred stanzas

    private func count(_ number: UInt32) -> HandledCount { HandledCount(rawValue: number) }

    @Test("S5 B8 marks in the order 3, 1, 2: the count follows the prefix", arguments: [0, UInt32.max - 1])
    func outOfOrder(start: UInt32) {
        var management = StreamManagement(received: count(start))
        let numbers = (0..<3).map { _ in
            guard case .new(let number) = management.arrive(now: .zero) else { return count(0) }
            management.postpone(number)
            return number
        }
        #expect(numbers.map(\.rawValue) == [start &+ 1, start &+ 2, start &+ 3])
        #expect(management.h == count(start))
        management.setDeferred([numbers[0], numbers[1]], now: .milliseconds(1))
        #expect(management.h == count(start))
        management.setDeferred([numbers[1]], now: .milliseconds(2))
        #expect(management.h == numbers[0])
        management.setDeferred([], now: .milliseconds(3))
        #expect(management.h == numbers[2])
        #expect(!management.hasDeferred)
    }

    @Test("S5 what comes again after a resumption is passed over when handled, and handled when it was not")
    func copies() {
        // Five arrived; the second and the fourth are not handled.
        var management = StreamManagement(received: count(5), deferred: [count(4), count(2)])
        #expect(management.h == count(1))
        #expect(
            (0..<5).map { _ in management.arrive(now: .zero) }
                == [.again(count(2)), .duplicate, .again(count(4)), .duplicate, .new(count(6))])
        #expect(management.h == count(6))
        #expect(management.received == count(6))
    }

    @Test("S5 a stanza that is deferred again when it comes again still holds back those behind it")
    func deferredAgain() {
        var management = StreamManagement(received: count(2), deferred: [count(1)])
        guard case .again(let number) = management.arrive(now: .zero) else { return #expect(Bool(false)) }
        management.postpone(number)
        #expect(management.h == count(0))
        #expect(management.arrive(now: .zero) == .duplicate)
        #expect(management.arrive(now: .zero) == .new(count(3)))
        #expect(management.h == count(0))
    }
}
