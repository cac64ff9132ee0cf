// libmicrohttpd. Only what Swift cannot import stands here, each with its reason.
#include <microhttpd.h>

// The address of a request as it was sent: the server would decode it, and one cannot tell afterwards which slash was a part of a name.
static inline size_t dh_mhd_keep(void *context, struct MHD_Connection *connection, char *text) {
    size_t length = 0;
    (void)context;
    (void)connection;
    while (text[length] != 0) length++;
    return length;
}

// MHD_start_daemon is variadic.
static inline struct MHD_Daemon *dh_mhd_start(
    int descriptor, unsigned int threads, unsigned int connections, unsigned int seconds, size_t memory,
    void *(*uri)(void *context, const char *uri, struct MHD_Connection *connection),
    MHD_AccessHandlerCallback answer, MHD_RequestCompletedCallback completed, void *context) {
    return MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, answer, context,
        MHD_OPTION_LISTEN_SOCKET, descriptor, MHD_OPTION_THREAD_POOL_SIZE, threads,
        MHD_OPTION_CONNECTION_LIMIT, connections, MHD_OPTION_CONNECTION_TIMEOUT, seconds,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, memory, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_URI_LOG_CALLBACK, uri, context, MHD_OPTION_NOTIFY_COMPLETED, completed, context,
        MHD_OPTION_UNESCAPE_CALLBACK, &dh_mhd_keep, NULL, MHD_OPTION_END);
}

// Members of closed enumerations, which Swift renames.
static const enum MHD_Result dh_mhd_yes = MHD_YES;
static const enum MHD_Result dh_mhd_no = MHD_NO;
static const enum MHD_ValueKind dh_mhd_header = MHD_HEADER_KIND;
static const enum MHD_ResponseMemoryMode dh_mhd_copy = MHD_RESPMEM_MUST_COPY;
