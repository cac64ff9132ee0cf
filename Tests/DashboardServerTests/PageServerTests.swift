import DashboardServer
import Foundation
import Glibc
import Handlers
import HandlersDashboard
import HandlersTestKit
import TestThreads
import Testing

/// Fails always, and is quarantined.
private struct Refuse: Handler {
    static let id = "shop.<img src=x onerror=document.title=1>"
    static let retry = RetryPolicy(attempts: 1)
    var order: Int

    func run(_ call: borrowing Call<TimerFired>) throws { throw CocoaError(.fileNoSuchFile) }
}

/// A page that is served over a store with a handler that failed.
private func withPage<R>(_ body: (UInt16, DashboardSessions) throws -> R) async throws -> R {
    try await withTestStore(registry: HandlerRegistry([Refuse.self])) { test in
        try test.store.step { _ = try $0.schedule(Refuse(order: 7).durable, after: .zero) }
        _ = try await test.runDue()
        let sessions = DashboardSessions()
        let socket = try ListeningSocket(0)
        let path = test.path
        let dashboard = Dashboard(
            reader: { StoreReader(path: path) }, hosts: ["127.0.0.1:\(socket.port)"],
            access: { sessions.admits($0.header("Authorization")) ? .viewer(name: nil) : .none },
            sessions: sessions)
        let server = try PageServer(socket, dashboard)
        defer { server.close() }
        return try body(socket.port, sessions)
    }
}

/// Sends bytes to a port and returns what comes back until the server ends the connection.
private func exchange(_ request: String, _ port: UInt16) -> String {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    let isConnected = withUnsafePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
        }
    }
    guard isConnected else { return "" }
    let bytes = Array(request.utf8)
    var sent = 0
    while sent < bytes.count {
        let count = bytes[sent...].withUnsafeBytes {
            send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
        }
        if count <= 0 { break }
        sent += count
    }
    var (answer, piece) = ([UInt8](), [UInt8](repeating: 0, count: 65_536))
    while case let count = recv(descriptor, &piece, piece.count, 0), count > 0 { answer += piece[..<count] }
    return String(decoding: answer, as: UTF8.self)
}

@Suite(.ownThread, .timeLimit(.minutes(2))) struct PageServerTests {
    private func get(_ target: String, _ port: UInt16, _ more: String = "", host: String? = nil) -> String {
        exchange(
            "GET \(target) HTTP/1.1\r\nHost: \(host ?? "127.0.0.1:\(port)")\r\nConnection: close\r\n\(more)\r\n",
            port)
    }

    private func post(_ body: String, _ port: UInt16) -> String {
        let head = [
            "POST /api/v1/session HTTP/1.1", "Host: 127.0.0.1:\(port)", "Connection: close",
            "Content-Type: application/json", "Content-Length: \(body.utf8.count)",
        ]
        return exchange(head.joined(separator: "\r\n") + "\r\n\r\n" + body, port)
    }

    @Test("H29 the server hands over address, headers and body as they were sent")
    func requests() async throws {
        try await withPage { port, sessions in
            #expect(get("/", port).hasPrefix("HTTP/1.1 200"))
            #expect(get("/", port).contains("require-trusted-types-for 'script'"))
            #expect(get("/", port, host: "evil.example").hasPrefix("HTTP/1.1 421"))
            #expect(get("/api/v1/summary", port).hasPrefix("HTTP/1.1 401"))
            #expect(get("/api/v1/summary", port, "Origin: http://evil.example\r\n").hasPrefix("HTTP/1.1 403"))
            // A slash in a part of the address stays in its part.
            #expect(get("/lanes/a%2Fb", port).hasPrefix("HTTP/1.1 200"))
            #expect(get("/lanes/a/b", port).hasPrefix("HTTP/1.1 404"))
            let body = "{\"code\":\"\(sessions.makeCode())\"}"
            let opened = post(body, port)
            let token = try #require(opened.firstMatch(of: /"token":"([0-9a-f]{64})"/)?.1)
            let found = get("/api/v1/handlers?state=quarantined", port, "Authorization: Bearer \(token)\r\n")
            #expect(found.hasPrefix("HTTP/1.1 200") && found.contains("\"order\":7"))
        }
    }

    @Test("H29 a body above the limit and a head above the limit are refused, and the server goes on")
    func sizes() async throws {
        try await withPage { port, _ in
            let large = String(repeating: "x", count: Dashboard.longestBody + 100_000)
            let answer = post(large, port)
            #expect(answer.hasPrefix("HTTP/1.1 413"))
            let head = get("/", port, "X-Long: \(String(repeating: "x", count: 65_536))\r\n")
            #expect(!head.hasPrefix("HTTP/1.1 200"))
            #expect(get("/", port).hasPrefix("HTTP/1.1 200"))
        }
    }

    @Test("H29 a browser opens the page with its code, sees what failed, and nothing in it runs")
    func browser() async throws {
        try await withPage { port, sessions in
            let folder = FileManager.default.temporaryDirectory.appending(component: "browser-\(UUID())")
            defer { try? FileManager.default.removeItem(at: folder) }
            let process = Process()
            process.executableURL = URL(filePath: "/usr/bin/chromium")
            process.arguments = [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-background-networking", "--user-data-dir=\(folder.path)",
                "--virtual-time-budget=8000", "--dump-dom",
                "http://127.0.0.1:\(port)/#code=\(sessions.makeCode())",
            ]
            let output = Pipe()
            process.standardOutput = output
            process.standardError = FileHandle.nullDevice
            try process.run()
            let page = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
            process.waitUntilExit()
            #expect(page.contains("1 thing needs a look"), "\(page.suffix(3000))")
            #expect(page.contains("1 quarantined"))
            #expect(page.contains("shop.&lt;img src=x onerror=document.title=1&gt;"))
            #expect(page.contains("<title>Overview – Handlers</title>"))
            #expect(!page.contains("<img"))
        }
    }
}
