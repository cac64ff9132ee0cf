import CCurl
import Handlers
import Platform
import XMPPCore

/// One exchange with a web server through libcurl. It blocks, so it belongs on a thread of its own.
///
/// ```text
/// HTTPRequest ──▶ CurlHandle ──▶ open ──▶ read (what is put) ──▶ web server ──▶ write (what is got) ──▶ status
///                  HTTPReach: addresses      HTTPControl: progress, cancel
/// ```
final class HTTPExchange {
    private let request: HTTPRequest
    private let control: HTTPControl
    private let read: (UnsafeMutableRawBufferPointer) throws -> Int
    private let write: (UnsafeRawBufferPointer) throws -> Void
    /// The error of `read` or `write`: libcurl is stopped, and the error is thrown after it has returned.
    private var parked: (any Error)?
    private var headerBytes = 0
    /// The last address that may not be connected to.
    private var refused: SocketAddress?
    private var hasOpened = false
    private var reported: (bytes: Int64, at: ContinuousClock.Instant)?

    /// The maximum size of the headers of an answer in bytes.
    static let headerLimit = 65_536
    /// The maximum size of the answer to a PUT in bytes; more end the exchange.
    static let answerLimit = 65_536
    /// The minimum interval between reports of progress.
    static let reportInterval = Duration.milliseconds(250)

    private init(
        _ request: HTTPRequest, _ control: HTTPControl,
        read: @escaping (UnsafeMutableRawBufferPointer) throws -> Int,
        write: @escaping (UnsafeRawBufferPointer) throws -> Void
    ) {
        (self.request, self.control, self.read, self.write) = (request, control, read, write)
    }

    /// Puts.
    ///
    /// - Parameters:
    ///   - request: With a size.
    ///   - control: Reports and cancels.
    ///   - body: Fills a buffer with the next bytes; it must give as many in all as the size says.
    /// - Returns: The status.
    /// - Throws: ``UploadError`` `tls`, `connection`, `privateAddress`, `cancelled`; what `body` throws.
    static func put(
        _ request: HTTPRequest, _ control: HTTPControl,
        body: @escaping (UnsafeMutableRawBufferPointer) throws -> Int
    ) throws -> Int {
        var answered = 0
        return try HTTPExchange(request, control, read: body) { piece in
            // An answer says nothing beyond its status.
            answered += piece.count
            guard answered <= answerLimit else { throw Self.tooMuch }
        }.perform()
    }

    /// Gets.
    ///
    /// - Parameters:
    ///   - request: Without a size.
    ///   - control: Cancels.
    ///   - sink: Takes the next bytes, of whatever status.
    /// - Returns: The status.
    /// - Throws: As ``put(_:_:body:)``.
    static func get(
        _ request: HTTPRequest, _ control: HTTPControl,
        sink: @escaping (UnsafeRawBufferPointer) throws -> Void
    ) throws -> Int {
        try HTTPExchange(request, control, read: { _ in 0 }, write: sink).perform()
    }

    private static var tooMuch: UploadError {
        UploadError(
            .connection, "the web server answered with more than \(answerLimit) bytes; try again later")
    }

    // MARK: libcurl

    private func perform() throws -> Int {
        let handle = try CurlHandle()
        try handle.prepare(request)
        let code = withExtendedLifetime(self) {
            connect(handle)
            return curl_easy_perform(handle.pointer)
        }
        if let parked { throw parked }
        if control.wasCanceled { throw UploadError(.cancelled, "the transfer was canceled") }
        if let refused, !hasOpened { throw UploadError.privateAddress(refused) }
        let status = handle.status
        // A server that refuses may close before it has read all: its status says more than the broken line.
        if code == CURLE_OK || [CURLE_SEND_ERROR, CURLE_RECV_ERROR].contains(code) && status >= 300 {
            return status
        }
        throw Self.failure(code)
    }

