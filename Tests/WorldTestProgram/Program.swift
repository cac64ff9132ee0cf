import HandlersTestKit
import World

/// A program with the tasks of three processes, in the order of a seed: `WorldTestProgram SEED`. The last process is killed
/// after 6 choices.
@main enum Program {
    private actor Ledger {
        private(set) var lines: [String] = []
        func add(_ line: String) { lines.append(line) }
    }

    nonisolated(unsafe) private static var log: [String] = []
    /// Who waits to be called by the program, with the process.
    nonisolated(unsafe) private static var callers:
        [(SimulatedDisk.Process?, CheckedContinuation<Void, Never>)] = []

    private static func wait() async {
        await withCheckedContinuation { callers.append((WorldTasks.shared.current, $0)) }
    }

    private static func work(_ name: String) async {
        let ledger = Ledger()
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<4 {
                group.addTask {
                    await ledger.add("begin \(number)")
                    await wait()
                    await ledger.add("end \(number)")
                    log.append("\(name)\(number)")
                }
            }
        }
        log.append("\(name) \(await ledger.lines.count)")
    }

    static func main() {
        let seed = CommandLine.arguments.dropFirst().first.flatMap(UInt64.init) ?? 0
        var random = SeededGenerator(seed: seed)
        let tasks = WorldTasks.shared
        let disk = SimulatedDisk(seed: seed)
        let processes = ["a", "b", "c"].map(disk.startProcess)
        for process in processes {
            tasks.current = process
            let name = process.name
            Task.detached { await work(name) }
        }
        tasks.current = nil
        var count = 0
        while true {
            if let job = tasks.ready.randomElement(using: &random) {
                tasks.run(job)
            } else if let index = callers.indices.randomElement(using: &random) {
                let (process, continuation) = callers.remove(at: index)
                tasks.current = process
                continuation.resume()
                tasks.current = nil
            } else {
                break
            }
            count += 1
            if count == 6 { disk.kill(processes[2]) }
        }
        print(log.joined(separator: ", "))
    }
}
