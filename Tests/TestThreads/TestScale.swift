#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// How many random inputs tests take: `make test` a part that finds every fault of Tests/mutants.txt, `make torture` all.
public enum TestScale {
    /// Whether the environment variable `TEST_SCALE` is `full`.
    public static let isFull = getenv("TEST_SCALE").map { String(cString: $0) } == "full"

    /// - Parameters:
    ///   - count: For `make torture`.
    ///   - part: For `make test`.
    public static func of(_ count: Int, part: Int) -> Int { isFull ? count : part }
}