    /// The pointer to this object is lent for as long as `perform` runs.
    private func connect(_ handle: CurlHandle) {
        let own = Unmanaged.passUnretained(self).toOpaque()
        dh_curl_set_read(handle.pointer) { buffer, size, count, exchange in
            HTTPExchange.of(exchange).readNext(buffer, size * count)
        }
        dh_curl_set_write(handle.pointer) { bytes, size, count, exchange in
            HTTPExchange.of(exchange).writeNext(bytes, size * count)
        }
        dh_curl_set_header(handle.pointer) { _, size, count, exchange in
            HTTPExchange.of(exchange).countHeader(size * count)
        }
        dh_curl_set_progress(handle.pointer) { exchange, _, _, _, sent in
            HTTPExchange.of(exchange).report(Int64(sent))
        }
        dh_curl_set_open(handle.pointer) { exchange, _, address in
            HTTPExchange.of(exchange).open(address)
        }
        for option in [
            CURLOPT_READDATA, CURLOPT_WRITEDATA, CURLOPT_HEADERDATA, CURLOPT_XFERINFODATA,
            CURLOPT_OPENSOCKETDATA,
        ] {
            dh_curl_set_pointer(handle.pointer, option, own)
        }
    }

    private static func of(_ pointer: UnsafeMutableRawPointer?) -> HTTPExchange {
        // Set for every callback, to an object that lives as long as they are called.
        Unmanaged<HTTPExchange>.fromOpaque(pointer!).takeUnretainedValue()
    }

    /// Called for each address of the host in turn, after its name was looked up.
    private func open(_ address: UnsafeMutablePointer<curl_sockaddr>?) -> curl_socket_t {
        guard let address else { return dh_curl_no_socket }
        let target = SocketAddress(
            UnsafeRawBufferPointer(
                start: dh_curl_address(address), count: Int(address.pointee.addrlen)))
        guard request.reach.allows(request.address, at: target) else {
            refused = target
            return dh_curl_no_socket
        }
        hasOpened = true
        return dh_curl_open(address)
    }

    private func readNext(_ buffer: UnsafeMutablePointer<CChar>?, _ count: Int) -> Int {
        guard !control.wasCanceled else { return dh_curl_read_abort }
        do {
            return try read(UnsafeMutableRawBufferPointer(start: buffer, count: count))
        } catch {
            parked = error
            return dh_curl_read_abort
        }
    }

    /// Another number than that of the bytes stops libcurl.
    private func writeNext(_ bytes: UnsafeMutablePointer<CChar>?, _ count: Int) -> Int {
        do {
            try write(UnsafeRawBufferPointer(start: bytes, count: count))
            return count
        } catch {
            parked = error
            return count == 0 ? 1 : 0
        }
    }

    private func countHeader(_ count: Int) -> Int {
        headerBytes += count
        guard headerBytes <= Self.headerLimit else {
            parked = Self.tooMuch
            return 0
        }
        return count
    }

    /// Called about once a second, and more often while bytes go.
    private func report(_ sent: Int64) -> Int32 {
        if control.wasCanceled { return 1 }
        let now = ContinuousClock.now
        if sent > 0, sent != reported?.bytes, reported.map({ now - $0.at >= Self.reportInterval }) ?? true {
            reported = (sent, now)
            control.progress(sent)
        }
        return 0
    }

    private static func failure(_ code: CURLcode) -> UploadError {
        let reason = String(cString: curl_easy_strerror(code))
        let certificate = [
            CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CONNECT_ERROR, CURLE_SSL_CACERT_BADFILE,
            CURLE_SSL_ISSUER_ERROR, CURLE_SSL_CERTPROBLEM, CURLE_SSL_INVALIDCERTSTATUS,
        ]
        if certificate.contains(code) {
            return UploadError(
                .tls, "the web server could not prove who it is (\(reason)); look at its certificate")
        }
        return UploadError(
            .connection, "the web server was not reached to the end (\(reason)); try again later")
    }
}

/// Runs what blocks on a thread of its own.
///
/// - Parameter control: Cancels it when the calling task is canceled.
/// - Throws: What `body` throws; ``/Handlers/HandlerError`` `resourcesExhausted`.
func onThread<Value: Sendable>(
    _ control: HTTPControl, _ body: @escaping @Sendable () throws -> Value
) async throws -> Value {
    try await withTaskCancellationHandler {
        var thread: WorkerThread?
        // It has done its work, and gives back what OpenSSL keeps for it: nothing of that may happen while the process exits.
        defer { thread?.join() }
        return try await withCheckedThrowingContinuation { continuation in
            do {
                thread = try WorkerThread("http", blocksSignals: true) {
                    continuation.resume(with: Result { try body() })
                }
            } catch { continuation.resume(throwing: error) }
        }
    } onCancel: {
        control.cancel()
    }
}
