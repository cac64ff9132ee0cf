// A step of messages: encrypted and put into the outbox, or taken and stored.

#include "floor.h"

#include <protocol.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// What was decided about a key, as `OmemoTrust` stores it: only in these is anything encrypted.
enum { BLIND = 1, VERIFIED = 2 };

/// From this number in its chain on a message is answered (XEP-0384 section 6).
enum { HEARTBEAT_AT = 53, MOST_DEVICES = 64 };

static int make_cipher(omemo_floor *floor, const signal_protocol_address *peer, session_cipher **cipher) {
    if (session_cipher_create(cipher, floor->stores, peer, floor->global)) return -1;
    session_cipher_set_version(*cipher, CIPHERTEXT_OMEMO_VERSION);
    return 0;
}

static signal_protocol_address peer_of(const char *address, uint32_t device) {
    return (signal_protocol_address){.name = address, .name_len = strlen(address), .device_id = (int32_t)device};
}

// MARK: Encrypting

typedef struct {
    char address[512];
    uint32_t device;
} target;

/// The devices that a message goes to. Returns how many, or -1.
static int find_targets(omemo_floor *floor, const char *to, target targets[MOST_DEVICES]) {
    sqlite3_stmt *lists = floor->statements[LISTS], *devices = floor->statements[DEVICES];
    int count = 0;
    // Both versions' lists of both users, learned in this session.
    int fresh = query(floor, LISTS, "itti", floor->account, to, floor->address, floor->number) == SQLITE_ROW
        && sqlite3_column_int(lists, 0) == 4;
    sqlite3_reset(lists);
    if (!fresh) return fail(floor, "a device list must be fetched first");
    int code = query(floor, DEVICES, "itt", floor->account, to, floor->address);
    for (; code == SQLITE_ROW && count >= 0; code = sqlite3_step(devices)) {
        const char *address = (const char *)sqlite3_column_text(devices, 0);
        uint32_t device = (uint32_t)sqlite3_column_int64(devices, 1);
        if (device == floor->device && !strcmp(address, floor->address)) continue;
        int trust = sqlite3_column_int(devices, 4);
        int usable = !strcmp((const char *)sqlite3_column_text(devices, 2), OMEMO) && sqlite3_column_int(devices, 3)
            && (trust == BLIND || trust == VERIFIED) && strlen(address) < sizeof targets->address;
        if (!usable || count == MOST_DEVICES) {
            count = -1;
            break;
        }
        strcpy(targets[count].address, address);
        targets[count++].device = device;
    }
    sqlite3_reset(devices);
    return count > 0 ? count : fail(floor, "a device has no session that may be used");
}

/// The envelope (XEP-0420), with padding of random length.
static int write_envelope(omemo_floor *floor, const char *body) {
    // As much as the longest takes, and its length behind it: each call for random bytes costs more than they do.
    unsigned char random[MOST_PADDING + sizeof(uint32_t)], padding[(MOST_PADDING + 2) / 3 * 4 + 1];
    text *envelope = &floor->envelope, filler = {padding, 0, sizeof padding};
    uint32_t choice;
    if (random_bytes(random, sizeof random)) return fail(floor, "OpenSSL failed");
    memcpy(&choice, random + MOST_PADDING, sizeof choice);
    size_t length = choice % (MOST_PADDING + 1);
    put_base64(&filler, random, length);
    padding[length] = 0;
    envelope->count = 0;
    put(envelope, "<envelope xmlns='" ENVELOPE "'><content><body xmlns='jabber:client'>");
    put_escaped(envelope, body);
    put(envelope, "</body></content><rpad>");
    put(envelope, (char *)padding);
    put(envelope, "</rpad><from jid='");
    put_escaped(envelope, floor->address);
    put(envelope, "'/></envelope>");
    return 0;
}

