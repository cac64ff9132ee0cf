import Foundation
import TestSupport
import TestThreads
import Testing

/// Everything about the account that is tested against Prosody and ejabberd; the suites are extensions.
@Suite(
    .ownThread, .realServers, .serialized,
    // Some thousand broken lines need more than any other test.
    .timeLimit(.minutes(TornPositions.areAll ? 240 : 5)))
enum RealServerTests {}

/// Whether lines break after each byte, as in `make torture`, and not only after some.
enum TornPositions {
    static let areAll = ProcessInfo.processInfo.environment["TORN_POSITIONS"] == "all"
    /// How many lines share them, as most of the time goes by in waiting.
    static let lines = areAll ? 4 : 1
}
