import Foundation
import TestSupport
import TestThreads
import Testing

@Suite(.ownThread) struct WorldTasksTests {
    private func log(_ seed: Int) throws -> [Substring] {
        let ending = try ProgramEnding(of: "WorldTestProgram", ["\(seed)"])
        #expect(ending.status == 0, "\(ending)")
        return ending.output.trimmingPrefix("\n").split(separator: "\n").last?.split(separator: ", ") ?? []
    }

    @Test(
        "Z1 Z4 task groups and actors of several processes run in the order of the seed; a dead one runs no more"
    )
    func seeded() throws {
        let logs = try (0..<6).map(log)
        #expect(try (0..<6).map(log) == logs, "a seed repeats its order")
        #expect(Set(logs).count > 1, "another seed has another order")
        for log in logs {
            for name in ["a", "b"] {
                #expect(
                    log.filter { $0.hasPrefix(name) }.sorted() == ["\(name) 8"]
                        + (0..<4).map { "\(name)\($0)" }, "\(log)")
            }
            #expect(!log.contains("c 8"), "\(log)")
        }
    }

    @Test(
        "H14 an async handler whose lease was given back before it started is called by the next runner alone"
    )
    func closedBeforeItStarted() throws {
        #expect(try lastLine("close") == "first done, called, attempt 1, second done")
    }

    @Test(
        "Z4 a step that finds no memory, not even to be undone, blames the store and does not lock others out"
    )
    func outOfMemory() throws {
        #expect(try lastLine("memory") == "failed, locked out after [], other errors []")
    }

    private func lastLine(_ word: String) throws -> Substring? {
        let folder = FileManager.default.temporaryDirectory.appending(path: "world-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let ending = try ProgramEnding(of: "WorldTestProgram", [word, folder.path])
        #expect(ending.status == 0, "\(ending)")
        return ending.output.split(separator: "\n").last
    }
}
