#include "CFloor.h"

#include <libxml/parser.h>

static const int chunk = 65536;

// Not recursive: a document may be deep.
static long long count_elements(const xmlNode *root) {
    long long count = 0;
    const xmlNode *node = root;
    while (node) {
        if (node->type == XML_ELEMENT_NODE) count++;
        if (node->children) {
            node = node->children;
            continue;
        }
        while (node != root && !node->next) node = node->parent;
        node = node == root ? 0 : node->next;
    }
    return count;
}

long long floor_parse_tree(const char *bytes, long long length) {
    xmlParserCtxtPtr parser = xmlCreatePushParserCtxt(0, 0, 0, 0, 0);
    if (!parser) return -1;
    int failure = 0;
    for (long long start = 0; start < length && !failure; start += chunk) {
        long long rest = length - start;
        failure = xmlParseChunk(parser, bytes + start, rest < chunk ? (int)rest : chunk, 0);
    }
    if (!failure) failure = xmlParseChunk(parser, 0, 0, 1);
    xmlDocPtr document = parser->myDoc;
    long long count = failure || !parser->wellFormed ? -1 : count_elements(xmlDocGetRootElement(document));
    xmlFreeParserCtxt(parser);
    xmlFreeDoc(document);
    return count;
}
