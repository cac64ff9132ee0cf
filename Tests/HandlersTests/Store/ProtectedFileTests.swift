import HandlersTestKit
import TestSupport
import TestThreads
import Testing

@testable import Handlers

/// Files that a phone encrypts while it is locked.
@Suite struct ProtectedFileTests {
    @Test(
        "D7 what Apple's SQLite says of a locked device is an error of its own",
        arguments: [23, 10 | 28 << 8] as [Int32])
    func lockedDevice(number: Int32) {
        let error = sqliteError(nil, code: number, doing: "reading", path: "app.db")
        #expect(error.code == .databaseProtected && error.isStorageFailure)
        #expect(error.message.contains("app.db") && error.message.contains("unlocked"))
    }

    @Test("D7 a step may not end its own transaction: that is no locked device")
    func ownTransaction() throws {
        try withRig([Say.self]) { rig in
            for sql in ["COMMIT", "ROLLBACK", "BEGIN"] {
                #expect(code { _ = try rig.store.step { try $0.execute(sql) } } == .sql)
            }
        }
    }

    @Test(
        "D7 while the device is locked nothing is lost or quarantined, and it goes on afterwards", .sqliteOnly
    )
    func waits() throws {
        try withRig([Say.self, FlakyTimer.self]) { rig in
            let id = try rig.store.step {
                try $0.schedule(FlakyTimer(name: "a", until: 1).durable, after: .seconds(1))
            }
            rig.clock.advance(by: .seconds(2))
            rig.store.refuseRows(with: .databaseProtected) { _, _ in true }
            for _ in 0..<5 {
                #expect(code { try rig.runner.runDue() } == .databaseProtected)
            }
            rig.store.refuseRows(nil)
            #expect(try rig.status(of: id)?.attempts == 0)
            try rig.runner.runDue()
            #expect(try rig.store.keptEnding(of: id)?.outcome == .result)
        }
    }
}
