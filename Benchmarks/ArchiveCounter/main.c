// A client that only counts the bytes of an archive (XEP-0313): what a server delivers to a program that does nothing with it.
//
//     archive-counter JID PASSWORD PORT CA     prints "rate" and how many messages a second
//
// It reads no XML. It asks for pages of 250, for the next one as soon as the last bytes of a page have arrived, and looks only
// there. As any client of that server, it counts stanzas (XEP-0198) and acknowledges each page with the request for the next.
// The archive must be the scripted server's: its ids are 0, 1, …, and nobody else sends anything.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { buffer_size = 1 << 18, tail_size = 1024, page = 250 };

static SSL *tls;
// The last bytes that arrived stand in front, so that what was cut in two is found.
static char buffer[tail_size + buffer_size + 1];
static size_t length;
static unsigned long long bytes;

static void check(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "archive-counter: %s failed\n", what);
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void connect_to(const char *port, const char *domain, const char *authority) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(port))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int descriptor = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    check(descriptor >= 0 && !connect(descriptor, (struct sockaddr *)&address, sizeof address), "connecting");
    check(!setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), "setting TCP_NODELAY");
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    check(context && SSL_CTX_load_verify_locations(context, authority, NULL) == 1, "reading the authority");
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_default_read_buffer_len(context, buffer_size);
    tls = SSL_new(context);
    check(tls && SSL_set1_host(tls, domain) && SSL_set_tlsext_host_name(tls, domain), "naming the server");
    check(SSL_set_fd(tls, descriptor) && SSL_connect(tls) == 1, "the handshake");
}

// Sends, and reads until the last bytes contain `end`: a pointer to it.
static char *ask(const char *text, const char *end) {
    check(SSL_write(tls, text, (int)strlen(text)) > 0, "writing");
    length = 0;
    for (;;) {
        size_t kept = length < tail_size ? length : tail_size;
        memmove(buffer, buffer + length - kept, kept);
        int read = SSL_read(tls, buffer + kept, buffer_size);
        check(read > 0, "reading");
        bytes += (unsigned long long)read;
        length = kept + (size_t)read;
        buffer[length] = 0;
        size_t looked = length < tail_size ? length : tail_size;
        char *found = strstr(buffer + length - looked, end);
        if (found) return found;
    }
}

static void login(const char *jid, const char *domain, const char *password) {
    char header[512], auth[1024], plain[256];
    snprintf(header, sizeof header,
        "<stream:stream to='%s' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>", domain);
    ask(header, "</stream:features>");
    int size = snprintf(plain, sizeof plain, "%c%.*s%c%s", 0, (int)(domain - 1 - jid), jid, 0, password);
    unsigned char coded[400];
    check(size < (int)sizeof plain, "naming the user");
    EVP_EncodeBlock(coded, (unsigned char *)plain, size);
    snprintf(auth, sizeof auth, "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>%s</auth>", coded);
    ask(auth, "<success");
    ask(header, "</stream:features>");
    ask("<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>", "</iq>");
    ask("<enable xmlns='urn:xmpp:sm:3' resume='true'/>", "<enabled");
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    const char *domain = strchr(argv[1], '@');
    check(domain++ != NULL, "reading the JID");
    double start = now();
    connect_to(argv[3], domain, argv[4]);
    login(argv[1], domain, argv[2]);
    long last = -1;
    char request[512];
    for (long pages = 0, complete = 0; !complete; pages++) {
        int size = snprintf(request, sizeof request, "<a xmlns='urn:xmpp:sm:3' h='%ld'/>", last + 1 + pages);
        size += snprintf(request + size, sizeof request - (size_t)size,
            "<iq type='set' id='q%ld'><query xmlns='urn:xmpp:mam:2' queryid='q'>"
            "<set xmlns='http://jabber.org/protocol/rsm'><max>%d</max>", pages, page);
        if (last >= 0) size += snprintf(request + size, sizeof request - (size_t)size, "<after>%ld</after>", last);
        snprintf(request + size, sizeof request - (size_t)size, "</set></query></iq>");
        ask(request, "</fin></iq>");
        size_t looked = length < tail_size ? length : tail_size;
        char *fin = strstr(buffer + length - looked, "<fin"), *id = fin ? strstr(fin, "<last>") : NULL;
        check(id != NULL, "finding the end of the page");
        last = strtol(id + strlen("<last>"), NULL, 10);
        complete = strstr(fin, "complete=") != NULL;
    }
    double seconds = now() - start;
    fprintf(stderr, "archive-counter: %ld messages in %llu bytes\n", last + 1, bytes);
    printf("rate %f\n", (double)(last + 1) / seconds);
    return 0;
}
