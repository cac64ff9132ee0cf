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
}
