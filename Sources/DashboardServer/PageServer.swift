internal import CMicrohttpd
package import HandlersDashboard

/// Serves a page with libmicrohttpd.
///
/// ```text
///  socket ─▶ address ─▶ Exchange ─▶ body, piece by piece ─▶ Dashboard ─▶ response ─▶ socket
/// ```
/// libmicrohttpd lends this object and each `Exchange` to its callbacks as pointers. It ends all threads before ``close()`` returns.
package final class PageServer {
    private let daemon: OpaquePointer
    private let dashboard: Unmanaged<PageContext>

    /// How many threads answer: each may read the store.
    private static let threads: UInt32 = 4
    /// The maximum number of connections.
    private static let connections: UInt32 = 64
    /// How long a connection may be silent, also in the middle of a request, in seconds.
    private static let silence: UInt32 = 10
    /// The maximum size of the head of a request in bytes.
    private static let head = 16_384

    /// - Throws: ``ServerFailure`` when libmicrohttpd does not start.
    package init(_ socket: ListeningSocket, _ dashboard: Dashboard) throws {
        let context = Unmanaged.passRetained(PageContext(dashboard))
        let daemon = dh_mhd_start(
            socket.descriptor, Self.threads, Self.connections, Self.silence, Self.head,
            { _, uri, _ in
                Unmanaged.passRetained(Exchange(uri.map { String(cString: $0) } ?? "/")).toOpaque()
            }, answerPage,
            { _, _, exchange, _ in
                guard let pointer = exchange?.pointee else { return }
                Unmanaged<Exchange>.fromOpaque(pointer).release()
                exchange?.pointee = nil
            }, context.toOpaque())
        guard let daemon else {
            context.release()
            throw ServerFailure(description: "the page cannot be served: libmicrohttpd did not start")
        }
        (self.daemon, self.dashboard) = (daemon, context)
    }

    package func close() {
        MHD_stop_daemon(daemon)
        dashboard.release()
    }
}

/// What the callbacks share.
private final class PageContext: Sendable {
    let dashboard: Dashboard
    init(_ dashboard: Dashboard) { self.dashboard = dashboard }
}

/// A request while it arrives. One thread at a time works on a connection.
private final class Exchange {
    let target: String
    var body: [UInt8] = []
    var isStarted = false
    init(_ target: String) { self.target = target }
}

/// The headers that ``Dashboard`` reads.
private let headers = [
    "Host", "Origin", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest", "Content-Type", "Authorization",
    "If-None-Match",
]

private func answerPage(
    _ context: UnsafeMutableRawPointer?, _ connection: OpaquePointer?, _ url: UnsafePointer<CChar>?,
    _ method: UnsafePointer<CChar>?, _ version: UnsafePointer<CChar>?, _ data: UnsafePointer<CChar>?,
    _ size: UnsafeMutablePointer<Int>?, _ exchange: UnsafeMutablePointer<UnsafeMutableRawPointer?>?
) -> MHD_Result {
    guard let context, let connection, let method, let size, let pointer = exchange?.pointee else {
        return dh_mhd_no
    }
    let exchange = Unmanaged<Exchange>.fromOpaque(pointer).takeUnretainedValue()
    if !exchange.isStarted {
        exchange.isStarted = true
        return dh_mhd_yes
    }
    if size.pointee > 0 {
        // One byte more than allowed says enough; the rest is thrown away as it arrives.
        let room = max(0, Dashboard.longestBody + 1 - exchange.body.count)
        if let data, room > 0 {
            data.withMemoryRebound(to: UInt8.self, capacity: size.pointee) { bytes in
                exchange.body += UnsafeBufferPointer(start: bytes, count: min(room, size.pointee))
            }
        }
        size.pointee = 0
        return dh_mhd_yes
    }
    var found: [String: String] = [:]
    for name in headers {
        if let value = MHD_lookup_connection_value(connection, dh_mhd_header, name) {
            found[name] = String(cString: value)
        }
    }
    let page = Unmanaged<PageContext>.fromOpaque(context).takeUnretainedValue()
    let response = page.dashboard.respond(
        to: DashboardRequest(String(cString: method), exchange.target, headers: found, body: exchange.body))
    return send(response, on: connection)
}

private func send(_ response: DashboardResponse, on connection: OpaquePointer) -> MHD_Result {
    var body = response.body
    let reply = MHD_create_response_from_buffer(body.count, &body, dh_mhd_copy)
    guard let reply else { return dh_mhd_no }
    defer { MHD_destroy_response(reply) }
    for (name, value) in response.headers { MHD_add_response_header(reply, name, value) }
    return MHD_queue_response(connection, UInt32(response.status), reply)
}
