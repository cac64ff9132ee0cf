// A client on libstrophe, as short as can be: logs in, says so, leaves.
//
//     strophe-peer JID PASSWORD PORT starttls|direct
//
// It takes any certificate, which saves it the work of looking at one.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strophe.h>

static void changed(xmpp_conn_t *connection, xmpp_conn_event_t event, int error, xmpp_stream_error_t *stream_error,
    void *context) {
    (void)error;
    (void)stream_error;
    if (event == XMPP_CONN_CONNECT) {
        puts("ready");
        fflush(stdout);
        xmpp_disconnect(connection);
    } else {
        xmpp_stop(context);
    }
}

int main(int count, char **words) {
    if (count != 5) return 2;
    xmpp_initialize();
    xmpp_ctx_t *context = xmpp_ctx_new(0, xmpp_get_default_logger(XMPP_LEVEL_ERROR));
    xmpp_conn_t *connection = xmpp_conn_new(context);
    long flags = XMPP_CONN_FLAG_TRUST_TLS;
    if (!strcmp(words[4], "direct")) flags |= XMPP_CONN_FLAG_LEGACY_SSL;
    xmpp_conn_set_flags(connection, flags);
    xmpp_conn_set_jid(connection, words[1]);
    xmpp_conn_set_pass(connection, words[2]);
    if (xmpp_connect_client(connection, "127.0.0.1", (unsigned short)atoi(words[3]), changed, context)) return 1;
    xmpp_run(context);
    xmpp_conn_release(connection);
    xmpp_ctx_free(context);
    xmpp_shutdown();
    return 0;
}
