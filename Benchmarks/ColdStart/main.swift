// A process as short as can be: opens a store, ends one handler, leaves.
//
//     cold-start FILE HANDLER [memory]
//
// With `memory` it prints the most memory that it had, in KiB.

import BenchmarkHandlers
import Glibc
import Handlers

func endOne() throws {
    let words = CommandLine.arguments
    guard words.count > 2, let id = Int64(words[2]) else { exit(2) }
    let store = try BenchmarkStore.open(words[1])
    let disposition = try store.step { try $0.end(HandlerID<Int>(rawValue: id), .result, with: Int(id)) }
    guard disposition == .ended else { exit(3) }
}

/// Not what getrusage tells: that is at least what the parent had when it made this process.
func peakKibibytes() -> String? {
    guard let file = fopen("/proc/self/status", "r") else { return nil }
    defer { fclose(file) }
    var line = [CChar](repeating: 0, count: 256)
    while fgets(&line, Int32(line.count), file) != nil {
        let words = String(decoding: line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
            .split { $0 == " " || $0 == "\t" }
        if words.first == "VmHWM:" { return words.dropFirst().first.map(String.init) }
    }
    return nil
}

try endOne()
if CommandLine.arguments.last == "memory" { print(peakKibibytes() ?? "") }
