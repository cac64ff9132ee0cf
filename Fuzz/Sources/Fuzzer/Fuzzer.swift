import CLibFuzzer
import Glibc

/// Runs libFuzzer with its own arguments on the target that `FUZZ_TARGET` names; lists the targets where it names none.
@main
enum Fuzzer {
    static let target: FuzzTarget? = {
        let name = getenv("FUZZ_TARGET").map { String(cString: $0) }
        let target = FuzzTarget.all.first { $0.name == name }
        target?.prepare()
        return target
    }()

    static func main() {
        signal(SIGPIPE, SIG_IGN)
        guard target != nil else {
            for target in FuzzTarget.all {
                print(target.name, target.maximumLength, target.dictionary ?? "none")
            }
            return
        }
        var count = CommandLine.argc
        var arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? = CommandLine.unsafeArgv
        exit(LLVMFuzzerRunDriver(&count, &arguments, testOneInput))
    }
}

/// libFuzzer's own start, which is linked too and never runs, wants it by this name.
@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ data: UnsafePointer<UInt8>?, _ count: Int) -> Int32 {
    do throws(Finding) {
        try Fuzzer.target?.check(Array(UnsafeBufferPointer(start: data, count: count)))
    } catch {
        // libFuzzer keeps the input that a program ends with.
        let line = Array("FINDING: \(error)\n".utf8)
        _ = write(STDERR_FILENO, line, line.count)
        abort()
    }
    return 0
}
