import FoundationEssentials
import Glibc

/// `pushwake omemo`: runs `pushwake-omemo`, which stands beside this program.
///
/// That one links libomemo-c, which is under the GPL; this one must not.
struct OmemoCommand {
    let words: [String]

    /// - Throws: ``CommandFailure`` when there is no such program; otherwise it does not return.
    func run() throws -> Int32 {
        let own = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        let folder = own.split(separator: "/", omittingEmptySubsequences: false).dropLast()
        let program = folder.joined(separator: "/") + "/pushwake-omemo"
        var arguments = ([program] + words).map { strdup($0) } + [nil]
        execv(program, &arguments)
        throw CommandFailure(
            "'pushwake omemo' is a program of its own, because it links libomemo-c, which is under the GPL: build it with 'swift build --product pushwake-omemo' and put it beside this one, at \(program) (\(String(cString: strerror(errno))))"
        )
    }
}
