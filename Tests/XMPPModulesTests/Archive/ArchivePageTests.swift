import AccountTestSupport
import Handlers
import TestThreads
import Testing
import XMPPCore

@testable import XMPPAccount
@testable import XMPPModules

/// The ends of pages, with all that a server may leave out.
@Suite(.ownThread) struct ArchivePageTests {
    private static let room = "council@conference.localhost"
    private static let limit = 20

    /// What the first page of an archive with four messages says of itself.
    struct Page: CustomStringConvertible, Sendable {
        var hasSet = true
        var first: String?
        var last: String?
        var hasCount = false
        var complete: String?
        /// How many messages come with it.
        var sent = 0

        var fin: String {
            let parts = [
                first.map { "<first>\($0)</first>" }, last.map { "<last>\($0)</last>" },
                hasCount ? "<count>4</count>" : nil,
            ].compactMap(\.self)
            let set = hasSet ? "<set xmlns='\(Namespaces.rsm)'>\(parts.joined())</set>" : ""
            return "<fin xmlns='\(Namespaces.mam)'\(complete.map { " complete='\($0)'" } ?? "")>\(set)</fin>"
        }

        var description: String { "\(sent) messages, \(fin)" }
    }

    private static var pages: [Page] {
        var pages: [Page] = []
        for sent in [0, 2] {
            for complete in [nil, "true"] {
                pages.append(Page(hasSet: false, complete: complete, sent: sent))
                for (first, last) in [(nil, nil), ("1", nil), (nil, "2"), ("1", "2")] as [(String?, String?)]
                {
                    for hasCount in [true, false] {
                        pages.append(
                            Page(first: first, last: last, hasCount: hasCount, complete: complete, sent: sent)
                        )
                    }
                }
            }
            pages.append(Page(first: "", last: "", sent: sent))
            pages.append(Page(last: "2", complete: "false", sent: sent))
            pages.append(Page(last: "2", complete: "1", sent: sent))
        }
        return pages
    }

    @Test(
        "X32 a catch-up ends where the server says so or a page is empty, and else goes on after what came or is named",
        arguments: pages)
    func combinations(page: Page) async throws {
        for archive in [nil, Self.room] {
            try await withFed(ArchiveModule(pageSize: 2, history: nil)) { fed in
                let jid = try JID(archive ?? FedAccount.own)
                try fed.step { try fed.account.archive.catchUp(jid, in: $0) }
                let asked = try answer(fed, archive) { turn, after, request in
                    if turn == 0 { return (Array(0..<page.sent).map { "\($0 + 1)" }, page.fin) }
                    return Self.rest(after: Int(after ?? "0") ?? 0)
                }
                let named = [page.last, page.first].compactMap(\.self).first { !$0.isEmpty }.map {
                    Int($0) ?? 0
                }
                let place = page.sent > 0 ? page.sent : named
                var (messages, places) = (Array(0..<page.sent).map { $0 + 1 }, [String?.none])
                if !["true", "1"].contains(page.complete), let place {
                    messages += Array(place + 1...4)
                    places += stride(from: place, to: 4, by: 2).map { "\($0)" }
                }
                #expect(asked == places)
                #expect(try fed.store.notes("message") == messages.map { "a\($0): \($0)" })
                #expect(try state(fed) == .complete)
            }
        }
    }

    /// The page after a message as it should be.
    private static func rest(after: Int) -> (ids: [String], fin: String) {
        let last = min(after + 2, 4)
        let page = Page(last: "\(last)", complete: last == 4 ? "true" : nil)
        return (Array(after + 1...last).map { "\($0)" }, page.fin)
    }

    private func state(_ fed: FedAccount) throws -> ArchiveProgress.State? {
        try fed.step { try fed.account.archive.progress(in: $0).first?.state }
    }

