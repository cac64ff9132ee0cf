import Handlers

/// `pushwake failpoints`: the places at which a test can make a process kill itself, stop itself or fail.
enum FailpointsCommand {
    static func run() -> Int32 {
        for failpoint in Failpoint.allCases { print(failpoint.rawValue) }
        return 0
    }
}
