import Foundation
import Glibc
import Handlers
import Synchronization
import TestThreads
import TestSupport
import Testing

@Suite(.serialized, .ownThread) struct SlotFileTests {
    private static let size = 64 + 64 * ProcessSlot.limit

    private func slots(_ folder: Folder) -> String { folder.file() + "-processes" }

    private func write(_ content: [UInt8], to path: String) {
        _ = FileManager.default.createFile(atPath: path, contents: Data(content))
    }

    private func refusal(_ folder: Folder) -> HandlerError? {
        do {
            _ = try occupy(folder.file())
            return nil
        } catch {
            return error as? HandlerError
        }
    }

    @Test("H14 the file of slots is its owner's alone, has no hole, and stays when all have left")
    func created() throws {
        try withFolder { folder in
            try occupy(folder.file()).leave()
            #expect(mode(of: slots(folder)) == 0o600)
            var status = stat()
            #expect(stat(slots(folder), &status) == 0)
            #expect(status.st_size == Self.size)
            #expect(Int(status.st_blocks) * 512 >= Self.size)
        }
    }

    @Test("H14 a new file vouches for nobody: every slot is recovered once, for the database may be older")
    func newFile() throws {
        try withFolder { folder in
            var first: [Found] = []
            let slot = try ProcessSlot(path: folder.file()) { (slot, runningCall) throws(HandlerError) in
                first.append(Found(slot: slot, runningCall: runningCall))
            }
            #expect(first == [Found(slot: 0, runningCall: nil)])
            #expect(slot.found() == (1..<ProcessSlot.limit).map { Found(slot: $0, runningCall: nil) })
            #expect(slot.found() == [])
            slot.leave()
        }
    }

    @Test("H14 a file of an earlier boot vouches for nobody: a loss of power may have undone what it said")
    func earlierBoot() throws {
        try withFolder { folder in
            try prepareSlots(folder.file())
            try overwrite(slots(folder), at: 16, with: 1234)
            let slot = try occupy(folder.file())
            #expect(slot.found().count == ProcessSlot.limit - 1)
            slot.leave()
            let next = try occupy(folder.file())
            #expect(next.found() == [])
            next.leave()
        }
    }

    @Test(
        "H14 a file whose writer died, or that was cut short, is written again", arguments: [0, 7, 64, 5000])
    func unfinished(_ length: Int) throws {
        try withFolder { folder in
            write([UInt8](repeating: 0, count: length), to: slots(folder))
            let slot = try occupy(folder.file())
            #expect(slot.found().count == ProcessSlot.limit - 1)
            slot.leave()
            truncate(slots(folder), max(length, 32))
            let next = try occupy(folder.file())
            #expect(next.found().count == ProcessSlot.limit - 1)
            next.leave()
        }
    }

    @Test("H14 a file of something else is refused and left as it is")
    func foreign() throws {
        try withFolder { folder in
            let content = Array("a diary, of all things".utf8)
            write(content, to: slots(folder))
            let error = refusal(folder)
            #expect(error?.code == .databaseForeign)
            #expect(error?.message.contains("move it away") == true)
            #expect(bytes(of: slots(folder)) == content)
        }
    }

    @Test("H14 a file of a newer version is refused and left as it is")
    func newer() throws {
        try withFolder { folder in
            try prepareSlots(folder.file())
            try overwrite(slots(folder), at: 8, with: 2)
            let content = bytes(of: slots(folder))
            let error = refusal(folder)
            #expect(error?.code == .databaseNewer)
            #expect(error?.message.contains("update this program") == true)
            #expect(bytes(of: slots(folder)) == content)
        }
    }

    @Test("H14 a file that is damaged while a process uses it is not written again beneath that process")
    func damagedInUse() throws {
        try withFolder { folder in
            try prepareSlots(folder.file())
            let child = try SlotChild(folder.file())
            try overwrite(slots(folder), at: 0, with: 0)
            let error = refusal(folder)
            #expect(error?.code == .databaseUnavailable)
            #expect(error?.message.contains("end all programs") == true)
            child.kill()
            #expect(refusal(folder) == nil)
        }
    }

    @Test("H14 a read-only folder and a file of another user are refused with a sentence about permissions")
    func readOnly() throws {
        try withFolder { folder in
            chown(folder.path, 65534, 65534)
            chmod(folder.path, 0o555)
            let inFolder = asOrdinaryUser { refusal(folder) }
            #expect(inFolder?.code == .databaseReadOnly)
            #expect(inFolder?.message.contains("check its permissions and those of its folder") == true)
            #expect(mode(of: slots(folder)) == nil)
            chmod(folder.path, 0o755)
            write([], to: slots(folder))
            chmod(slots(folder), 0o400)
            #expect(asOrdinaryUser { refusal(folder) }?.code == .databaseReadOnly)
        }
    }

    @Test("H14 a folder, a pipe and a missing folder are refused", arguments: ["folder", "pipe", "missing"])
    func unusable(_ kind: String) throws {
        try withFolder { folder in
            switch kind {
            case "folder": mkdir(slots(folder), 0o700)
            case "pipe": mkfifo(slots(folder), 0o600)
            default: break
            }
            let path = kind == "missing" ? folder.path + "/none/store.db" : folder.file()
            let error = #expect(throws: HandlerError.self) { _ = try occupy(path) }
            #expect(error?.code == (kind == "missing" ? .databaseUnavailable : .databaseForeign))
        }
    }

    @Test("H14 stores that make the file at the same time get a slot each; each slot is recovered once")
    func madeAtOnce() async throws {
        for _ in 0..<20 {
            try await withFolder { folder in
                let recovered = Mutex<[Int]>([])
                let taken = Mutex<[ProcessSlot]>([])
                let barrier = Barrier(4)
                await concurrently(4) { _ in
                    barrier.wait()
                    let slot = try? ProcessSlot(path: folder.file()) { (slot, _) throws(HandlerError) in
                        recovered.withLock { $0.append(slot) }
                    }
                    guard let slot else { return }
                    let found = slot.found().map(\.slot)
                    recovered.withLock { $0 += found }
                    taken.withLock { $0.append(slot) }
                }
                let slots = taken.withLock { $0.map(\.number) }
                let all = recovered.withLock { $0 }
                #expect(Set(slots).count == 4)
                #expect(Set(all) == Set(0..<ProcessSlot.limit))
                #expect(all.count == ProcessSlot.limit)
                taken.withLock { $0.forEach { $0.leave() } }
            }
        }
    }
}
