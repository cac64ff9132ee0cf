import TestThreads
import Testing
import XMPPTestKit

@Suite(.ownThread) struct ServerClockTests {
    @Test(
        "W6 stamps have the form of XEP-0082",
        arguments: [
            (0, "1970-01-01T00:00:00.000Z"), (951_782_400_001, "2000-02-29T00:00:00.001Z"),
            (1_767_225_599_999, "2025-12-31T23:59:59.999Z"),
        ])
    func stamps(milliseconds: Int64, text: String) {
        #expect(ServerTime.stamp(milliseconds) == text)
    }
}
