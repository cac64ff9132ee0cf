// libcurl's easy interface. Only what Swift cannot import stands here, each with its reason.
#include <curl/curl.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

// curl_easy_setopt and curl_easy_getinfo are variadic: one function for each type of value.
static inline CURLcode dh_curl_set_number(CURL *handle, CURLoption option, long value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode dh_curl_set_size(CURL *handle, CURLoption option, curl_off_t value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode dh_curl_set_text(CURL *handle, CURLoption option, const char *value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode dh_curl_set_list(CURL *handle, CURLoption option, struct curl_slist *value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode dh_curl_set_pointer(CURL *handle, CURLoption option, void *value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode dh_curl_set_read(CURL *handle, curl_read_callback callback) {
    return curl_easy_setopt(handle, CURLOPT_READFUNCTION, callback);
}
static inline CURLcode dh_curl_set_write(CURL *handle, curl_write_callback callback) {
    return curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, callback);
}
static inline CURLcode dh_curl_set_header(CURL *handle, curl_write_callback callback) {
    return curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, callback);
}
static inline CURLcode dh_curl_set_progress(CURL *handle, curl_xferinfo_callback callback) {
    return curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, callback);
}
static inline CURLcode dh_curl_set_open(CURL *handle, curl_opensocket_callback callback) {
    return curl_easy_setopt(handle, CURLOPT_OPENSOCKETFUNCTION, callback);
}
static inline CURLcode dh_curl_get_number(CURL *handle, CURLINFO info, long *value) {
    return curl_easy_getinfo(handle, info, value);
}

// What libcurl does without the callback. `addr` is an array in name only: the address has `addrlen` bytes.
static inline curl_socket_t dh_curl_open(const struct curl_sockaddr *address) {
#ifdef __linux__
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
#else
    int descriptor = socket(address->family, address->socktype, address->protocol);
    if (descriptor < 0 || fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0) return descriptor;
    close(descriptor);
    return -1;
#endif
}
static inline const void *dh_curl_address(const struct curl_sockaddr *address) { return &address->addr; }

// Macros over long constants and casts.
static const long dh_curl_global_default = CURL_GLOBAL_DEFAULT;
static const long dh_curl_http_1_1 = CURL_HTTP_VERSION_1_1;
static const long dh_curl_tls_1_2 = CURL_SSLVERSION_TLSv1_2;
static const size_t dh_curl_read_abort = CURL_READFUNC_ABORT;
static const curl_socket_t dh_curl_no_socket = CURL_SOCKET_BAD;
