import BenchmarkHandlers
import Glibc
import TestServers

/// Runs the programs that start, end one handler and leave.
enum ColdStart {
    private static let folder = ".build/release/"
    private static let deadline = Duration.seconds(60)

    /// How long our program takes, in milliseconds.
    static func ours(_ store: String, _ id: Int64) throws -> Double {
        try milliseconds(folder + "cold-start", [store, "\(id)"])
    }

    /// How long the program in C takes.
    static func floor(_ store: String, _ id: Int64) throws -> Double {
        let next = try Advance.numbered(1).durable
        return try milliseconds(
            folder + "cold-floor",
            [store, "\(id)", next.name, String(decoding: next.arguments, as: UTF8.self)])
    }

    /// The most memory our program has while it ends the handler 1 of a store, in MiB.
    static func peakMebibytes(_ store: String, _ id: Int64 = 1) throws -> Double {
        let words = try run(folder + "cold-start", [store, "\(id)", "memory"]).output
        guard let kibibytes = Double(words.filter { !$0.isWhitespace }) else {
            throw BenchmarkError("cold-start told no memory but '\(words)'")
        }
        return kibibytes / 1024
    }

    /// The time from before a program is started until it has left.
    static func milliseconds(_ program: String, _ arguments: [String]) throws -> Double {
        try run(program, arguments).elapsed / .milliseconds(1)
    }

    static func run(_ program: String, _ arguments: [String]) throws -> (output: String, elapsed: Duration) {
        let child = try ChildProcess(program, arguments, output: .pipe, endsWithParent: false)
        let output = try child.output?.readToEnd(deadline: .now + deadline) ?? ""
        let ending = try child.waitUntilExit(deadline: .now + deadline)
        guard ending.succeeded else { throw BenchmarkError("\(program) \(ending): \(output)") }
        return (output, ending.elapsed)
    }
}
