// The section, in ELF and Mach-O files, in which @Handler leaves one record per handler, so that a registry can find them all.
#ifndef C_HANDLER_RECORDS_H
#define C_HANDLER_RECORDS_H

/// Registers one handler with the registry behind `registry`.
typedef void (*dh_handler_record)(const void *registry);

/// The number of records in this program; on Darwin also in the libraries that it has loaded, and a later call may find more.
int dh_handler_record_count(void);

/// The record at `index`, 0 ..< dh_handler_record_count().
dh_handler_record dh_handler_record_at(int index);

#endif
