// The primitives that libomemo-c asks for and the content of a message (XEP-0384 section 4.4), from OpenSSL.

#include "floor.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <string.h>

// Looked up once: by name, for each use, that would cost more than the work. The HMAC is copied, which takes its digest along.
static EVP_MAC_CTX *hmac;
static EVP_CIPHER *aes256;

int random_bytes(void *bytes, int count) { return RAND_bytes(bytes, count) == 1 ? 0 : -1; }

void wipe(void *bytes, size_t count) { OPENSSL_cleanse(bytes, count); }

// MARK: For libomemo-c

static int get_random(uint8_t *bytes, size_t count, void *user) {
    (void)user;
    return random_bytes(bytes, (int)count) ? SG_ERR_UNKNOWN : 0;
}

static EVP_MAC_CTX *start_hmac(const uint8_t *key, size_t count) {
    EVP_MAC_CTX *context = EVP_MAC_CTX_dup(hmac);
    // Without a pointer the key would be the one from before, and there is none.
    if (context && EVP_MAC_init(context, count ? key : (const uint8_t *)"", count, 0) == 1) return context;
    EVP_MAC_CTX_free(context);
    return 0;
}

static int hmac_init(void **context, const uint8_t *key, size_t count, void *user) {
    (void)user;
    *context = start_hmac(key, count);
    return *context ? 0 : SG_ERR_NOMEM;
}

static int hmac_update(void *context, const uint8_t *bytes, size_t count, void *user) {
    (void)user;
    return EVP_MAC_update(context, bytes, count) == 1 ? 0 : SG_ERR_UNKNOWN;
}

static int hmac_final(void *context, signal_buffer **output, void *user) {
    (void)user;
    size_t count = 0;
    signal_buffer *buffer = signal_buffer_alloc(32);
    if (buffer && EVP_MAC_final(context, signal_buffer_data(buffer), &count, 32) == 1) {
        *output = buffer;
        return 0;
    }
    if (buffer) signal_buffer_free(buffer);
    return SG_ERR_UNKNOWN;
}

static void hmac_cleanup(void *context, void *user) {
    (void)user;
    EVP_MAC_CTX_free(context);
}

static int digest_init(void **context, void *user) {
    (void)user;
    *context = EVP_MD_CTX_new();
    return *context && EVP_DigestInit_ex(*context, EVP_sha512(), 0) == 1 ? 0 : SG_ERR_NOMEM;
}

static int digest_update(void *context, const uint8_t *bytes, size_t count, void *user) {
    (void)user;
    return EVP_DigestUpdate(context, bytes, count) == 1 ? 0 : SG_ERR_UNKNOWN;
}

static int digest_final(void *context, signal_buffer **output, void *user) {
    (void)user;
    signal_buffer *buffer = signal_buffer_alloc(64);
    if (buffer && EVP_DigestFinal_ex(context, signal_buffer_data(buffer), 0) == 1
        && EVP_DigestInit_ex(context, EVP_sha512(), 0) == 1) {
        *output = buffer;
        return 0;
    }
    if (buffer) signal_buffer_free(buffer);
    return SG_ERR_UNKNOWN;
}

static void digest_cleanup(void *context, void *user) {
    (void)user;
    EVP_MD_CTX_free(context);
}

/// AES-256-CBC with the padding of PKCS #7. `output` has room for 16 bytes more than the input. Returns its size, or -1.
static int cbc(
    int encrypting, const uint8_t *key, const uint8_t *iv, const uint8_t *input, size_t count, unsigned char *output) {
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    int length = 0, rest = 0;
    int done = context && count < 1 << 30 && EVP_CipherInit_ex2(context, aes256, key, iv, encrypting, 0) == 1
        && EVP_CipherUpdate(context, output, &length, input, (int)count) == 1
        && EVP_CipherFinal_ex(context, output + length, &rest) == 1;
    EVP_CIPHER_CTX_free(context);
    return done ? length + rest : -1;
}

static int cipher(
    int encrypting, signal_buffer **output, int mode, size_t key_count, const uint8_t *key, size_t iv_count, const uint8_t *iv,
    const uint8_t *input, size_t count) {
    // All that sessions of omemo:2 ask for.
    if (mode != SG_CIPHER_AES_CBC_PKCS5 || key_count != 32 || iv_count != 16) return SG_ERR_INVAL;
    signal_buffer *space = signal_buffer_alloc(count + 16);
    if (!space) return SG_ERR_NOMEM;
    int size = cbc(encrypting, key, iv, input, count, signal_buffer_data(space));
    *output = size < 0 ? 0 : signal_buffer_create(signal_buffer_data(space), (size_t)size);
    signal_buffer_bzero_free(space);
    return *output ? 0 : encrypting ? SG_ERR_UNKNOWN : SG_ERR_INVALID_MESSAGE;
}

static int encrypt(
    signal_buffer **output, int mode, const uint8_t *key, size_t key_count, const uint8_t *iv, size_t iv_count,
    const uint8_t *input, size_t count, void *user) {
    (void)user;
    return cipher(1, output, mode, key_count, key, iv_count, iv, input, count);
}

