import Handlers
import HandlersDashboard
import HandlersTestKit
import TestThreads
import Testing

@Suite(.ownThread, .timeLimit(.minutes(1))) struct DashboardAnswerTests {
    private static let answers = [
        "summary", "activity", "activity?since=7d", "handlers", "timers", "lanes", "lanes/mail", "nodes",
        "accounts",
        "events", "repairs", "count?action=requeue",
    ]

    @Test("H29 each answer of an empty store is complete, and empty", arguments: answers)
    func empty(_ answer: String) async throws {
        try await withShop { shop in
            let response = shop.get(answer)
            #expect(response.status == 200, "\(response.json)")
            #expect(response.json["format"] == 1)
            #expect(response.json["at"]?.text?.hasSuffix("Z") == true)
            #expect(response.json["rows"]?.items.isEmpty ?? true || answer == "nodes")
        }
    }

    @Test("H29 what has not changed is not sent again, and what has changed is")
    func tag() async throws {
        try await withShop { shop in
            let first = shop.get("handlers")
            let tag = try #require(first.header("ETag"))
            let same = shop.respond("GET", "/api/v1/handlers", ["If-None-Match": tag])
            #expect(same.status == 304 && same.body.isEmpty)
            #expect(same.header("X-Store-Time") != nil)
            _ = try shop.test.store.step { try $0.bind(Pay(note: "n").durable) }
            #expect(shop.respond("GET", "/api/v1/handlers", ["If-None-Match": tag]).status == 200)
        }
    }

    @Test(
        "H29 the overview names what is broken, and a handler says why, what it failed with and who changed it"
    )
    func broken() async throws {
        try await withShop { shop in
            let id = try await shop.quarantine(order: 1003)
            let summary = shop.get("summary").json
            #expect(summary["broken"]?[0]?["state"] == "quarantined" && summary["broken"]?[0]?["count"] == 1)
            #expect(summary["broken"]?[0]?["names"]?[0]?["handler"] == "shop.refuse")
            let page = shop.get("handlers/\(id)").json
            #expect(page["handler"]?["state"] == "quarantined")
            #expect(page["handler"]?["why"]?.text?.hasPrefix("waits for a person") == true)
            #expect(page["handler"]?["arguments"]?["order"] == 1003)
            #expect(page["failures"]?[0]?["attempt"] == 1)
            _ = shop.change("repairs", ["action": "discard", "rows": [.string("\(id)")], "expect": 1])
            let ended = shop.get("handlers/\(id)").json
            #expect(ended["handler"] == .null)
            #expect(ended["ending"]?["outcome"] == "invalidated" && ended["ending"]?["reason"] == "discarded")
            #expect(ended["repairs"]?[0]?["action"] == "discard")
            #expect(shop.get("chains/\(id)").json["rows"]?[0]?["outcome"] == "invalidated")
        }
    }

    @Test("H29 no answer holds a secret")
    func secrets() async throws {
        try await withShop { shop in
            let id = try await shop.quarantine()
            for answer in Self.answers + ["handlers/\(id)", "chains/\(id)", "handlers?name=shop.*"] {
                let body = String(decoding: shop.get(answer).body, as: UTF8.self)
                #expect(!body.contains("swordfish"), "\(answer)")
            }
            #expect(shop.get("handlers/\(id)").json["handler"]?["arguments"]?["token"] == "<secret>")
        }
    }

    @Test("H29 filters in the address find by state, name, key, argument and age")
    func filters() async throws {
        try await withShop { shop in
            let id = try await shop.quarantine(order: 1003)
            let other = try shop.test.store.step { try $0.bind(Pay(note: "a b").durable, key: "paid-1") }
            func rows(_ query: String) -> [String?] {
                shop.get("handlers?" + query).json["rows"]?.items.map { $0["row"]?.text } ?? []
            }
            #expect(rows("state=quarantined") == ["\(id)"])
            #expect(rows("name=shop.p*") == ["\(other)"])
            #expect(rows("key=paid-1") == ["\(other)"])
            #expect(rows("arg.order=1003") == ["\(id)"])
            #expect(rows("arg.note=a+b") == ["\(other)"])
            #expect(rows("arg.note=a%20b") == ["\(other)"])
            #expect(rows("chain=\(id)") == ["\(id)"])
            #expect(rows("limit=1&after=\(id)") == ["\(other)"])
            #expect(rows("older=1h") == [])
            shop.test.clock.advance(by: .seconds(7200))
            #expect(rows("older=1h").count == 2)
            for wrong in ["state=lost", "older=soon", "after=x", "chain=-1", "limit=many"] {
                #expect(shop.get("handlers?" + wrong).status == 400, "\(wrong)")
            }
        }
    }

    @Test("H29 a handler that failed is found after 20 000 others")
    func search() async throws {
        try await withShop { shop in
            try shop.test.store.step { step in
                for _ in 0...20_000 { _ = try step.bind(Pay(note: "").durable) }
            }
            let id = try await shop.quarantine()
            let rows = shop.get("handlers?state=quarantined").json["rows"]?.items
            #expect(rows?.map { $0["row"]?.text } == ["\(id)"])
        }
    }

    @Test("H29 a large argument is cut in lists and in the page of its handler, and hostile text stays text")
    func hostile() async throws {
        try await withShop { shop in
            let text =
                "</script><img src=x onerror=alert(1)>\u{202e}\u{0}\""
                + String(repeating: "x", count: 1 << 20)
            let id = try shop.test.store.step { try $0.bind(Pay(note: text).durable) }
            let list = shop.get("handlers")
            #expect(list.body.count < 2000)
            #expect(list.header("Content-Type")?.hasPrefix("application/json") == true)
            #expect(list.header("X-Content-Type-Options") == "nosniff")
            let page = shop.get("handlers/\(id)")
            #expect(page.body.count < 100_000)
            #expect(page.json["argumentBytes"] != .null)
        }
    }

    @Test("H29 what does not exist is not found, and not a page either")
    func missing() async throws {
        try await withShop { shop in
            for path in [
                "/api/v1/none", "/api/v2/summary", "/api/v1/handlers/x", "/api/v1/handlers/1/2",
                "/assets/none.js", "/none",
                "/api/v1/accounts/nobody@example.org", "/api/v1/handlers/%ff",
            ] {
                #expect(shop.respond("GET", path).status == 404, "\(path)")
            }
            for path in ["/", "/handlers", "/handlers/12", "/lanes/a%2Fb", "/repairs"] {
                #expect(shop.respond("GET", path).status == 200, "\(path)")
            }
        }
    }

    @Test("H29 activity of the last hour is counted by name, and drawn from parts of ten minutes")
    func activity() async throws {
        try await withShop { shop in
            _ = try await shop.quarantine()
            shop.test.clock.advance(by: .seconds(11))
            _ = try await shop.quarantine()
            let answer = shop.get("activity").json
            #expect(answer["rows"]?[0]?["handler"] == "shop.refuse")
            #expect(answer["series"]?.items.isEmpty == false)
            #expect(answer["periodMilliseconds"] == 600_000)
            #expect(shop.get("activity?since=1y").status == 400)
        }
    }

    @Test("H29 a store that cannot be read is said to be so, with a sentence")
    func unreadable() async throws {
        let dashboard = Dashboard(
            reader: { StoreReader(path: "/nowhere/app.db") }, hosts: [Shop.host],
            access: { _ in .viewer(name: nil) })
        let response = dashboard.respond(
            to: DashboardRequest("GET", "/api/v1/summary", headers: ["Host": Shop.host]))
        #expect(response.status == 503)
        #expect(response.json["error"]?["message"]?.text?.contains("/nowhere/app.db") == true)
    }
}
