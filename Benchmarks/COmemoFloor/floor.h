// What the parts of the program share.

#ifndef FLOOR_H
#define FLOOR_H

#include "COmemoFloor.h"

// Debian's headers would bring ICU's along; see Sources/CXML2/shim.h.
#include <libxml/xmlversion.h>
#undef LIBXML_ICU_ENABLED

#include <libxml/parser.h>
#include <session_cipher.h>
#include <signal_protocol.h>
#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

#define OMEMO "urn:xmpp:omemo:2"
#define ENVELOPE "urn:xmpp:sce:1"

enum { KEY_SIZE = 32, TAG_SIZE = 16, MATERIAL_SIZE = KEY_SIZE + TAG_SIZE, MOST_PADDING = 200, MOST_KEY_BYTES = 4096 };

/// Bytes that grow.
typedef struct {
    unsigned char *bytes;
    size_t count, capacity;
} text;

// The statements; those of a message first, then those of a step.
enum {
    SAVEPOINT, RELEASE, SESSION, ADVANCE, USED, HEARTBEAT, OWE, DROP_REPAIR, TRUST, HEARD, WAITING, LISTS, DEVICES, OUTBOX,
    BEGIN, COMMIT, STATE, STATEMENTS
};

struct omemo_floor {
    sqlite3 *database;
    sqlite3_stmt *statements[STATEMENTS];
    signal_context *global;
    signal_protocol_store_context *stores;
    /// The stream that stanzas arrive in, and the parser of envelopes.
    xmlParserCtxtPtr stream, document;
    char *address;
    sqlite3_int64 account;
    // Of this step.
    sqlite3_int64 now, number, live, has_live, room;
    uint32_t device;
    // Of the session that is worked in.
    signal_buffer *record;
    sqlite3_int64 used_at;
    unsigned char identity[33], heartbeat[33];
    int identity_count, heartbeat_count;
    // Used again for each message.
    text envelope, content, stanza;
    sqlite3_stmt *asked;
    char error[200];
};

/// Notes what went wrong; returns -1.
int fail(omemo_floor *floor, const char *what);

// store.c

int begin_step(omemo_floor *floor);
int commit_step(omemo_floor *floor);
/// Runs a statement that returns no rows. `format` names its values: i (sqlite3_int64), t (const char *), b (const void *, int), 0 (NULL).
int run(omemo_floor *floor, int statement, const char *format, ...);
/// Starts a statement that returns rows; reset it. Returns SQLITE_ROW, SQLITE_DONE or an error.
int query(omemo_floor *floor, int statement, const char *format, ...);
void use_stores(omemo_floor *floor);
/// Forgets the session that was worked in.
void leave_session(omemo_floor *floor);

// crypto.c

int use_crypto(signal_context *global);
/// Encrypts what is said with new key material. Returns 0, or -1.
int encrypt_content(const text *plaintext, unsigned char material[MATERIAL_SIZE], text *ciphertext);
/// Decrypts what was said, once its code was compared. Returns 0, or -1.
int decrypt_content(const text *ciphertext, const unsigned char material[MATERIAL_SIZE], text *plaintext);
int random_bytes(void *bytes, int count);
void wipe(void *bytes, size_t count);

// xml.c

int reserve(text *text, size_t more);
void put(text *text, const char *literal);
void put_escaped(text *text, const char *value);
void put_base64(text *text, const unsigned char *bytes, size_t count);
/// Reads Base64 with white space anywhere. Returns 0, or -1.
int get_base64(const xmlNode *element, text *bytes);
const xmlNode *child(const xmlNode *parent, const char *name, const char *namespace);
const xmlNode *next_child(const xmlNode *before, const char *name, const char *namespace);
int is_element(const xmlNode *node, const char *name, const char *namespace);
/// The value of an attribute; null when there is none.
const char *attribute(const xmlNode *element, const char *name);
int open_stream(omemo_floor *floor);
/// Takes a whole stanza out of the stream; free it. Null when there is none.
xmlNode *read_stanza(omemo_floor *floor, const unsigned char *bytes, int count);

#endif
