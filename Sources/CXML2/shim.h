// libxml2's C interface.

// Debian's libxml2 is built with ICU and its headers would bring ICU's along, which clash with the copy of ICU inside
// Foundation wherever both are imported. Only converters' private fields depend on it, and those are never touched.
#include <libxml/xmlversion.h>
#undef LIBXML_ICU_ENABLED

#include <libxml/parser.h>
#include <libxml/xmlerror.h>
