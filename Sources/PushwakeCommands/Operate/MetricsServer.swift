import Glibc
import XMPPCore

/// Answers HTTP requests for metrics, one after the other: a scraper comes every few seconds.
package struct MetricsServer {
    private let socket: Int32
    /// The port on which it listens.
    package let port: UInt16
    private let text: () throws -> String
    /// The largest head of a request, and the seconds for which a client may take to send it, or to read the answer.
    private static let (mostBytes, patience) = (16 << 10, 5)

    /// Listens on an address of IPv4. It has no encryption and asks for no password, so an address that others reach is for a proxy.
    ///
    /// - Parameters:
    ///   - port: The port; 0 for any.
    ///   - text: Makes the answer.
    /// - Throws: ``CommandFailure`` when the address cannot be used.
    package init(_ host: String, _ port: UInt16, _ text: @escaping () throws -> String) throws {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        guard inet_pton(AF_INET, host, &address.sin_addr) == 1 else {
            throw UsageError("--listen takes an address of IPv4 such as 127.0.0.1, not '\(host)'")
        }
        socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var one: Int32 = 1
        setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &one, socklen_t(MemoryLayout<Int32>.size))
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let (socket, length) = (socket, size)
        let isBound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(socket, $0, length) == 0 }
        }
        guard socket >= 0, isBound, listen(socket, 16) == 0 else {
            let reason = String(cString: strerror(errno))
            if socket >= 0 { close(socket) }
            throw CommandFailure("\(host):\(port) cannot be listened on: \(reason)")
        }
        withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { _ = getsockname(socket, $0, &size) }
        }
        self.port = UInt16(bigEndian: address.sin_port)
        self.text = text
    }

    /// Answers requests until the process ends.
    package func run() throws -> Int32 {
        Terminal.writeError("answers GET /metrics on port \(port)\n")
        while true { answerNext() }
    }

    /// Waits for a client and answers it.
    package func answerNext() {
        let client = accept(socket, nil, nil)
        guard client >= 0 else { return }
        defer { close(client) }
        var time = timeval(tv_sec: Self.patience, tv_usec: 0)
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            setsockopt(client, SOL_SOCKET, option, &time, socklen_t(MemoryLayout<timeval>.size))
        }
        guard let request = Self.head(from: client) else { return }
        let (status, body) = answer(request)
        let head =
            "HTTP/1.1 \(status)\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: \(body.utf8.count)\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
        var bytes = Array((head + (request.hasPrefix("HEAD ") ? "" : body)).utf8)[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes {
                send(client, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return }
            bytes = bytes.dropFirst(count)
        }
    }

    private func answer(_ request: String) -> (status: String, body: String) {
        let words = request.split(separator: " ", maxSplits: 2)
        guard words.count == 3, ["GET", "HEAD"].contains(words[0]) else {
            return ("405 Method Not Allowed", "only GET and HEAD\n")
        }
        guard words[1] == "/metrics" || words[1].hasPrefix("/metrics?") else {
            return ("404 Not Found", "the metrics are at /metrics\n")
        }
        do {
            return ("200 OK", try text())
        } catch {
            return ("503 Service Unavailable", VisibleText("\(error)").description + "\n")
        }
    }

    /// The first line of a request, once its head is complete; nil for one that is too long or does not come.
    private static func head(from client: Int32) -> String? {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 2048)
        while bytes.count < mostBytes {
            let count = chunk.withUnsafeMutableBytes { recv(client, $0.baseAddress, $0.count, 0) }
            guard count > 0 else { return nil }
            bytes += chunk.prefix(count)
            let text = String(decoding: bytes, as: UTF8.self)
            if text.contains("\r\n\r\n") || text.contains("\n\n") {
                return text.split(whereSeparator: \.isNewline).first.map(String.init)
            }
        }
        return nil
    }
}
