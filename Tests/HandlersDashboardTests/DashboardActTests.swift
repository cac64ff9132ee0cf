import Handlers
import HandlersDashboard
import HandlersTestKit
import TestThreads
import Testing

@Suite(.ownThread, .timeLimit(.minutes(1))) struct DashboardActTests {
    @Test("H29 a viewer changes nothing, whatever the page would show", arguments: DashboardAction.allCases)
    func viewer(_ action: DashboardAction) async throws {
        try await withShop(.viewer) { shop in
            let id = try await shop.quarantine()
            let response: DashboardResponse =
                switch action {
                case .signal: shop.change("signals", ["key": "paid", "value": 1])
                case .pauseLane: shop.change("lanes/mail", ["action": "pause"])
                case .resumeLane: shop.change("lanes/mail", ["action": "resume"])
                case .limitLane: shop.change("lanes/mail", ["action": "limit", "concurrency": 1])
                default:
                    shop.change(
                        "repairs",
                        ["action": .string(action.rawValue), "rows": [.string("\(id)")], "expect": 1])
                }
            #expect(response.status == 403)
            #expect(response.json["error"]?["code"] == "not-allowed")
            #expect(shop.get("summary").json["actions"] == [])
            let (status, repairs) = try shop.test.store.read { (try $0.status(of: id), try $0.repairs()) }
            #expect(status?.state == .quarantined)
            #expect(repairs.isEmpty)
        }
    }

    @Test("H29 chosen handlers are requeued in one step with the name and the reason of the person")
    func requeueRows() async throws {
        try await withShop { shop in
            let ids = [try await shop.quarantine(order: 1), try await shop.quarantine(order: 2)]
            let response = shop.change(
                "repairs",
                [
                    "action": "requeue", "rows": .array(ids.map { .string("\($0)") }), "expect": 2,
                    "because": "the service is back",
                ])
            #expect(response.json["repaired"] == 2)
            let repairs = shop.get("repairs").json["rows"]?.items ?? []
            #expect(repairs.count == 2)
            #expect(repairs.first?["by"] == "ada" && repairs.first?["way"] == "dashboard")
            #expect(repairs.first?["because"] == "the service is back")
            #expect(repairs.first?["stateBefore"] == "quarantined")
            #expect(shop.get("handlers?state=quarantined").json["rows"] == [])
        }
    }

    @Test("H29 of chosen handlers all are changed or none")
    func allOrNone() async throws {
        try await withShop { shop in
            let id = try await shop.quarantine()
            let response = shop.change(
                "repairs", ["action": "discard", "rows": [.string("\(id)"), "999"], "expect": 2])
            #expect(response.status == 409)
            #expect(try shop.test.store.read { try $0.status(of: id) } != nil)
            #expect(try shop.test.store.read { try $0.repairs() }.isEmpty)
        }
    }

    @Test("H29 a filter changes only as many handlers as the person saw")
    func expect() async throws {
        try await withShop { shop in
            for order in 1...3 { _ = try await shop.quarantine(order: order) }
            let counted = shop.get("count?action=requeue&name=shop.*").json
            #expect(counted["count"] == 3 && counted["isComplete"] == true)
            #expect(counted["first"]?[0]?["handler"] == "shop.refuse")
            _ = try await shop.quarantine(order: 4)
            let change: JSONValue = ["action": "requeue", "filter": ["name": "shop.*"], "expect": 3]
            let refused = shop.change("repairs", change)
            #expect(refused.status == 409)
            #expect(refused.json["error"]?["code"] == "other-count")
            #expect(shop.get("summary").json["counts"]?["quarantined"] == 4)
            let done = shop.change(
                "repairs", ["action": "requeue", "filter": ["name": "shop.*"], "expect": 4])
            #expect(done.json["repaired"] == 4 && done.json["next"] == .null)
        }
    }

    @Test("H29 more than ten handlers are changed only with a reason")
    func reason() async throws {
        try await withShop { shop in
            for order in 1...11 { _ = try await shop.quarantine(order: order) }
            let filter: JSONValue = ["state": "quarantined"]
            let bare = shop.change("repairs", ["action": "discard", "filter": filter, "expect": 11])
            #expect(bare.status == 400)
            #expect(bare.json["error"]?["code"] == "no-reason")
            let empty = shop.change(
                "repairs", ["action": "discard", "filter": filter, "expect": 11, "because": ""])
            #expect(empty.status == 400)
            let done = shop.change(
                "repairs",
                ["action": "discard", "filter": filter, "expect": 11, "because": "they were tests"])
            #expect(done.json["repaired"] == 11)
        }
    }

    @Test("H29 a lane is paused, resumed and limited, and its page says so")
    func lane() async throws {
        try await withShop { shop in
            #expect(
                shop.change("lanes/mail", ["action": "pause", "because": "it moves"]).json["lane"]?[
                    "isPaused"] == true)
            #expect(shop.get("summary").json["lanes"]?[0]?["lane"] == "mail")
            #expect(shop.change("lanes/mail", ["action": "resume"]).json["lane"]?["isPaused"] == false)
            let limited = shop.change(
                "lanes/mail",
                ["action": "limit", "concurrency": 4, "rateCount": 100, "rateMilliseconds": 60_000])
            #expect(limited.json["lane"]?["concurrency"] == 4)
            #expect(shop.get("lanes/mail").json["lane"]?["rateMilliseconds"] == 60_000)
            #expect(shop.change("lanes/mail", ["action": "limit", "rateCount": 1]).status == 400)
            #expect(shop.change("lanes/mail", ["action": "limit", "concurrency": 0]).status == 400)
            let actions = try shop.test.store.read { try $0.repairs() }.map(\.action)
            #expect(actions == ["limit-lane", "resume-lane", "pause-lane"])
        }
    }

    @Test("H29 a signal calls the handler with its key")
    func signal() async throws {
        try await withShop { shop in
            let id = try shop.test.store.step { try $0.bind(Pay(note: "n").durable, key: "paid") }
            #expect(shop.change("signals", ["key": "paid", "value": 7]).status == 200)
            #expect(try shop.test.store.read { try $0.ending(of: id) }?.outcome == .result)
            #expect(shop.change("signals", ["key": "paid"]).status == 400)
        }
    }

    @Test(
        "H29 a change that is no change of ours is refused with a sentence",
        arguments: [
            "", "[]", "{", "{\"action\":\"drop\"}", "{\"action\":\"discard\",\"expect\":1}",
            "{\"action\":\"discard\",\"rows\":[1],\"expect\":1}",
            "{\"action\":\"discard\",\"rows\":[],\"expect\":0}",
            "{\"action\":\"discard\",\"rows\":[\"1\"]}",
            "{\"action\":\"discard\",\"filter\":{\"name\":1},\"expect\":1}",
            "{\"action\":\"discard\",\"filter\":{\"state\":\"lost\"},\"expect\":1}",
        ])
    func faulty(_ body: String) async throws {
        try await withShop { shop in
            let id = try await shop.quarantine()
            let response = shop.respond("POST", "/api/v1/repairs", body: body)
            #expect(response.status == 400)
            #expect(response.json["error"]?["message"]?.text?.isEmpty == false)
            #expect(try shop.test.store.read { try $0.status(of: id) } != nil)
        }
    }
}
