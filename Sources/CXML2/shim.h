// libxml2's C interface.

// Debian's libxml2 is built with ICU and its headers would bring ICU's along, which clash with the copy of ICU inside
// Foundation wherever both are imported. Only converters' private fields depend on it, and those are never touched.
#include <libxml/xmlversion.h>
#undef LIBXML_ICU_ENABLED

#include <libxml/parser.h>
#include <libxml/xmlerror.h>
#include <libxml/globals.h>

// Resets a push parser whose input buffer begins with that many bytes. libxml2 takes the size from a variable of the thread,
// which Swift cannot reach, since it is a macro.
static inline int dh_xml_reset_push(xmlParserCtxtPtr context, int bytes) {
    int usual = xmlDefaultBufferSize;
    xmlDefaultBufferSize = bytes / 2;  // A buffer has twice that.
    int status = xmlCtxtResetPush(context, NULL, 0, NULL, NULL);
    xmlDefaultBufferSize = usual;
    return status;
}