static int decrypt(
    signal_buffer **output, int mode, const uint8_t *key, size_t key_count, const uint8_t *iv, size_t iv_count,
    const uint8_t *input, size_t count, void *user) {
    (void)user;
    return cipher(0, output, mode, key_count, key, iv_count, iv, input, count);
}

static int look_up(void) {
    if (hmac && aes256) return 0;
    EVP_MAC *mac = EVP_MAC_fetch(0, "HMAC", 0);
    hmac = mac ? EVP_MAC_CTX_new(mac) : 0;
    EVP_MAC_free(mac);
    aes256 = EVP_CIPHER_fetch(0, "AES-256-CBC", 0);
    OSSL_PARAM digest[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, "SHA256", 0), OSSL_PARAM_construct_end()};
    return hmac && aes256 && EVP_MAC_CTX_set_params(hmac, digest) == 1 ? 0 : -1;
}

int use_crypto(signal_context *global) {
    signal_crypto_provider provider = {
        .random_func = get_random, .hmac_sha256_init_func = hmac_init, .hmac_sha256_update_func = hmac_update,
        .hmac_sha256_final_func = hmac_final, .hmac_sha256_cleanup_func = hmac_cleanup,
        .sha512_digest_init_func = digest_init, .sha512_digest_update_func = digest_update,
        .sha512_digest_final_func = digest_final, .sha512_digest_cleanup_func = digest_cleanup,
        .encrypt_func = encrypt, .decrypt_func = decrypt};
    return look_up() || signal_context_set_crypto_provider(global, &provider) ? -1 : 0;
}

// MARK: The content

static const unsigned char info[] = "OMEMO Payload";

static int code(EVP_MAC_CTX *context, const void *bytes, size_t count, unsigned char result[32]) {
    size_t size = 0;
    return EVP_MAC_update(context, bytes, count) == 1 && EVP_MAC_final(context, result, &size, 32) == 1 ? 0 : -1;
}

static int hmac_of(
    const unsigned char *key, size_t key_count, const void *bytes, size_t count, unsigned char result[32]) {
    EVP_MAC_CTX *context = start_hmac(key, key_count);
    int failed = !context || code(context, bytes, count, result);
    EVP_MAC_CTX_free(context);
    return failed ? -1 : 0;
}

/// HKDF (RFC 5869) with SHA-256 and a salt of 32 zero bytes: the key of the cipher, that of the code, and the IV.
static int derive(const unsigned char key[KEY_SIZE], unsigned char derived[96]) {
    static const unsigned char salt[32];
    unsigned char extracted[32], block[32 + sizeof info];
    if (hmac_of(salt, sizeof salt, key, KEY_SIZE, extracted)) return -1;
    EVP_MAC_CTX *context = start_hmac(extracted, sizeof extracted);
    int failed = !context;
    for (int i = 0; i < 3 && !failed; i++) {
        size_t before = i ? 32 : 0;
        memcpy(block, derived + 32 * (i - (i > 0)), before);
        memcpy(block + before, info, sizeof info - 1);
        block[before + sizeof info - 1] = (unsigned char)(i + 1);
        failed = EVP_MAC_init(context, 0, 0, 0) != 1 || code(context, block, before + sizeof info, derived + 32 * i);
    }
    EVP_MAC_CTX_free(context);
    wipe(extracted, sizeof extracted);
    wipe(block, sizeof block);
    return failed ? -1 : 0;
}

int encrypt_content(const text *plaintext, unsigned char material[MATERIAL_SIZE], text *ciphertext) {
    unsigned char derived[96], tag[32];
    ciphertext->count = 0;
    if (random_bytes(material, KEY_SIZE) || derive(material, derived) || reserve(ciphertext, plaintext->count + 16)) return -1;
    int size = cbc(1, derived, derived + 64, plaintext->bytes, plaintext->count, ciphertext->bytes);
    int failed = size < 0 || hmac_of(derived + 32, 32, ciphertext->bytes, (size_t)size, tag);
    wipe(derived, sizeof derived);
    if (failed) return -1;
    ciphertext->count = (size_t)size;
    memcpy(material + KEY_SIZE, tag, TAG_SIZE);
    return 0;
}

int decrypt_content(const text *ciphertext, const unsigned char material[MATERIAL_SIZE], text *plaintext) {
    unsigned char derived[96], tag[32];
    plaintext->count = 0;
    if (derive(material, derived) || reserve(plaintext, ciphertext->count + 16)) return -1;
    int size = -1;
    if (!hmac_of(derived + 32, 32, ciphertext->bytes, ciphertext->count, tag)
        && !CRYPTO_memcmp(tag, material + KEY_SIZE, TAG_SIZE))
        size = cbc(0, derived, derived + 64, ciphertext->bytes, ciphertext->count, plaintext->bytes);
    wipe(derived, sizeof derived);
    if (size < 0) return -1;
    plaintext->count = (size_t)size;
    return 0;
}
