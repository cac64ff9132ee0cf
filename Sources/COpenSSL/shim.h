// OpenSSL 3. Only what Swift cannot import stands here, each with its reason.
#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

// Function-like macros over SSL_ctrl and SSL_CTX_ctrl.
static inline int dh_SSL_set_host_name_indication(SSL *ssl, const char *name) {
    return (int)SSL_set_tlsext_host_name(ssl, name);
}
static inline int dh_SSL_CTX_set_versions(SSL_CTX *context, int minimum, int maximum) {
    return SSL_CTX_set_min_proto_version(context, minimum) && SSL_CTX_set_max_proto_version(context, maximum);
}

static inline int dh_SSL_has_extended_master_secret(SSL *ssl) { return (int)SSL_get_extms_support(ssl) == 1; }
static inline void dh_SSL_CTX_cache_client_sessions(SSL_CTX *context) {
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
}
// A macro.
static inline int dh_SSL_new_index(void) { return SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL); }

// EVP_get_digestbynid is a macro.
static inline const EVP_MD *dh_digest_by_nid(int nid) { return EVP_get_digestbynid(nid); }

// SSL_OP_* are macros over a 64 bit shift. Renegotiation would break channel binding (RFC 9266 section 4.2).
static inline void dh_SSL_CTX_set_fixed_options(SSL_CTX *context) {
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
}

// Type-safe stack functions are macros.
static inline int dh_GENERAL_NAMES_count(const GENERAL_NAMES *names) { return sk_GENERAL_NAME_num(names); }
static inline const GENERAL_NAME *dh_GENERAL_NAMES_at(const GENERAL_NAMES *names, int index) {
    return sk_GENERAL_NAME_value(names, index);
}

static inline int dh_has_name_constraints(X509_STORE_CTX *store) {
    const STACK_OF(X509) *chain = X509_STORE_CTX_get0_chain(store);
    for (int index = 0; index < sk_X509_num(chain); index++)
        if (X509_get_ext_by_NID(sk_X509_value(chain, index), NID_name_constraints, -1) >= 0) return 1;
    return 0;
}

// EVP_EC_gen and X509V3_set_ctx are macros, the first over a variadic function.
static inline EVP_PKEY *dh_make_p256_key(void) { return EVP_EC_gen("P-256"); }
static inline X509_EXTENSION *dh_make_extension(X509 *issuer, X509 *subject, int nid, const char *value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, subject, NULL, NULL, 0);
    return X509V3_EXT_conf_nid(NULL, &context, nid, value);
}
