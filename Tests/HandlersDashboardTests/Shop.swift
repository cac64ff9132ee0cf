import Foundation
import Handlers
import HandlersDashboard
import HandlersTestKit
import Synchronization

/// Fails always, and is quarantined.
struct Refuse: Handler {
    static let id = "shop.refuse"
    static let retry = RetryPolicy(attempts: 1)
    var order: Int
    var token = Secret("swordfish")

    func run(_ call: borrowing Call<TimerFired>) throws { throw CocoaError(.fileNoSuchFile) }
}

struct Pay: Handler {
    static let id = "shop.pay"
    var note: String

    func run(_ call: borrowing Call<SignalReceived<Int>>) throws {}
}

/// A store with a page over it.
final class Shop: Sendable {
    enum Caller { case viewer, `operator`, sessions }

    let test: TestStore
    let sessions: DashboardSessions
    private let dashboard: Dashboard
    static let host = "127.0.0.1:8377"

    init(_ test: TestStore, _ caller: Caller) {
        self.test = test
        let sessions = DashboardSessions(time: test.clock.timeSource)
        self.sessions = sessions
        let (path, time) = (test.path, test.clock.timeSource)
        dashboard = Dashboard(
            reader: { StoreReader(path: path, time: time) }, writer: { test.store }, hosts: [Self.host],
            access: { request in
                switch caller {
                case .viewer: .viewer(name: "vic")
                case .operator: .operator("ada")
                case .sessions: sessions.admits(request.header("Authorization")) ? .viewer(name: nil) : .none
                }
            }, sessions: sessions)
    }

    func respond(
        _ method: String, _ target: String, _ headers: [String: String] = [:], body: String = ""
    ) -> DashboardResponse {
        var all = ["Host": Self.host]
        if method == "POST" { all["Content-Type"] = "application/json" }
        return dashboard.respond(
            to: DashboardRequest(
                method, target, headers: all.merging(headers) { _, new in new }, body: Array(body.utf8)))
    }

    func get(_ answer: String) -> DashboardResponse { respond("GET", "/api/v1/" + answer) }

    func change(_ path: String, _ body: JSONValue, _ headers: [String: String] = [:]) -> DashboardResponse {
        let text = try? JSONEncoder().encode(body)
        return respond(
            "POST", "/api/v1/" + path, headers, body: String(decoding: text ?? Data(), as: UTF8.self))
    }

    func open(_ code: String) -> DashboardResponse { change("session", ["code": .string(code)]) }

    /// Has a handler fail for good.
    func quarantine(order: Int = 1) async throws -> HandlerID<TimerFired> {
        let id = try test.store.step { try $0.schedule(Refuse(order: order).durable, after: .zero) }
        _ = try await test.runDue()
        return id
    }
}

func withShop<R>(_ caller: Shop.Caller = .operator, _ body: (Shop) async throws -> R) async throws -> R {
    try await withTestStore(registry: HandlerRegistry([Refuse.self, Pay.self])) { test in
        try await body(Shop(test, caller))
    }
}

extension DashboardResponse {
    var json: JSONValue { (try? JSONDecoder().decode(JSONValue.self, from: Data(body))) ?? .null }
}

extension JSONValue {
    subscript(_ name: String) -> JSONValue? {
        if case .object(let members) = self { members[name] } else { nil }
    }
    subscript(_ index: Int) -> JSONValue? {
        if case .array(let items) = self, items.indices.contains(index) { items[index] } else { nil }
    }
    var text: String? { if case .string(let text) = self { text } else { nil } }
    var items: [JSONValue] { if case .array(let items) = self { items } else { [] } }
}
