// XML in and out, on libxml2's tree and into a growing buffer, and Base64.

#include "floor.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

// MARK: Out

int reserve(text *text, size_t more) {
    if (text->capacity - text->count >= more) return 0;
    size_t capacity = 2 * (text->count + more);
    unsigned char *bytes = realloc(text->bytes, capacity);
    if (!bytes) return -1;
    text->bytes = bytes;
    text->capacity = capacity;
    return 0;
}

static void put_bytes(text *text, const void *bytes, size_t count) {
    if (reserve(text, count)) abort();
    memcpy(text->bytes + text->count, bytes, count);
    text->count += count;
}

void put(text *text, const char *literal) { put_bytes(text, literal, strlen(literal)); }

void put_escaped(text *text, const char *value) {
    for (;;) {
        size_t plain = strcspn(value, "&<>'\"");
        put_bytes(text, value, plain);
        value += plain;
        switch (*value++) {
        case '&': put(text, "&amp;"); break;
        case '<': put(text, "&lt;"); break;
        case '>': put(text, "&gt;"); break;
        case '\'': put(text, "&apos;"); break;
        case '"': put(text, "&quot;"); break;
        default: return;
        }
    }
}

void put_base64(text *text, const unsigned char *bytes, size_t count) {
    if (reserve(text, (count + 2) / 3 * 4 + 1)) abort();
    text->count += (size_t)EVP_EncodeBlock(text->bytes + text->count, bytes, (int)count);
}

// MARK: In

int is_element(const xmlNode *node, const char *name, const char *namespace) {
    return node && node->type == XML_ELEMENT_NODE && !strcmp((const char *)node->name, name) && node->ns
        && !strcmp((const char *)node->ns->href, namespace);
}

static const xmlNode *first(const xmlNode *node, const char *name, const char *namespace) {
    while (node && !is_element(node, name, namespace)) node = node->next;
    return node;
}

const xmlNode *child(const xmlNode *parent, const char *name, const char *namespace) {
    return first(parent->children, name, namespace);
}

const xmlNode *next_child(const xmlNode *before, const char *name, const char *namespace) {
    return first(before->next, name, namespace);
}

const char *attribute(const xmlNode *element, const char *name) {
    for (const xmlAttr *attribute = element->properties; attribute; attribute = attribute->next)
        if (!attribute->ns && !strcmp((const char *)attribute->name, name))
            return attribute->children ? (const char *)attribute->children->content : "";
    return 0;
}

int get_base64(const xmlNode *element, text *bytes) {
    xmlChar *value = xmlNodeGetContent(element);
    size_t count = 0;
    for (const xmlChar *c = value; c && *c; c++)
        if (*c > ' ') value[count++] = *c;
    size_t padding = 0;
    while (padding < 2 && padding < count && value[count - 1 - padding] == '=') padding++;
    bytes->count = 0;
    // OpenSSL's function would take more padding, and ends at a dash.
    int failed = !value || count % 4 || count > 1 << 28 || reserve(bytes, count / 4 * 3 + 1)
        || memchr(value, '=', count - padding) || memchr(value, '-', count);
    if (!failed && count) failed = EVP_DecodeBlock(bytes->bytes, value, (int)count) != (int)(count / 4 * 3);
    if (!failed) bytes->count = count / 4 * 3 - padding;
    xmlFree(value);
    return failed ? -1 : 0;
}

// MARK: The stream

int open_stream(omemo_floor *floor) {
    static const char header[] = "<?xml version='1.0'?><stream:stream xmlns='jabber:client' "
                                 "xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>";
    floor->document = xmlNewParserCtxt();
    floor->stream = xmlCreatePushParserCtxt(0, 0, 0, 0, 0);
    if (!floor->document || !floor->stream) return -1;
    // Bounds belong to a stanza, not to the whole stream.
    xmlCtxtUseOptions(floor->stream, XML_PARSE_HUGE | XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
    return xmlParseChunk(floor->stream, header, sizeof header - 1, 0) ? -1 : 0;
}

xmlNode *read_stanza(omemo_floor *floor, const unsigned char *bytes, int count) {
    if (count > 1 << 20 || xmlParseChunk(floor->stream, (const char *)bytes, count, 0)) return 0;
    xmlNode *root = xmlDocGetRootElement(floor->stream->myDoc);
    xmlNode *stanza = root ? root->last : 0;
    // One that is still open is where the parser goes on.
    if (!stanza || stanza->type != XML_ELEMENT_NODE || floor->stream->node != root) return 0;
    xmlUnlinkNode(stanza);
    return stanza;
}