/// `<key/>`: the material, encrypted in the session with a device.
static int write_key(omemo_floor *floor, const target *target, const unsigned char material[MATERIAL_SIZE]) {
    signal_protocol_address peer = peer_of(target->address, target->device);
    session_cipher *cipher = 0;
    ciphertext_message *message = 0;
    if (make_cipher(floor, &peer, &cipher)) return -1;
    int code = session_cipher_encrypt(cipher, material, MATERIAL_SIZE, &message);
    session_cipher_free(cipher);
    leave_session(floor);
    if (code < 0) return fail(floor, "the ratchet failed");
    char start[64];
    int is_exchange = ciphertext_message_get_type(message) == CIPHERTEXT_PREKEY_TYPE;
    snprintf(start, sizeof start, "<key rid='%u'%s>", target->device, is_exchange ? " kex='true'" : "");
    signal_buffer *bytes = ciphertext_message_get_serialized(message);
    put(&floor->stanza, start);
    put_base64(&floor->stanza, signal_buffer_const_data(bytes), signal_buffer_len(bytes));
    put(&floor->stanza, "</key>");
    SIGNAL_UNREF(message);
    return 0;
}

static int write_keys(
    omemo_floor *floor, const target *targets, int count, const unsigned char material[MATERIAL_SIZE]) {
    const char *user = 0;
    for (int i = 0; i < count; i++) {
        if (!user || strcmp(user, targets[i].address)) {
            if (user) put(&floor->stanza, "</keys>");
            user = targets[i].address;
            put(&floor->stanza, "<keys jid='");
            put_escaped(&floor->stanza, user);
            put(&floor->stanza, "'>");
        }
        if (write_key(floor, &targets[i], material)) return -1;
    }
    put(&floor->stanza, "</keys>");
    return 0;
}

static int write_stanza(omemo_floor *floor, const char *to, const char *id, const target *targets, int count) {
    unsigned char material[MATERIAL_SIZE];
    char device[16];
    text *stanza = &floor->stanza;
    if (encrypt_content(&floor->envelope, material, &floor->content)) return fail(floor, "OpenSSL failed");
    snprintf(device, sizeof device, "%u", floor->device);
    stanza->count = 0;
    put(stanza, "<message to='");
    put_escaped(stanza, to);
    put(stanza, "' type='chat' id='");
    put(stanza, id);
    put(stanza, "'><encrypted xmlns='" OMEMO "'><header sid='");
    put(stanza, device);
    put(stanza, "'>");
    int failed = write_keys(floor, targets, count, material);
    wipe(material, sizeof material);
    put(stanza, "</header><payload>");
    put_base64(stanza, floor->content.bytes, floor->content.count);
    put(stanza, "</payload></encrypted><encryption xmlns='urn:xmpp:eme:0' namespace='" OMEMO
                "' name='OMEMO'/><store xmlns='urn:xmpp:hints'/></message>");
    return failed;
}

static int send_message(omemo_floor *floor, const char *to, const char *body) {
    target targets[MOST_DEVICES];
    unsigned char random[16];
    char id[33];
    if (random_bytes(random, sizeof random)) return fail(floor, "OpenSSL failed");
    for (int i = 0; i < 16; i++) snprintf(id + 2 * i, 3, "%02x", random[i]);
    // What waits for keys goes first, so that the order stays.
    int waits = query(floor, WAITING, "it", floor->account, to) == SQLITE_ROW;
    sqlite3_reset(floor->statements[WAITING]);
    if (waits || floor->room-- <= 0) return fail(floor, "the message must wait");
    int count = find_targets(floor, to, targets);
    if (count < 0 || write_envelope(floor, body) || write_stanza(floor, to, id, targets, count)) return -1;
    const void *bytes = floor->stanza.bytes;
    return floor->has_live
        ? run(floor, OUTBOX, "iitbi", floor->account, floor->live, id, bytes, (int)floor->stanza.count, floor->now)
        : run(floor, OUTBOX, "i0tbi", floor->account, id, bytes, (int)floor->stanza.count, floor->now);
}

int omemo_floor_encrypt(omemo_floor *floor, const char *to, const char *body, int count) {
    int failed = begin_step(floor);
    for (int i = 0; i < count && !failed; i++) failed = send_message(floor, to, body);
    if (!failed) return commit_step(floor);
    sqlite3_exec(floor->database, "ROLLBACK", 0, 0, 0);
    return -1;
}

