import CCurl
import Handlers
import XMPPAccount
import XMPPCore

/// Owns a handle of libcurl's easy interface, and what is lent to it.
///
/// One handle serves one exchange: no cookie, login or connection of one is used in another.
final class CurlHandle {
    let pointer: UnsafeMutableRawPointer
    private var list: UnsafeMutablePointer<curl_slist>?

    /// curl_global_init must have returned before anything else is called; a static is made once.
    private static let isReady = curl_global_init(dh_curl_global_default) == CURLE_OK

    /// - Throws: ``UploadError`` `connection` when libcurl has no memory.
    init() throws(UploadError) {
        guard Self.isReady, let pointer = curl_easy_init() else {
            throw UploadError(.connection, "libcurl does not start; look at the process's memory limit")
        }
        self.pointer = pointer
    }

    deinit {
        curl_easy_cleanup(pointer)
        curl_slist_free_all(list)
    }

    // MARK: Options

    /// Sets everything that a request says, and what holds for all of them.
    func prepare(_ request: HTTPRequest) throws(UploadError) {
        try set(CURLOPT_URL, request.address.string)
        // Whatever an answer says: no other scheme, and no other place.
        try set(CURLOPT_PROTOCOLS_STR, "https")
        try set(CURLOPT_REDIR_PROTOCOLS_STR, "https")
        try set(CURLOPT_FOLLOWLOCATION, 0)
        try set(CURLOPT_HTTP_VERSION, dh_curl_http_1_1)
        try set(CURLOPT_HTTP09_ALLOWED, 0)
        // libcurl must touch no signal of the program; the thread blocks them.
        try set(CURLOPT_NOSIGNAL, 1)
        try set(CURLOPT_NOPROGRESS, 0)
        // An empty text is no proxy, whatever the environment says, and no host that the proxy is not for.
        try set(CURLOPT_PROXY, request.reach.proxy ?? "")
        try set(CURLOPT_NOPROXY, "")
        try secure(request.trust)
        try limit(request.limits)
        try set(request.headers)
        guard let size = request.size else { return }
        try set(CURLOPT_UPLOAD, 1)
        try check(dh_curl_set_size(pointer, CURLOPT_INFILESIZE_LARGE, curl_off_t(size)))
    }

    /// The certificate is verified always: there is no way to say otherwise.
    private func secure(_ trust: AccountConfiguration.Trust) throws(UploadError) {
        try set(CURLOPT_SSL_VERIFYPEER, 1)
        try set(CURLOPT_SSL_VERIFYHOST, 2)
        try set(CURLOPT_SSLVERSION, dh_curl_tls_1_2)
        guard case .file(let path) = trust else { return }
        try set(CURLOPT_CAINFO, path)
        // Or the machine's authorities would be believed as well.
        try check(dh_curl_set_text(pointer, CURLOPT_CAPATH, nil))
    }

    private func limit(_ limits: HTTPRequest.Limits) throws(UploadError) {
        try set(CURLOPT_CONNECTTIMEOUT_MS, Self.milliseconds(limits.connecting))
        try set(CURLOPT_TIMEOUT_MS, Self.milliseconds(limits.total))
        try set(CURLOPT_LOW_SPEED_LIMIT, 1)
        try set(CURLOPT_LOW_SPEED_TIME, max(1, Self.milliseconds(limits.stalled) / 1000))
    }

    private static func milliseconds(_ duration: Duration) -> Int {
        Int(min(max(1, duration.milliseconds), 7 * 86_400_000))
    }

    private func set(_ headers: [UploadSlot.Header]) throws(UploadError) {
        for header in headers {
            guard let longer = curl_slist_append(list, "\(header.name): \(header.value)") else {
                throw Self.refused(CURLE_OUT_OF_MEMORY)
            }
            list = longer
        }
        try check(dh_curl_set_list(pointer, CURLOPT_HTTPHEADER, list))
    }

    private func set(_ option: CURLoption, _ number: Int) throws(UploadError) {
        try check(dh_curl_set_number(pointer, option, number))
    }

    private func set(_ option: CURLoption, _ text: String) throws(UploadError) {
        try check(dh_curl_set_text(pointer, option, text))
    }

    private func check(_ code: CURLcode) throws(UploadError) {
        if code != CURLE_OK { throw Self.refused(code) }
    }

    private static func refused(_ code: CURLcode) -> UploadError {
        UploadError(.connection, "libcurl refuses a request: \(String(cString: curl_easy_strerror(code)))")
    }

    /// The status of the answer; 0 when there is none.
    var status: Int {
        var status = 0
        dh_curl_get_number(pointer, CURLINFO_RESPONSE_CODE, &status)
        return status
    }
}
