// The same short process in C: opens the file, ends one handler, leaves.
//
//     cold-floor FILE HANDLER NAME ARGUMENTS

#include "CFloor.h"

#include <stdlib.h>
#include <string.h>

int main(int count, char **words) {
    if (count < 5) return 2;
    floor_store *store = floor_open(words[1]);
    if (!store) return 3;
    int code = floor_step(store, words[3], words[4], (int)strlen(words[4]), atoll(words[2]), 1);
    floor_close(store);
    return code ? 4 : 0;
}
