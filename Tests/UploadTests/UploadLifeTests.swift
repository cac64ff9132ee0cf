import FoundationEssentials
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules

@testable import Upload

/// From one state of an upload to the next, with a server that is played by hand.
@Suite(.ownThread, .timeLimit(.minutes(3))) struct UploadLifeTests {
    private func withHome(
        _ module: UploadModule = UploadModule(), others: [any AccountModule] = [], maximumOutbox: Int = 1000,
        _ body: (OfflineHome, _ file: String) async throws -> Void
    ) async throws {
        let home = try OfflineHome(module, others: others, maximumOutbox: maximumOutbox)
        let file = home.folder.path + "/photo.jpg"
        try Data(pattern(500)).write(to: URL(filePath: file))
        try await closing(home) { home in try await body(home, file) }
    }

    private let slot = "https://127.0.0.1:1/f"

    @Test(
        "X27 the server and what it names are asked, then the service that takes files, for a slot of the file's size"
    )
    func search() async throws {
        try await withHome { home, file in
            _ = try home.start(file, to: "bob@example.test")
            #expect(try home.states == ["waiting"])
            try home.answerSearch(maximum: 500)
            #expect(try home.states == ["asked"])
            let request = try #require(try home.outbox.last?.firstElement)
            #expect(
                request["filename"] == "photo.jpg" && request["size"] == "500"
                    && request["content-type"] == nil)
            // What else answers changes nothing, and the next upload does not search again.
            try home.answer(
                "query", to: "example.test",
                "<query xmlns='http://jabber.org/protocol/disco#info'><feature var='urn:xmpp:http:upload:0'/></query>"
            )
            _ = try home.start(file, to: "bob@example.test")
            #expect(try home.waiting("request", to: "up.example.test").count == 2)
        }
    }

    @Test("X27 a file that the service is too small for is never asked for, nor one when nobody takes files")
    func noRoom() async throws {
        try await withHome { home, file in
            _ = try home.start(file, encrypting: true)
            try home.answerSearch(maximum: 515)
            #expect(try home.noted == ["photo.jpg failed too-large"])
            #expect(try home.waiting("request", to: "up.example.test").isEmpty && home.states.isEmpty)
        }
        try await withHome { home, file in
            _ = try home.start(file)
            try home.answer(
                "query", to: "example.test", "<query xmlns='http://jabber.org/protocol/disco#items'/>")
            #expect(try home.noted.isEmpty)
            try home.answer(
                "query", to: "example.test",
                "<error type='cancel'><service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>",
                type: "error"
            )
            #expect(try home.noted == ["photo.jpg failed no-service"])
        }
    }

    @Test("X27 a search without answers is repeated, and the next session starts one at once")
    func silence() async throws {
        try await withHome { home, file in
            _ = try home.start(file)
            for id in try home.waiting("query", to: "example.test") { try home.invalidate(id, .sessionLost) }
            #expect(try home.states == ["waiting"] && home.noted.isEmpty)
            #expect(
                try home.store.number("SELECT count(*) FROM handler WHERE name = 'upload.search-due'") == 1)
            try home.store.change("DELETE FROM outbox")
            try home.store.step { step in
                let module: UploadModule = try home.account.module()
                try module.reset(.session, of: home.account, in: step)
                try module.start(.session, of: home.account, in: step)
            }
            try home.answerSearch()
            #expect(try home.states == ["asked"])
        }
    }

    @Test(
        "X27 a service that is configured is asked at once, and a slot that may not be used ends the upload")
    func hostileSlot() async throws {
        try await withHome(UploadModule(service: try JID("up.example.test"))) { home, file in
            _ = try home.start(file, to: "bob@example.test")
            try home.answerSlot(put: "http://127.0.0.1/f")
            #expect(try home.noted == ["photo.jpg failed invalid-slot"])
            #expect(try home.states.isEmpty && home.outbox.isEmpty)
        }
    }

    @Test("X27 a slot request that a lost session swallowed is asked again, and answers to it come too late")
    func lostSession() async throws {
        try await withHome(UploadModule(service: try JID("up.example.test"))) { home, file in
            _ = try home.start(file)
            let id = try #require(try home.waiting("request", to: "up.example.test").first)
            try home.invalidate(id, .sessionLost)
            #expect(try home.states == ["waiting"])
            try await eventually("another request") {
                try await home.drain()
                return try home.states == ["asked"]
            }
            let again = try home.waiting("request", to: "up.example.test")
            #expect(again.count == 2 && again[0] == id && again[1] != id)
        }
    }

    @Test("X27 uploads take turns: four have a slot, the others wait for theirs")
    func turns() async throws {
        try await withHome(UploadModule(service: try JID("up.example.test"))) { home, file in
            for _ in 0..<6 { _ = try home.start(file) }
            #expect(try home.states.filter { $0 == "asked" }.count == Uploads.slots)
            try home.answerSlot(put: "gopher://h")
            #expect(try home.noted.count == 1 && home.states.filter { $0 == "asked" }.count == Uploads.slots)
        }
    }

    @Test(
        "X27 there is a limit to how many uploads wait, and what cannot be uploaded is refused where it is asked"
    )
    func limits() async throws {
        try await withHome(UploadModule(service: try JID("up.example.test"))) { home, file in
            let code = { (path: String, name: String?, type: String?) -> ErrorCode<UploadError>? in
                do {
                    try home.store.step { step in
                        _ = try home.account.uploads.upload(
                            UploadFile(path, name: name, type: type), then: Noted().durable, in: step)
                    }
                    return nil
                } catch { return (error as? UploadError)?.code }
            }
            try Data().write(to: URL(filePath: file + ".empty"))
            #expect(code(file + ".none", nil, nil) == .fileMissing)
            #expect(code(file + ".empty", nil, nil) == .invalidFile)
            #expect(code(home.folder.path, nil, nil) == .invalidFile)
            #expect(code(file, "a/b", nil) == .invalidFile)
            #expect(code(file, "a\u{1}", nil) == .invalidFile)
            #expect(code(file, String(repeating: "a", count: 256), nil) == .invalidFile)
            #expect(code(file, nil, "image/jpeg\r\nX-Evil: 1") == .invalidFile)
            #expect(try home.states.isEmpty && home.store.number("SELECT count(*) FROM handler") == 0)
            for _ in 0..<Uploads.limit { #expect(code(file, nil, nil) == nil) }
            #expect(code(file, nil, nil) == .tooManyUploads)
        }
    }

    @Test("X27 a canceled upload ends its handler once, and what comes later changes nothing")
    func canceled() async throws {
        try await withHome(UploadModule(service: try JID("up.example.test"))) { home, file in
            let id = try home.start(file, to: "bob@example.test")
            let cancel = { try home.store.step { step in try home.account.uploads.cancel(id, in: step) } }
            #expect(try cancel())
            #expect(try !cancel())
            #expect(try home.noted == ["photo.jpg failed cancelled"])
            try home.answerSlot(put: slot)
            #expect(try home.noted.count == 1 && home.states.isEmpty)
            #expect(try home.store.number("SELECT count(*) FROM handler") == 0)
        }
    }

    @Test("X27 removing the module ends every upload, each once")
    func removed() async throws {
        try await withHome(UploadModule(service: try JID("up.example.test"))) { home, file in
            for _ in 0..<6 { _ = try home.start(file) }
            let all = Array(repeating: "photo.jpg failed cancelled", count: 6)
            // In a session it is asked to end; without one, what comes first finds it gone.
            struct Undone: Error {}
            #expect(throws: Undone.self) {
                try home.store.step { step in
                    try UploadModule().end(of: home.account, in: step)
                    let noted = try step.all("SELECT text FROM noted") { (row) throws(HandlerError) in
                        row.text(0)
                    }
                    #expect(noted == all)
                    throw Undone()
                }
            }
            try await home.account.remove(UploadModule.self)
            try home.answerSlot(put: slot)
            #expect(try home.noted == all && home.states.isEmpty)
            try home.answerSlot(put: slot)
            #expect(try home.noted == all)
        }
    }

    // MARK: With a web server

    /// A home with an upload that has the slot.
    private func withSlot(
        _ place: String, to recipient: String? = "bob@example.test", retry: RetryPolicy = .never,
        failures: Int = 0,
        others: [any AccountModule] = [], maximumOutbox: Int = 1000, privateHosts: [String] = ["localhost"],
        _ body: (OfflineHome, WebServer, UploadID) async throws -> Void
    ) async throws {
        try await closing(WebServer()) { server in
            let module = UploadModule(
                service: try JID("up.example.test"), trust: .file(path: server.certificates.authorityFile),
                privateHosts: privateHosts, retry: retry)
            try await withHome(module, others: others, maximumOutbox: maximumOutbox) { home, file in
                let id = try home.start(file, to: recipient, failures: failures)
                try home.answerSlot(put: server.address(place))
                #expect(try home.states == ["putting"])
                try await body(home, server, id)
            }
        }
    }

    @Test("X27 the message with the link and its attachment is sent, and the handler ends, in one step")
    func sent() async throws {
        try await withSlot("take/photo.jpg") { home, server, _ in
            try await eventually("the end") {
                try await home.drain()
                return try home.states.isEmpty
            }
            let link = server.address("take/photo.jpg")
            #expect(try home.noted == ["photo.jpg uploaded \(link)"])
            let message = try #require(try home.outbox.last)
            #expect(
                message.name == "message" && message["to"] == "bob@example.test" && message["type"] == "chat")
            #expect(message.child("body", Namespaces.client)?.text == link)
            #expect(message.child("x", "jabber:x:oob")?.child("url", "jabber:x:oob")?.text == link)
            #expect(try home.outbox.filter { $0.name == "message" }.count == 1)
        }
    }

    @Test(
        "X27 a handler that throws is called again by itself: the file is put once, and one message is sent")
    func failingHandler() async throws {
        try await withSlot("take/photo.jpg", failures: 2) { home, server, _ in
            try await eventually("the note") {
                try await home.drain()
                return try home.noted.count == 1
            }
            #expect(try server.requests.count == 1 && home.outbox.filter { $0.name == "message" }.count == 1)
        }
    }

    @Test("X27 a slot that leads to this machine is not used, and the next one may lead elsewhere")
    func privateSlot() async throws {
        let retry = RetryPolicy(attempts: 2, firstDelay: .zero)
        try await withSlot("take/f", retry: retry, privateHosts: ["up.example.test"]) { home, server, _ in
            try await eventually("another request") {
                try await home.drain()
                return try home.states == ["asked"]
            }
            try home.answerSlot(put: server.address("take/f"))
            try await eventually("the end") {
                try await home.drain()
                return try home.noted == ["photo.jpg failed private-address"]
            }
            #expect(try server.requests.isEmpty && home.states.isEmpty)
        }
    }

    @Test("X27 a refused PUT asks for another slot, as often as it may, and then fails with the status")
    func refusedPut() async throws {
        let retry = RetryPolicy(attempts: 3, firstDelay: .zero)
        try await withSlot("500", retry: retry) { home, server, _ in
            for count in 2...3 {
                try await eventually("request \(count)") {
                    try await home.drain()
                    return try home.states == ["asked"]
                }
                try home.answerSlot(put: server.address("500"))
            }
            try await eventually("the end") {
                try await home.drain()
                return try home.noted == ["photo.jpg failed http-status"]
            }
            #expect(try server.requests.count == 3 && home.states.isEmpty)
        }
    }

    @Test(
        "X27 a PUT that is too large, and a file that was changed, fail at once: another slot would not help")
    func finalFailures() async throws {
        let retry = RetryPolicy(attempts: 3, firstDelay: .zero)
        try await withSlot("413", retry: retry) { home, _, _ in
            try await eventually("the end") {
                try await home.drain()
                return try home.noted == ["photo.jpg failed too-large"]
            }
        }
        try await withSlot("take/photo.jpg", retry: retry) { home, server, _ in
            try Data(pattern(499)).write(to: URL(filePath: home.folder.path + "/photo.jpg"))
            try await eventually("the end") {
                try await home.drain()
                return try home.noted == ["photo.jpg failed file-changed"]
            }
            #expect(try server.requests.isEmpty)
        }
    }

    @Test("X27 a slot that is too old, unreadable, or from a clock that was set back is not used")
    func oldSlot() async throws {
        for change in ["slot_at = slot_at - 270001", "slot_at = slot_at + 100000", "slot = '{'"] {
            try await withSlot("take/photo.jpg") { home, server, _ in
                try home.store.change("UPDATE upload SET \(change)")
                try await eventually("another request") {
                    try await home.drain()
                    return try home.states == ["asked"]
                }
                #expect(try server.requests.isEmpty, "\(change)")
            }
        }
    }

    @Test("X27 a message for which the outbox has no room waits, and the file is not put again")
    func fullOutbox() async throws {
        try await withSlot("take/photo.jpg", maximumOutbox: 1) { home, server, _ in
            _ = try await home.account.perform { step in
                try home.account.send(Message(to: nil, body: "x"), in: step)
            }
            try await eventually("the PUT") {
                try await home.drain()
                return try home.states == ["uploaded"]
            }
            try home.store.change("DELETE FROM outbox")
            try home.store.change("UPDATE handler SET due = 0 WHERE name = 'upload.due'")
            try await eventually("the end") {
                try await home.drain()
                return try home.states.isEmpty
            }
            #expect(try server.requests.count == 1 && home.noted.count == 1 && home.outbox.count == 1)
        }
    }

    @Test(
        "X27 a repeated PUT that is refused takes another slot at once and counts no failure; another failure counts"
    )
    func repeated() async throws {
        for (status, isRepeated, attempts) in [
            (409, true, 0), (403, true, 0), (409, false, 1), (500, true, 1),
        ] {
            try await withSlot("take/photo.jpg", retry: RetryPolicy(attempts: 3)) { home, _, id in
                try home.store.step { step in
                    let row = try #require(try home.account.uploads.table.row(id, in: step))
                    try home.account.uploads.transferred(
                        row, .failure(.status(status)), isRepeated: isRepeated, in: step)
                    let after = try #require(try home.account.uploads.table.row(id, in: step))
                    #expect(after.attempts == attempts && after.slot == nil && after.state == .waiting)
                    #expect((after.job == nil) == (attempts == 0), "\(status) \(isRepeated)")
                }
            }
        }
    }

    @Test("X27 to a room the message goes through the room, and to somebody else its delivery is watched")
    func routes() async throws {
        let room = "room@chat.example.test"
        try await withSlot("take/photo.jpg", others: .bot) { home, _, _ in
            try await eventually("the end") {
                try await home.drain()
                return try home.noted.count == 1
            }
            #expect(try home.store.number("SELECT count(*) FROM delivery") == 1)
        }
        for hasLeft in [false, true] {
            try await withSlot("take/photo.jpg", to: room, others: .bot) { home, _, _ in
                try home.store.step { step in
                    _ = try home.account.rooms.join(try JID(room), as: "alice", in: step)
                    if hasLeft { try home.account.rooms.leave(try JID(room), in: step) }
                }
                try await eventually("the end") {
                    try await home.drain()
                    return try home.noted.count == 1
                }
                #expect(try home.store.number("SELECT count(*) FROM room_message") == (hasLeft ? 0 : 1))
                #expect(
                    try home.noted[0].hasPrefix(hasLeft ? "photo.jpg failed not-sent" : "photo.jpg uploaded ")
                )
            }
        }
    }

    @Test("X27 a transfer that is canceled elsewhere ends, and sends nothing")
    func canceledTransfer() async throws {
        try await withSlot("stall") { home, server, id in
            let draining = Task { try await home.drain() }
            try await eventually("the PUT") { try server.requests.count == 1 }
            try home.store.step { step in _ = try home.account.uploads.cancel(id, in: step) }
            try await draining.value
            try await eventually("the end of the transfer") {
                try home.store.number("SELECT count(*) FROM handler") == 0
            }
            #expect(try home.noted == ["photo.jpg failed cancelled"])
            #expect(try home.outbox.isEmpty)
        }
    }

    @Test("X27 an upload whose transfer killed too many processes fails")
    func deadly() async throws {
        try await withSlot("take/photo.jpg") { home, server, _ in
            try home.store.change("UPDATE handler SET deaths = 1000 WHERE name = 'upload.put'")
            try await eventually("the end") {
                try await home.drain()
                return try home.noted == ["photo.jpg failed abandoned"]
            }
            #expect(try server.requests.isEmpty && home.states.isEmpty)
        }
    }

    @Test("X27 what an upload ended with is stored with its key masked, and read again")
    func stored() async throws {
        try await withHome { home, file in
            let secret = AesgcmLink(to: "https://h/f")
            let ended = UploadEnded(
                account: home.account, upload: UploadID(rawValue: 7), file: UploadFile(file),
                messageID: nil, outcome: .uploaded(UploadedFile(address: secret.address, secret: secret)))
            let bytes = try ended.stored()
            #expect(!Masking.text(bytes).contains(secret.text.string.suffix(64)))
            let again = try UploadEnded(restoring: bytes, in: home.account)
            #expect(
                again.outcome == ended.outcome && again.upload == ended.upload && again.file == ended.file)
            var error = UploadError(.quotaExceeded, "wait")
            error.retryAt = Timestamp(milliseconds: 5)
            let failed = UploadEnded(
                account: home.account, upload: UploadID(rawValue: 8), file: UploadFile(file),
                messageID: nil, outcome: .failed(error))
            #expect(try UploadEnded(restoring: failed.stored(), in: home.account).outcome == .failed(error))
        }
    }
}