// MARK: Decrypting

/// Whether an address is another one with a resource.
static int is_bare_of(const char *address, const char *full) {
    size_t count = strcspn(full, "/");
    return strlen(address) == count && !strncmp(address, full, count);
}

/// The key for this device; null when there is none.
static const xmlNode *find_key(const omemo_floor *floor, const xmlNode *header) {
    const xmlNode *keys = child(header, "keys", OMEMO);
    for (; keys; keys = next_child(keys, "keys", OMEMO)) {
        const char *user = attribute(keys, "jid");
        if (!user || !is_bare_of(floor->address, user)) continue;
        const xmlNode *key = child(keys, "key", OMEMO);
        for (; key; key = next_child(key, "key", OMEMO)) {
            const char *device = attribute(key, "rid");
            if (device && strtoul(device, 0, 10) == floor->device) return key;
        }
    }
    return 0;
}

/// What a long chain asks for: an answer, once.
static int note_chain(omemo_floor *floor, const signal_protocol_address *peer, const signal_message *message) {
    if (signal_message_get_counter(message) < HEARTBEAT_AT) return 0;
    signal_buffer *key = ec_public_key_get_mont(signal_message_get_sender_ratchet_key(message));
    if (!key) return -1;
    const unsigned char *bytes = signal_buffer_const_data(key);
    int count = (int)signal_buffer_len(key), failed = 0;
    if (count != floor->heartbeat_count || memcmp(bytes, floor->heartbeat, (size_t)count)) {
        sqlite3_int64 device = peer->device_id;
        failed = run(floor, HEARTBEAT, "biti", bytes, count, floor->account, peer->name, device)
            || run(floor, OWE, "itii", floor->account, peer->name, device, floor->now);
    }
    signal_buffer_free(key);
    return failed;
}

/// Decrypts the material of the content in the session with a device.
static int open_key(
    omemo_floor *floor, const signal_protocol_address *peer, const text *key, unsigned char material[MATERIAL_SIZE]) {
    session_cipher *cipher = 0;
    signal_message *message = 0;
    signal_buffer *plaintext = 0;
    int code = signal_message_deserialize_omemo(&message, key->bytes, key->count, floor->global);
    if (!code) code = make_cipher(floor, peer, &cipher);
    if (!code) code = session_cipher_decrypt_signal_message(cipher, message, 0, &plaintext);
    if (code >= 0 && signal_buffer_len(plaintext) != MATERIAL_SIZE) code = -1;
    if (code >= 0) {
        memcpy(material, signal_buffer_const_data(plaintext), MATERIAL_SIZE);
        code = note_chain(floor, peer, message);
    }
    if (plaintext) signal_buffer_bzero_free(plaintext);
    if (cipher) session_cipher_free(cipher);
    SIGNAL_UNREF(message);
    leave_session(floor);
    return code < 0 ? fail(floor, "the message fits no session") : 0;
}

/// What was decided about the device's key, if that is the one of the session and the device is on its user's list.
static int find_trust(omemo_floor *floor, const signal_protocol_address *peer) {
    sqlite3_stmt *row = floor->statements[TRUST];
    int trust = -1;
    if (query(floor, TRUST, "iti", floor->account, peer->name, (sqlite3_int64)peer->device_id) == SQLITE_ROW
        && sqlite3_column_bytes(row, 0) == floor->identity_count
        && !memcmp(sqlite3_column_blob(row, 0), floor->identity, (size_t)floor->identity_count)
        && sqlite3_column_type(row, 1) != SQLITE_NULL && sqlite3_column_int(row, 2))
        trust = sqlite3_column_int(row, 1);
    sqlite3_reset(row);
    return trust < 0 ? fail(floor, "the device or its key is new") : trust;
}

