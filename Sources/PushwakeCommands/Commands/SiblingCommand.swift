import FoundationEssentials
import Glibc

/// `pushwake omemo`, `pushwake world`, and what works on a store on PostgreSQL: run another program in the folder of this one.
struct SiblingCommand {
    let program: String
    /// What the program does, as the subject of the error.
    var task = "this"
    /// Why it is a separate program.
    let reason: String
    let words: [String]

    /// The option that builds a program as this one was built.
    private static var buildOption: String {
        #if DEBUG
            ""
        #else
            " -c release"
        #endif
    }

    /// `pushwake-omemo` links libomemo-c, which is under the GPL. This program must not link it.
    static func omemo(_ words: [String]) -> SiblingCommand {
        SiblingCommand(
            program: "pushwake-omemo", reason: "it links libomemo-c, which is under the GPL", words: words)
    }

    static func world(_ words: [String]) -> SiblingCommand {
        SiblingCommand(
            program: "pushwake-world", reason: "it takes all tasks of its process from Swift's executor",
            words: words)
    }

    /// - Parameter words: All words of the command line.
    static func postgres(_ words: [String]) -> SiblingCommand {
        SiblingCommand(
            program: "pushwake-postgres", task: "what works on a store on PostgreSQL",
            reason: "it links libpq", words: words)
    }

    /// - Parameter words: All words of the command line.
    static func dashboard(_ words: [String]) -> SiblingCommand {
        SiblingCommand(
            program: "pushwake-dashboard", task: "the page of a store", reason: "it links libmicrohttpd",
            words: words)
    }

    /// - Throws: ``CommandFailure`` when the program does not exist. Otherwise it does not return.
    func run() throws -> Int32 {
        let own = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        let folder = own.split(separator: "/", omittingEmptySubsequences: false).dropLast()
        let path = folder.joined(separator: "/") + "/" + program
        var arguments = ([path] + words).map { strdup($0) } + [nil]
        execv(path, &arguments)
        throw CommandFailure(
            "\(task) is a program of its own, because \(reason): build it with 'swift build\(Self.buildOption) --product \(program)' and put it beside this one, at \(path) (\(String(cString: strerror(errno))))"
        )
    }
}
