import TestThreads
import Testing
import XMPPCore

@testable import XMPPAccount

@Suite(.ownThread) struct HandledCountTests {
    @Test(
        "S10 an acknowledgement covers the oldest stanzas, modulo 2^32",
        arguments: [
            // last, outstanding, claimed, covered
            (0, 3, 0, 0), (0, 3, 2, 2), (0, 3, 3, 3), (5, 4, 8, 3),
            (UInt32.max - 1, 4, UInt32.max, 1), (UInt32.max - 1, 4, 0, 2), (UInt32.max - 1, 4, 2, 4),
            (UInt32.max, 1, 0, 1),
        ] as [(UInt32, Int, UInt32, Int)])
    func covered(last: UInt32, outstanding: Int, claimed: UInt32, expected: Int) throws {
        var management = StreamManagement(acknowledged: HandledCount(rawValue: last))
        let covered = try management.acknowledge(HandledCount(rawValue: claimed), waiting: outstanding)
        #expect(covered == expected)
        #expect(management.acknowledged.rawValue == claimed)
    }

    @Test(
        "S10 a count that is too high or too low is refused and says what was sent",
        arguments: [
            (0, 3, 4), (0, 0, 1), (5, 4, 4), (5, 4, 0), (UInt32.max, 1, 1), (UInt32.max, 0, 0),
            (0, 2, UInt32.max),
        ] as [(UInt32, Int, UInt32)])
    func refused(last: UInt32, outstanding: Int, claimed: UInt32) {
        var management = StreamManagement(acknowledged: HandledCount(rawValue: last))
        #expect {
            try management.acknowledge(HandledCount(rawValue: claimed), waiting: outstanding)
        } throws: { error in
            guard let error = error as? HandledCountError else { return false }
            return error.claimed.rawValue == claimed && error.sent.rawValue == last &+ UInt32(outstanding)
        }
    }

    @Test("S10 our own count wraps from 2^32-1 to 0")
    func wraps() {
        #expect((HandledCount(rawValue: .max) + 1).rawValue == 0)
        #expect((HandledCount(rawValue: .max - 1) + 3).rawValue == 1)
    }

    @Test(
        "S10 only an unsigned 32-bit number is a count",
        arguments: ["", "-1", "4294967296", "1.0", "x", "1 1"])
    func malformed(_ text: String) {
        #expect(HandledCount(ForeignText(text)) == nil)
        // White space around a number is none of it (XML Schema part 2, section 3.4.22).
        #expect(HandledCount(" 1\n")?.rawValue == 1)
        #expect(HandledCount("4294967295")?.rawValue == .max)
    }
}
