import Glibc
@testable import Handlers
@testable import XMPPAccount

extension FuzzTarget {
    /// The files beside a database, as somebody may have left them: each is used, written again, or refused with an error.
    static let files = FuzzTarget("files", .short, maximumLength: 1024) { bytes in
        var directions = Bytes(bytes)
        switch directions.byte() % 3 {
        case 0: try useSlots(Array(directions.rest))
        case 1: try useSlots(goodSlots.made().edited(by: &directions))
        default: try useLock(Array(directions.rest))
        }
    }

    private static let database = Result { () throws in try ScratchFolder.make() + "/store.db" }

    private static let goodSlots = Result { () throws -> [UInt8] in
        let path = try database.made()
        try write([], to: path)
        unlink(path + "-processes")
        try ProcessSlot(path: path) { _, _ throws(HandlerError) in }.leave()
        return try read(path + "-processes")
    }

    private static func useSlots(_ content: [UInt8]) throws {
        let path = try database.made()
        try write(content, to: path + "-processes")
        _ = StoreProcess.all(of: path)
        let slot = try ProcessSlot(path: path) { _, _ throws(HandlerError) in }
        slot.record(RunningCall(handler: 1, digest: 2))
        var slots = 0
        try slot.recoverDead { (_, _) throws(HandlerError) in slots += 1 }
        _ = (slot.others, slot.neighbors, slot.isSeenOtherwise(than: 1))
        try require(
            StoreProcess.all(of: path).contains { $0.slot == slot.number },
            "a store that took a slot is not seen")
        slot.leave()
        // What cannot be read again would keep everybody out for good.
        do {
            try ProcessSlot(path: path) { _, _ throws(HandlerError) in }.leave()
        } catch {
            throw Finding("the file was used once and is refused then: \(error)")
        }
    }

    private static func useLock(_ content: [UInt8]) throws {
        let path = try database.made() + "-owner-1"
        try write(content, to: path)
        let lock = try OwnerLock(path: path, beside: database.made())
        let told = lock.sent
        try require(SentProgress(file: path) == told, "the lock file says two things")
        if let told { _ = SentProgress(epoch: told.epoch).stored }
        try require(lock.tryToAcquire() && OwnerLock.isHeld(path), "a free lock is not taken")
        lock.record(SentProgress(epoch: 5))
        try require(SentProgress(file: path) == SentProgress(epoch: 5), "what was noted is not read")
        lock.release()
    }

    static func write(_ content: [UInt8], to path: String) throws {
        let file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        defer { close(file) }
        guard Glibc.write(file, content, content.count) == content.count else {
            throw Finding("\(path) cannot be written")
        }
    }

    static func read(_ path: String) throws -> [UInt8] {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        defer { close(file) }
        var status = stat()
        guard fstat(file, &status) == 0 else { throw Finding("\(path) cannot be read") }
        var content = [UInt8](repeating: 0, count: Int(status.st_size))
        guard Glibc.read(file, &content, content.count) == content.count else {
            throw Finding("\(path) cannot be read")
        }
        return content
    }
}
