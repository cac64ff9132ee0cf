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
        default:
            // Most start as the file does, so that the record is read.
            let isWhole = directions.byte() % 4 > 0
            try useOwners((isWhole ? try ownersStart.made() : []) + directions.rest)
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

    private static let ownersStart = Result { () throws -> [UInt8] in
        let path = OwnerFile.path(ofDatabase: try database.made())
        unlink(path)
        _ = try OwnerFile(database: database.made())
        let start = try read(path)
        return start + [UInt8](repeating: 0, count: OwnerFile.recordSize - start.count)
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

    private static func useOwners(_ content: [UInt8]) throws {
        let database = try database.made()
        try write(content, to: OwnerFile.path(ofDatabase: database))
        let file = try OwnerFile(database: database)
        try file.check(1)
        let told = file.sent(1)
        try require(OwnerFile.sent(1, database: database) == told, "the file of owners says two things")
        if let told { _ = SentProgress(epoch: told.epoch).stored }
        try require(file.tryLock(1) && OwnerFile.isLocked(1, database: database), "a free lock is not taken")
        file.record(SentProgress(epoch: 5), 1)
        try require(
            OwnerFile.sent(1, database: database) == SentProgress(epoch: 5), "what was noted is not read")
        file.unlock(1)
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
