// A client on libstrophe, as short as can be: logs in, says so and leaves; or asks its server again and again first.
//
//     strophe-peer JID PASSWORD PORT starttls|direct                      prints "ready"
//     strophe-peer JID PASSWORD PORT starttls|direct ping COUNT WINDOW    prints "rate" and how many answers a second
//
// It takes any certificate, which saves it the work of looking at one. Its callbacks are in memory.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strophe.h>
#include <time.h>

static xmpp_ctx_t *context;
static int count, window, sent, answered;
static double start;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int answer(xmpp_conn_t *connection, xmpp_stanza_t *stanza, void *data);

static void ask(xmpp_conn_t *connection) {
    char id[32];
    snprintf(id, sizeof id, "ping-%d", sent++);
    xmpp_stanza_t *request = xmpp_iq_new(context, "get", id);
    xmpp_stanza_set_to(request, "localhost");
    xmpp_stanza_t *ping = xmpp_stanza_new(context);
    xmpp_stanza_set_name(ping, "ping");
    xmpp_stanza_set_ns(ping, "urn:xmpp:ping");
    xmpp_stanza_add_child(request, ping);
    xmpp_stanza_release(ping);
    xmpp_id_handler_add(connection, answer, id, NULL);
    xmpp_send(connection, request);
    xmpp_stanza_release(request);
}

static int answer(xmpp_conn_t *connection, xmpp_stanza_t *stanza, void *data) {
    (void)stanza;
    (void)data;
    if (sent < count) ask(connection);
    if (++answered == count) {
        printf("rate %f\n", count / (now() - start));
        fflush(stdout);
        xmpp_disconnect(connection);
    }
    return 0;
}

static void changed(xmpp_conn_t *connection, xmpp_conn_event_t event, int error, xmpp_stream_error_t *stream_error,
    void *data) {
    (void)error;
    (void)stream_error;
    (void)data;
    if (event != XMPP_CONN_CONNECT) return xmpp_stop(context);
    if (count) {
        start = now();
        for (int i = 0; i < window && sent < count; i++) ask(connection);
        return;
    }
    puts("ready");
    fflush(stdout);
    xmpp_disconnect(connection);
}

int main(int argc, char **argv) {
    if (argc != 5 && argc != 8) return 2;
    if (argc == 8) {
        count = atoi(argv[6]);
        window = atoi(argv[7]);
    }
    xmpp_initialize();
    context = xmpp_ctx_new(0, xmpp_get_default_logger(XMPP_LEVEL_ERROR));
    xmpp_conn_t *connection = xmpp_conn_new(context);
    long flags = XMPP_CONN_FLAG_TRUST_TLS;
    if (!strcmp(argv[4], "direct")) flags |= XMPP_CONN_FLAG_LEGACY_SSL;
    xmpp_conn_set_flags(connection, flags);
    xmpp_conn_set_jid(connection, argv[1]);
    xmpp_conn_set_pass(connection, argv[2]);
    if (xmpp_connect_client(connection, "127.0.0.1", (unsigned short)atoi(argv[3]), changed, 0)) return 1;
    xmpp_run(context);
    xmpp_conn_release(connection);
    xmpp_ctx_free(context);
    xmpp_shutdown();
    return 0;
}
