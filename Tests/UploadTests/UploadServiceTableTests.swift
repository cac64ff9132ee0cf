import Handlers
import TestSupport
import TestThreads
import Testing
@testable import Upload
import XMPPCore
import XMPPModules
import XMPPAccount

/// What is known of the upload service while it is searched for.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct UploadServiceTableTests {
    @Test("S17 a new search forgets the service of the last one, and who did not answer")
    func start() throws {
        let folder = try TemporaryFolder()
        let store = try HandlerStore(
            path: folder.path + "/store.db", registry: HandlerRegistry(),
            schemas: Account.schemas + UploadModule.schemas, synchronous: .normal)
        try store.step { step in
            try step.execute("INSERT INTO account(id, jid) VALUES (1, 'alice@localhost')")
            let table = UploadServiceTable(account: 1)
            try table.start(open: 2, in: step)
            try table.add(open: -1, silent: 1, in: step)
            try table.set(.init(jid: try JID("upload.localhost"), maximum: 7), in: step)
            let known = try table.service(in: step)
            #expect(known?.maximum == 7)
            try table.start(open: 3, tries: 4, in: step)
            let search = try table.search(in: step)
            #expect([search.round, search.open, search.silent, search.tries] == [2, 3, 0, 4])
            let service = try table.service(in: step)
            #expect(service == nil)
        }
    }

    @Test("X34 a service that was found counts for an hour, and until it does not answer as one")
    func age() throws {
        let folder = try TemporaryFolder()
        let now = Kept<Int64>(0)
        let store = try HandlerStore(
            path: folder.path + "/store.db", registry: HandlerRegistry(),
            schemas: Account.schemas + UploadModule.schemas,
            time: TimeSource(wall: { Timestamp(milliseconds: now.withLock { $0 }) }))
        func knows(
            at time: Int64, _ change: (UploadServiceTable, borrowing Step) throws -> Void = { _, _ in }
        ) throws
            -> Bool
        {
            now.withLock { $0 = time }
            return try store.step { step in
                let table = UploadServiceTable(account: 1)
                try change(table, step)
                return try table.service(in: step) != nil
            }
        }
        let start: Int64 = 1_000_000
        let age = UploadServiceTable.age.milliseconds
        #expect(
            try knows(at: start) { table, step in
                try step.execute("INSERT INTO account(id, jid) VALUES (1, 'alice@localhost')")
                try table.start(open: 1, in: step)
                try table.set(.init(jid: try JID("upload.localhost"), maximum: 7), in: step)
            })
        #expect(try knows(at: start + age - 1))
        #expect(try !knows(at: start + age))
        #expect(
            try knows(at: start + age) { table, step in
                try table.start(open: 1, in: step)
                try table.set(.init(jid: try JID("files.localhost"), maximum: 7), in: step)
            })
        #expect(try !knows(at: start + age) { table, step in try table.forget(in: step) })
    }
}
