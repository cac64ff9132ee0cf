import Foundation
import Glibc
import Handlers
import HandlersTestKit
import Synchronization
import TestServers
import TestSupport
import TestThreads
import Testing

/// Runs until its task is canceled, the first time; later it ends at once.
private struct Slow: AsyncHandler {
    static let id = "suspended.slow"
    var lane: Int
    static let starts = Mutex<[Int: Int]>([:])
    func run(_ call: AsyncCall<TimerFired>) async throws {
        let start = Self.starts.withLock { starts in
            starts[lane, default: 0] += 1
            return starts[lane]
        }
        if start == 1 { while true { try await Task.sleep(for: .seconds(60)) } }
        try call.end { try $0.note("slow \(start ?? 0)") }
    }
}

/// The same in the process of another program.
private struct Upload: AsyncHandler {
    static let id = "suspend.upload"
    func run(_ call: AsyncCall<TimerFired>) async throws { try call.end { try $0.note("uploaded") } }
}

@Suite(.ownThread) struct SuspendedStoreTests {
    /// The locks of the system on files of a store: lines of /proc/locks that name one by its number.
    private static func locks(on path: String) throws -> [String] {
        let folder = (path as NSString).deletingLastPathComponent
        let numbers = try FileManager.default.contentsOfDirectory(atPath: folder).compactMap {
            name -> String? in
            var information = stat()
            guard stat(folder + "/" + name, &information) == 0 else { return nil }
            let device = information.st_dev
            let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xfff00)
            return String(format: " %02x:%02x:%lu ", major, minor, information.st_ino)
        }
        return try String(contentsOfFile: "/proc/locks", encoding: .utf8).split(separator: "\n").map(
            String.init
        )
        .filter { line in numbers.contains { line.contains($0) } }
    }

    private func expectSuspended(_ store: HandlerStore) {
        #expect(code { try store.step { _ in } } == .storeSuspended)
        #expect(code { try store.read { _ in } } == .storeSuspended)
    }

    @Test("D5 a suspended store holds no lock, refuses steps and reads, and goes on when it is resumed")
    func locks() throws {
        try withFolder { folder in
            let path = folder.file()
            try withRig(path, [Say.self]) { rig in
                let id = try rig.store.bind(Say(name: "Ada").durable)
                _ = try rig.store.read { try $0.status(of: id) }
                try rig.runner.start()
                #expect(try !Self.locks(on: path).isEmpty)
                for _ in 0..<2 {
                    try rig.store.suspend()
                    #expect(try Self.locks(on: path) == [])
                    expectSuspended(rig.store)
                }
                #expect(throws: HandlerError.self) { try rig.runner.runDue() }
                for _ in 0..<2 {
                    try rig.store.resume()
                    #expect(try rig.store.read { try $0.status(of: id) } != nil)
                }
                #expect(try !Self.locks(on: path).isEmpty)
                try rig.end(id)
                #expect(try rig.store.notes().count == 1)
            }
        }
    }

    @Test("D5 what another process has committed meanwhile is there, and it knows that this one is back")
    func others() throws {
        try withFolder { folder in
            let path = folder.file()
            try withRig(path, [Say.self]) { rig in
                let id = try rig.store.bind(Say(name: "Ada").durable)
                try rig.store.suspend()
                let other = try openStore(path, [Say.self])
                try other.step { _ = try $0.end(id, .result, with: Job("x")) }
                try rig.store.resume()
                #expect(try rig.store.keptEnding(of: id)?.outcome == .result)
                #expect(rig.store.slotNumber != other.slotNumber)
            }
        }
    }

    @Test(
        "D5 an async handler that runs is canceled, its lease is free at once, and it is run again after the resumption"
    )
    func leases() async throws {
        let lane = Int.random(in: 1...Int.max)
        try await withFolder { folder in
            let store = try openStore(folder.file(), [Slow.self])
            let runner = try HandlerRunner(store)
            defer { runner.close() }
            try runner.start()
            let id = try store.step { try $0.schedule(Slow(lane: lane).durable, after: .zero) }
            #expect(
                becomesTrue(before: .now + .seconds(60)) { Slow.starts.withLock { $0[lane] } == 1 })
            try store.suspend()
            try store.resume()
            #expect(try await store.ending(of: id).outcome == .result)
            #expect(try store.notes() == ["slow 2"])
        }
    }

    @Test("D5 a store is not suspended inside a step or a read of its own, and stays as it is")
    func nested() throws {
        try withRig([Say.self]) { rig in
            try rig.store.step { step in
                #expect(code { try rig.store.suspend() } == .nestedStep)
                try step.note("in the step")
            }
            _ = try rig.store.read { _ in
                #expect(code { try rig.store.suspend() } == .nestedStep)
            }
            #expect(try rig.store.notes() == ["in the step"])
        }
    }

    @Test("D5 a suspension that a step holds up says so, and takes place when the step has ended")
    func late() async throws {
        try await withFolder { folder in
            let store = try openStore(folder.file(), [Say.self])
            let (began, goOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
            let thread = Foundation.Thread {
                try? store.step { step in
                    began.signal()
                    goOn.wait()
                    try step.note("kept")
                }
            }
            thread.start()
            began.wait()
            #expect(await store.suspend(within: .milliseconds(1)) == false)
            goOn.signal()
            #expect(
                becomesTrue(before: .now + .seconds(60)) {
                    code { try store.step { _ in } } == .storeSuspended
                })
            #expect(await store.suspend(within: .seconds(60)))
            try store.resume()
            #expect(try store.notes() == ["kept"])
        }
    }

    @Test(
        "D5 a stopped process that has suspended its store holds up nobody, and goes on when it is continued")
    func stopped() async throws {
        try await withFolder { folder in
            let path = folder.file()
            let child = try ChildProcess(
                BuiltProduct.path("HandlersTestProgram"), ["suspend", path], input: .pipe, output: .pipe)
            func line() throws -> String? { try child.output?.readLine(deadline: .now + .seconds(60)) }
            #expect(try line() == "uploading")
            try child.write("go\n")
            #expect(try line() == "suspended")
            #expect(try becomesTrue(before: .now + .seconds(60)) { try Self.isStopped(child.processID) })
            #expect(try Self.locks(on: path) == [])
            do {
                let store = try openStore(path, [Upload.self], time: .system)
                let runner = try HandlerRunner(store)
                defer { runner.close() }
                // Neither a lease nor a lock of the stopped one is in the way.
                #expect(try await runner.drain(for: .seconds(60)))
                #expect(try store.notes() == ["uploaded"])
            }
            #expect(child.signal(SIGCONT))
            #expect(try line() == "resumed")
            #expect(try line() == "tick")
            child.closeInput()
            #expect(try child.waitUntilExit(deadline: .now + .seconds(60)).status == 0)
        }
    }

    private static func isStopped(_ process: Int32) throws -> Bool {
        try String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8).contains(") T ")
    }
}
