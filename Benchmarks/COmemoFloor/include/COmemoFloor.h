// The floor of omemo/: a C program's way to do the whole job of a step that sends or takes encrypted messages.
//
//     decrypt: bytes ─▶ stanza ─▶ <encrypted/> ─▶ ratchet ─▶ content ─▶ envelope, checked ─▶ row │ COMMIT
//     encrypt: text ─▶ envelope ─▶ content ─▶ ratchet for each device ─▶ stanza, bytes ─▶ row    │ COMMIT
//
// It works on a copy of a file that a `HandlerStore` made, with the same settings, keeps what that keeps in the same tables, and
// speaks omemo:2 (XEP-0384 version 0.8.3) in sessions that are in use. The ratchet is libomemo-c's `session_cipher`. What cannot
// change inside a step is read once in it.

#ifndef COMEMOFLOOR_H
#define COMEMOFLOOR_H

/// An open database with everything that an account needs to encrypt and decrypt.
typedef struct omemo_floor omemo_floor;

/// Copies a store to a new file and opens that for the account with a bare address. Returns null when that fails.
omemo_floor *omemo_floor_open(const char *store, const char *path, const char *address);

/// Says what went wrong last; empty when nothing did.
const char *omemo_floor_error(const omemo_floor *floor);

/// Encrypts a text `count` times to all devices of a user and puts the stanzas into the outbox, in one transaction. Returns 0, or -1
/// on an error.
int omemo_floor_encrypt(omemo_floor *floor, const char *to, const char *body, int count);

/// Decrypts stanzas that follow one another, as a stream carries them, and stores each text as a row of `heard`, in one
/// transaction. Returns 0, or -1 on an error.
int omemo_floor_decrypt(omemo_floor *floor, const unsigned char *stanzas, const int *lengths, int count);

/// Runs one statement that returns nothing. Returns 0, or -1 on an error.
int omemo_floor_run(omemo_floor *floor, const char *sql);

/// The first column of a statement's first row, such as a stanza of the outbox; null when there is none. Valid until the next call.
const char *omemo_floor_text(omemo_floor *floor, const char *sql);

/// Closes the database.
void omemo_floor_close(omemo_floor *floor);

#endif
