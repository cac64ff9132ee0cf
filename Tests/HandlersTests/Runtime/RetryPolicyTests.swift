import Handlers
import TestThreads
import Testing

@Suite(.ownThread) struct RetryPolicyTests {
    @Test(
        "H13 each wait is the policy's, and up to a fifth longer",
        arguments: [
            (RetryPolicy.standard, 1, 1000), (.standard, 2, 4000), (.standard, 3, 16_000),
            (.standard, 6, 1_024_000), (.standard, 7, 3_600_000), (.standard, 1000, 3_600_000),
            (RetryPolicy(firstDelay: .milliseconds(7), factor: 1), 50, 7),
            (RetryPolicy(firstDelay: .zero), 9, 0),
            (RetryPolicy(firstDelay: .seconds(60), longestDelay: .seconds(5)), 1, 5000),
        ])
    func delays(_ policy: RetryPolicy, _ attempts: Int, _ delay: Int64) {
        for seed: Int64 in [0, 1, -1, 77, .max, .min] {
            let wait = policy.delay(after: attempts, seed: seed)
            #expect(wait >= .milliseconds(delay))
            #expect(wait <= .milliseconds(delay + delay / 5))
            #expect(wait == policy.delay(after: attempts, seed: seed), "a row always waits equally long")
        }
    }

    @Test("H13 what failed together does not come back together")
    func spread() {
        let waits = Set((1...100).map { RetryPolicy.standard.delay(after: 3, seed: $0) })
        #expect(waits.count > 90)
    }

    @Test(
        "H13 no number of attempts, factor or duration makes the wait overflow, trap or run backwards",
        arguments: [0, -1, 1, 2, 100, Int.max], [0, -2, 1, 1e300, .infinity, .nan] as [Double])
    func extremes(_ attempts: Int, _ factor: Double) {
        let durations: [Duration] = [.zero, .seconds(-5), .milliseconds(1), .seconds(Int64.max)]
        for first in durations {
            for longest in durations {
                var policy = RetryPolicy(attempts: attempts, firstDelay: first, longestDelay: longest)
                policy.factor = factor
                policy.attempts = attempts
                #expect(policy.delay(after: attempts, seed: 3) >= .zero)
            }
        }
    }
}
