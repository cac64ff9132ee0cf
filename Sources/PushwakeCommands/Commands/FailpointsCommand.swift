import Handlers

/// `pushwake failpoints`: lists the places where a test can make a process kill itself, stop itself or fail.
enum FailpointsCommand {
    static func run(_ words: [String]) throws -> Int32 {
        _ = try Arguments(words, of: "failpoints")
        for failpoint in Failpoint.allCases { Terminal.say("\(failpoint.rawValue)") }
        return 0
    }
}