/// The text of an envelope that says what its stanza says; free it. Null when it does not.
static xmlChar *read_envelope(omemo_floor *floor, const char *sender) {
    int options = XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING;
    xmlDoc *document = xmlCtxtReadMemory(
        floor->document, (const char *)floor->envelope.bytes, (int)floor->envelope.count, 0, 0, options);
    const xmlNode *envelope = document && !document->intSubset ? xmlDocGetRootElement(document) : 0;
    xmlChar *said = 0;
    if (is_element(envelope, "envelope", ENVELOPE) && child(envelope, "rpad", ENVELOPE)) {
        const xmlNode *content = child(envelope, "content", ENVELOPE), *from = child(envelope, "from", ENVELOPE);
        const xmlNode *to = child(envelope, "to", ENVELOPE);
        const xmlNode *body = content ? child(content, "body", "jabber:client") : 0;
        const char *named = from ? attribute(from, "jid") : sender, *meant = to ? attribute(to, "jid") : floor->address;
        if (body && named && is_bare_of(sender, named) && meant && is_bare_of(floor->address, meant))
            said = xmlNodeGetContent(body);
    }
    xmlFreeDoc(document);
    return said;
}

static int store_message(omemo_floor *floor, const signal_protocol_address *peer, int trust) {
    xmlChar *said = read_envelope(floor, peer->name);
    if (!said) return fail(floor, "the envelope is malformed or contradicts the stanza");
    int failed = run(
        floor, HEARD, "tiiti", peer->name, (sqlite3_int64)peer->device_id, (sqlite3_int64)trust, (const char *)said,
        floor->now);
    xmlFree(said);
    return failed;
}

static int open_message(omemo_floor *floor, const xmlNode *encrypted, const char *sender) {
    const xmlNode *header = child(encrypted, "header", OMEMO), *payload = child(encrypted, "payload", OMEMO);
    const char *device = header ? attribute(header, "sid") : 0;
    const xmlNode *key = header ? find_key(floor, header) : 0;
    // A key exchange begins a session; these are in use.
    if (!device || !key || !payload || attribute(key, "kex")) return fail(floor, "the message is for another device");
    signal_protocol_address peer = peer_of(sender, (uint32_t)strtoul(device, 0, 10));
    unsigned char material[MATERIAL_SIZE];
    if (get_base64(key, &floor->stanza) || floor->stanza.count > MOST_KEY_BYTES
        || open_key(floor, &peer, &floor->stanza, material))
        return fail(floor, "the key is malformed");
    // The session works, so there is nothing to repair.
    int failed = run(floor, DROP_REPAIR, "iti", floor->account, sender, (sqlite3_int64)peer.device_id);
    int trust = failed ? -1 : find_trust(floor, &peer);
    if (trust >= 0 && (get_base64(payload, &floor->content) || decrypt_content(&floor->content, material, &floor->envelope)))
        trust = fail(floor, "the content was changed on its way");
    wipe(material, sizeof material);
    return trust < 0 ? -1 : store_message(floor, &peer, trust);
}

static int take_message(omemo_floor *floor, const unsigned char *bytes, int count) {
    char sender[512];
    xmlNode *stanza = read_stanza(floor, bytes, count);
    if (!stanza) return fail(floor, "the stanza cannot be read");
    const char *from = attribute(stanza, "from");
    const xmlNode *encrypted = child(stanza, "encrypted", OMEMO);
    size_t length = from ? strcspn(from, "/") : 0;
    int failed = -1;
    if (length && length < sizeof sender && encrypted) {
        memcpy(sender, from, length);
        sender[length] = 0;
        failed = open_message(floor, encrypted, sender);
    }
    xmlFreeNode(stanza);
    return failed;
}

int omemo_floor_decrypt(omemo_floor *floor, const unsigned char *stanzas, const int *lengths, int count) {
    int failed = begin_step(floor);
    // What a message changes is undone with it, the ratchet too.
    for (int i = 0; i < count && !failed; stanzas += lengths[i++])
        failed = run(floor, SAVEPOINT, "") || take_message(floor, stanzas, lengths[i]) || run(floor, RELEASE, "");
    if (!failed) return commit_step(floor);
    sqlite3_exec(floor->database, "ROLLBACK", 0, 0, 0);
    return -1;
}
