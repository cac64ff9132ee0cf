import Foundation
import Glibc
import Platform
import Synchronization
import TestThreads
import TestSupport
import Testing

@testable import Handlers

@Suite(.serialized, .ownThread) struct SignalPipeTests {
    private func pipe(_ folder: Folder) -> String { folder.file() + "-signal" }

    private func isPipe(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFIFO
    }

    @Test("H14 the pipe of the signals is its owner's alone, and stays when all have left")
    func created() throws {
        try withFolder { folder in
            try occupy(folder.file()).leave()
            #expect(isPipe(pipe(folder)))
            #expect(mode(of: pipe(folder)) == 0o600)
            #expect(chmod(pipe(folder), 0o622) == 0)
            let slot = try occupy(folder.file())
            #expect(slot.narrowedFiles == [pipe(folder)])
            #expect(mode(of: pipe(folder)) == 0o600)
            slot.leave()
        }
    }

    @Test("H14 a full pipe is emptied: its stores are notified and can be closed")
    func full() throws {
        try withFolder { folder in
            let (slot, other) = (try occupy(folder.file()), try occupy(folder.file()))
            let bell = Bell()
            let watch = try slot.watchOthers { bell.ring() }
            let descriptor = open(pipe(folder), O_RDWR | O_NONBLOCK | O_CLOEXEC)
            defer { close(descriptor) }
            func fill() {
                let bytes = [UInt8](repeating: 0, count: 4096)
                while write(descriptor, bytes, bytes.count) > 0 {}
                #expect(errno == EAGAIN)
            }
            var times: [Duration] = []
            for _ in 0..<20 {
                fill()
                // What the filling has woken is over: it is no change.
                usleep(2_000)
                #expect(bell.count == 0)
                let start = ContinuousClock.now
                other.notifyOthers()
                try #require(bell.wait())
                times.append(ContinuousClock.now - start)
                // Linux 6 reports an edge for a write that fails, too; nothing promises that.
                var bytes = [UInt8](repeating: 0, count: 1 << 20)
                #expect(read(descriptor, &bytes, bytes.count) == 1)
                bell.reset()
                usleep(5_000)
            }
            // Not by the look of each second; a busy machine delays some.
            #expect(times.sorted()[10] < .milliseconds(500), "\(times)")
            fill()
            watch.cancel()
            slot.leave()
            other.leave()
        }
    }

    @Test("H14 a watch ends without the pipe, which another program may read")
    func endWithoutPipe() throws {
        try withFolder { folder in
            let slot = try occupy(folder.file())
            let descriptor = open(pipe(folder), O_RDWR | O_NONBLOCK | O_CLOEXEC)
            defer { close(descriptor) }
            let watch = try slot.watchOthers {}
            var bytes = [UInt8](repeating: 0, count: 1 << 16)
            while read(descriptor, &bytes, bytes.count) > 0 {}
            watch.cancel()
            #expect(read(descriptor, &bytes, bytes.count) == -1 && errno == EAGAIN)
            slot.leave()
        }
    }

    @Test("H14 a store that is alone looks around, too: the signal of one that has come may be lost")
    func lone() throws {
        try withFolder { folder in
            let slot = try occupy(folder.file())
            let edges = try EdgeWatch()
            let loop = NeighborLoop(
                slot, edges, try LoopStop(), seen: slot.countOfOthers, neighbors: Neighbors(slot, edges)
            ) {}
            let pause = try #require(loop.turn([])?.milliseconds)
            #expect(pause > NeighborLoop.lookInterval && pause <= NeighborLoop.loneInterval)
            slot.leave()
        }
    }

    @Test("H14 without a pipe stores look regularly: commits and ends of others are noticed all the same")
    func withoutPipe() throws {
        try withFolder { folder in
            try prepareSlots(folder.file())
            unlink(pipe(folder))
            #expect(FileManager.default.createFile(atPath: folder.file(), contents: nil))
            for suffix in ["", "-processes"] { chown(folder.file() + suffix, 65534, 65534) }
            chmod(folder.path, 0o555)
            try asOrdinaryUser {
                let (slot, other) = (try occupy(folder.file()), try occupy(folder.file()))
                #expect(!isPipe(pipe(folder)))
                let bell = Bell()
                let watch = try slot.watchOthers { bell.ring() }
                var times: [Duration] = []
                for _ in 0..<5 {
                    let start = ContinuousClock.now
                    // The loop has looked after the last call, and sleeps.
                    usleep(10_000)
                    other.notifyOthers()
                    try #require(bell.wait())
                    times.append(ContinuousClock.now - start)
                }
                other.leave()
                #expect(bell.wait())
                // Not by the look of each second; a busy machine delays some.
                #expect(times.sorted()[2] < .milliseconds(500), "\(times)")
                #expect(bell.count == 6)
                watch.cancel()
                slot.leave()
            }
        }
    }

    @Test("H14 a file in the place of the pipe is refused with a sentence that names it, and left as it is")
    func foreign() throws {
        try withFolder { folder in
            let content = Array("a diary, of all things".utf8)
            #expect(FileManager.default.createFile(atPath: pipe(folder), contents: Data(content)))
            let error = #expect(throws: HandlerError.self) { _ = try occupy(folder.file()) }
            #expect(error?.code == .databaseForeign)
            #expect(error?.message.contains(pipe(folder) + ", which") == true)
            #expect(error?.message.contains("is no pipe") == true)
            #expect(bytes(of: pipe(folder)) == content)
        }
    }
}
