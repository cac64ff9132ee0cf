import Handlers
import HandlersDashboard
import HandlersTestKit
import TestThreads
import Testing

@Suite(.ownThread, .timeLimit(.minutes(1))) struct DashboardGuardTests {
    @Test(
        "H29 a page is served under its own names only, so a foreign name that leads here reads nothing",
        arguments: ["evil.example", "evil.example:8377", "127.0.0.1", "127.0.0.1:8378", ""])
    func host(_ name: String) async throws {
        try await withShop { shop in
            #expect(shop.get("summary").status == 200)
            #expect(shop.respond("GET", "/api/v1/summary", ["Host": name]).status == 421)
            #expect(shop.respond("GET", "/", ["Host": name]).status == 421)
        }
    }

    @Test(
        "H29 another origin gets nothing and changes nothing, also one on another port",
        arguments: [
            ["Origin": "http://evil.example"], ["Origin": "http://127.0.0.1:9"], ["Origin": "null"],
            ["Sec-Fetch-Site": "cross-site"], ["Sec-Fetch-Site": "same-site"],
        ])
    func origin(_ headers: [String: String]) async throws {
        try await withShop { shop in
            #expect(shop.respond("GET", "/api/v1/summary", headers).status == 403)
            let id = try await shop.quarantine()
            let response = shop.change(
                "repairs", ["action": "discard", "rows": [.string("\(id)")], "expect": 1], headers)
            #expect(response.status == 403)
            #expect(try shop.test.store.read { try $0.status(of: id) } != nil)
        }
    }

    @Test("H29 nobody is told that other origins may ask, and only GET, HEAD and POST are served")
    func methods() async throws {
        try await withShop { shop in
            #expect(shop.respond("OPTIONS", "/api/v1/summary").status == 403)
            for method in ["PUT", "DELETE", "TRACE", "CONNECT"] {
                #expect(shop.respond(method, "/api/v1/summary").status == 405)
            }
            let response = shop.respond("POST", "/api/v1/repairs", ["Content-Type": "text/plain"], body: "{}")
            #expect(response.status == 415)
            let answers = [response, shop.get("summary"), shop.respond("GET", "/")]
            #expect(answers.allSatisfy { $0.header("Access-Control-Allow-Origin") == nil })
            #expect(answers.allSatisfy { $0.header("Set-Cookie") == nil })
            #expect(answers.allSatisfy { $0.header("Cache-Control") == "no-store" })
        }
    }

    @Test("H29 a change of more than 64 KiB, and an address of more than 8 KiB, are refused")
    func sizes() async throws {
        try await withShop { shop in
            let large = String(repeating: " ", count: Dashboard.longestBody) + "{}"
            #expect(shop.respond("POST", "/api/v1/repairs", body: large).status == 413)
            let address = "/api/v1/handlers?name=" + String(repeating: "a", count: 8192)
            #expect(shop.respond("GET", address).status == 414)
        }
    }

    @Test("H29 a code opens one session within a minute, and no second one")
    func codes() async throws {
        try await withShop(.sessions) { shop in
            #expect(shop.get("summary").status == 401)
            let code = shop.sessions.makeCode()
            let token = try #require(shop.open(code).json["token"]?.text)
            #expect(
                shop.respond("GET", "/api/v1/summary", ["Authorization": "Bearer \(token)"]).status == 200)
            #expect(
                shop.respond("GET", "/api/v1/summary", ["Authorization": "Bearer \(token)0"]).status == 401)
            #expect(shop.respond("GET", "/api/v1/summary", ["Cookie": "token=\(token)"]).status == 401)
            #expect(shop.open(code).status == 401)
            let late = shop.sessions.makeCode()
            shop.test.clock.advance(by: .seconds(61))
            #expect(shop.open(late).status == 401)
        }
    }

    @Test("H29 a session ends after twelve hours without a request, and a request prolongs it")
    func sessionLife() async throws {
        try await withShop(.sessions) { shop in
            let token = try #require(shop.open(shop.sessions.makeCode()).json["token"]?.text)
            let header = ["Authorization": "Bearer \(token)"]
            for _ in 0..<3 {
                shop.test.clock.advance(by: .seconds(11 * 3600))
                #expect(shop.respond("GET", "/api/v1/summary", header).status == 200)
            }
            shop.test.clock.advance(by: .seconds(12 * 3600 + 1))
            #expect(shop.respond("GET", "/api/v1/summary", header).status == 401)
        }
    }

    @Test("H29 after ten wrong codes in a minute even the right one is refused, until the minute is over")
    func guesses() async throws {
        try await withShop(.sessions) { shop in
            let code = shop.sessions.makeCode()
            for guess in 0..<10 { #expect(shop.open("\(guess)").status == 401) }
            let refused = shop.open(code)
            #expect(refused.status == 429)
            #expect(refused.header("Retry-After") == "60")
            shop.test.clock.advance(by: .seconds(61))
            #expect(shop.open(shop.sessions.makeCode()).status == 200)
        }
    }

    @Test("H29 the policy of the page lets nothing run but its own files, which have no markup in a script")
    func policy() async throws {
        try await withShop { shop in
            let page = shop.respond("GET", "/handlers/12")
            #expect(page.status == 200)
            let policy = try #require(page.header("Content-Security-Policy"))
            for part in [
                "default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "trusted-types 'none'",
                "require-trusted-types-for 'script'", "base-uri 'none'", "form-action 'none'",
            ] {
                #expect(policy.contains(part))
            }
            #expect(!policy.contains("unsafe"))
            let html = String(decoding: page.body, as: UTF8.self)
            #expect(!html.contains("<style") && !html.contains(" style=") && !html.contains("<script>"))
            #expect(!html.contains("%ROOT%"))
            let files = ["acts", "charts", "core", "handler", "live", "main", "pages"].map {
                "/assets/\($0).js"
            }
            var size = page.body.count
            for file in files + ["/assets/dashboard.css", "/assets/dashboard.svg"] {
                let response = shop.respond("GET", file)
                #expect(response.status == 200, "\(file)")
                size += response.body.count
                let text = String(decoding: response.body, as: UTF8.self)
                    .replacing("http://www.w3.org/2000/svg", with: "")
                for danger in [
                    "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "http://",
                    "https://",
                ] {
                    #expect(!text.contains(danger), "\(file) \(danger)")
                }
            }
            #expect(size <= 150 * 1024)
            #expect(shop.respond("GET", "/assets/../Package.swift").status == 404)
            #expect(shop.respond("GET", "/assets/%2e%2e%2fPackage.swift").status == 404)
        }
    }
}