    /// Answers queries until none comes any more.
    ///
    /// - Parameter page: The ids and the end of a page, by its number and the id after which it is to start.
    /// - Returns: Those ids.
    private func answer(
        _ fed: FedAccount, _ archive: String?,
        _ page: (Int, String?, Element) throws -> (ids: [String], fin: String)
    ) throws -> [String?] {
        var asked: [String?] = []
        while asked.count < Self.limit {
            guard let request = try fed.takeSent().last, let query = request.firstElement else { break }
            let set = query.child("set", Namespaces.rsm)
            let after = (set?.child("after", Namespaces.rsm) ?? set?.child("before", Namespaces.rsm))?.text
            let (ids, fin) = try page(asked.count, after?.string, query)
            asked.append(after?.string)
            for id in ids { try fed.receive(Self.result(id, query["queryid"], of: archive)) }
            let from = archive.map { " from='\($0)'" } ?? ""
            let isError = fin.hasPrefix("<error")
            try fed.receive(
                "<iq type='\(isError ? "error" : "result")' id='\(request["id"] ?? "")'\(from)>\(fin)</iq>")
        }
        return asked
    }

    /// - Parameter id: An id in the archive; one that starts with `-` is left out.
    private static func result(_ id: String, _ query: ForeignText?, of archive: String?) -> String {
        let number = id.hasPrefix("-") ? String(id.dropFirst()) : id
        let from = archive.map { "\($0)/Romeo" } ?? "romeo@localhost/x"
        return """
            <message\(archive.map { " from='\($0)'" } ?? "") to='\(FedAccount.full)'>\
            <result xmlns='\(Namespaces.mam)' queryid='\(query ?? "")'\(id.hasPrefix("-") ? "" : " id='\(id)'")>\
            <forwarded xmlns='\(Namespaces.forward)'>\
            <delay xmlns='\(Namespaces.delay)' stamp='2026-01-01T00:00:0\(number.suffix(1))Z'/>\
            <message xmlns='jabber:client' from='\(from)' to='\(FedAccount.own)' id='a\(number)' \
            type='\(archive == nil ? "chat" : "groupchat")'><body>\(number)</body></message>\
            </forwarded></result></message>
            """
    }

    // MARK: Places

    private static let notFound =
        "<error type='cancel'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"
    private static let badRequest =
        "<error type='modify'><bad-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"

    @Test(
        "X32 a server that ends each catch-up by naming the place once more is caught up with, in each session"
    )
    func echo() async throws {
        try await withFed(ArchiveModule(pageSize: 2, history: nil)) { fed in
            for session in 0..<3 {
                try fed.step { try fed.account.archive.catchUp(JID(FedAccount.own), in: $0) }
                let asked = try answer(fed, nil) { _, after, _ in
                    let place = Int(after ?? "0") ?? 0
                    let ids = place < session + 1 ? ["\(place + 1)"] : []
                    return (ids, Page(last: ids.last ?? after, hasCount: true).fin)
                }
                #expect(asked.count == 2)
                #expect(try state(fed) == .complete)
            }
            #expect(try fed.store.notes("message") == ["a1: 1", "a2: 2", "a3: 3"])
        }
    }

    @Test(
        "X32 an empty page that names a place which the archive then denies ends the catch-up, in each session"
    )
    func deniedPlace() async throws {
        try await withFed(ArchiveModule(pageSize: 2, history: nil)) { fed in
            for session in 0..<3 {
                try fed.step { try fed.account.archive.catchUp(JID(FedAccount.own), in: $0) }
                let asked = try answer(fed, nil) { _, after, _ in
                    after == nil ? ([], Page(last: "7").fin) : ([], Self.notFound)
                }
                #expect(asked == (session == 0 ? [nil, "7"] : ["7", nil, "7"]))
                #expect(try state(fed) == .failed)
            }
        }
    }

