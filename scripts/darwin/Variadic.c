// Variadic functions for Darwin.swift.
#include <fcntl.h>
#include <stdint.h>

int dh_open(const char *path, int flags, int mode) { return open(path, flags, mode); }
int dh_fcntl(int descriptor, int command, intptr_t value) { return fcntl(descriptor, command, value); }