    @Test(
        "X32 a place that a server does not understand any more is forgotten, and the archive asked by time",
        arguments: [notFound, badRequest])
    func unknownPlace(error: String) async throws {
        try await withFed(ArchiveModule(pageSize: 4, history: nil)) { fed in
            try fed.step { try fed.account.archive.catchUp(JID(FedAccount.own), in: $0) }
            _ = try answer(fed, nil) { _, _, _ in (["1", "2"], Page(complete: "true").fin) }
            try fed.step { try fed.account.archive.catchUp(JID(FedAccount.own), in: $0) }
            let asked = try answer(fed, nil) { _, after, _ in
                after == nil ? (["1", "2", "3"], Page(complete: "true").fin) : ([], error)
            }
            #expect(asked == ["2", nil])
            #expect(try fed.store.notes("message") == ["a1: 1", "a2: 2", "a3: 3"])
            #expect(try state(fed) == .complete)
        }
    }

    @Test("X32 a message without an id in the archive is passed over by the end of its page")
    func withoutID() async throws {
        try await withFed(ArchiveModule(pageSize: 2, history: nil)) { fed in
            try fed.step { try fed.account.archive.catchUp(JID(FedAccount.own), in: $0) }
            let asked = try answer(fed, nil) { turn, after, _ in
                turn == 0 ? (["1", "-2"], Page(last: "2").fin) : Self.rest(after: Int(after ?? "0") ?? 0)
            }
            #expect(asked == [nil, "2"])
            #expect(try fed.store.notes("message") == ["a1: 1", "a3: 3", "a4: 4"])
        }
    }

    @Test(
        "X32 a page that repeats what is known, or names nothing that can be asked for, is given up",
        arguments: [
            (["1", "2"], Page(hasSet: false)),
            ([String(repeating: "9", count: 1025)], Page(last: String(repeating: "9", count: 1025))),
        ])
    func repeated(ids: [String], page: Page) async throws {
        try await withFed(ArchiveModule(pageSize: 2, history: nil)) { fed in
            try fed.step { try fed.account.archive.catchUp(JID(FedAccount.own), in: $0) }
            let asked = try answer(fed, nil) { turn, _, _ in
                turn == 0 ? (["1", "2"], Page(hasSet: false).fin) : (ids, page.fin)
            }
            #expect(asked == [nil, "2"])
            #expect(try state(fed) == .failed)
        }
    }

    // MARK: Looking back

    @Test(
        "X32 a look back names the ends of its page, by its messages where the server does not, and whether it leads on",
        arguments: [
            (Page(sent: 2), "last 2 isLast false"), (Page(hasSet: false, sent: 2), "last 2 isLast false"),
            (Page(first: "1", last: "2", sent: 2), "last 2 isLast false"),
            (Page(first: "1", last: "2", complete: "true", sent: 2), "last 2 isLast true"),
            (Page(), "last - isLast true"), (Page(hasSet: false), "last - isLast true"),
            (Page(last: "5"), "last 5 isLast false"), (Page(last: "9"), "last 9 isLast true"),
            (Page(first: "5"), "last 5 isLast false"), (Page(last: ""), "last - isLast true"),
        ] as [(Page, String)])
    func lookBack(page: Page, expected: String) async throws {
        try await withFed(ArchiveModule()) { fed in
            try fed.step { step in
                try fed.account.archive.fetch(.before("9"), then: ModulesApp.PageSeen().durable, in: step)
            }
            let ids = Array(0..<page.sent).map { "\($0 + 1)" }
            #expect(try answer(fed, nil) { _, _, _ in (ids, page.fin) } == ["9"])
            #expect(try fed.store.notes("page") == ["\(FedAccount.own): \(expected)"])
        }
    }

    @Test("X37 an archived message without a sender or a recipient is the account's own")
    func absentAddresses() async throws {
        try await withFed(ArchiveModule(history: nil)) { fed in
            try fed.step { try fed.account.archive.catchUp(JID(FedAccount.own), in: $0) }
            let query = try #require(try fed.takeSent().last?.firstElement?["queryid"])
            for (id, absent) in [("1", " from='romeo@localhost/x'"), ("2", " to='\(FedAccount.own)'")] {
                try fed.receive(Self.result(id, query, of: nil).replacing(absent, with: ""))
            }
            #expect(try fed.store.notes("kind") == ["a1: history of its own", "a2: history"])
        }
    }
}
