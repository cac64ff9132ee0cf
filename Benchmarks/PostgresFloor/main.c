// Runs the floor of handlers/ on PostgreSQL and prints its rate.
//
//     postgres-floor CONNINFO STEPS GROUP [two-flights]
//
// CONNINFO is a connection string of libpq; GROUP is the number of handlers that end in one transaction, 1 ... 1000.
// Like the benchmarks, it prints the median of many short turns: a disk that others use has quick and slow moments.

#include "CPostgresFloor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PENDING = 1000, TURN_MICROSECONDS = 6000 };

// Of the size that Benchmarks/BenchmarkHandlers/Advance.swift binds.
static const char arguments[] =
    "{\"account\":\"juliet@capulet.example/balcony-5f0c7a41\",\"attempt\":1,\"device\":1000001,"
    "\"node\":\"eu.siacs.conversations.axolotl.bundles:1000001\",\"session\":\"romeo@montague.example/orchard "
    "1f8e66c0-a1f4-4b28-9a6e-8c1f0c6d2f4b 2026-03-14T15:09:26Z, first message after the device list changed\","
    "\"trusted\":false}";

static double seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int compare(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return a < b ? -1 : a > b;
}

static int complain(const char *what, const char *error) {
    fprintf(stderr, "postgres-floor: %s: %s\n", what, error);
    return 1;
}

int main(int count, char **words) {
    int group = count > 3 ? atoi(words[3]) : 0;
    long long steps = count > 3 ? atoll(words[2]) : 0;
    int is_known = count == 4 || (count == 5 && !strcmp(words[4], "two-flights"));
    if (!is_known || steps < 1 || group < 1 || group > PENDING)
        return complain("usage", "postgres-floor CONNINFO STEPS GROUP [two-flights]");
    postgres_floor_order order = count == 5 ? POSTGRES_FLOOR_TWO_FLIGHTS : POSTGRES_FLOOR_IN_TURN;

    char *error = postgres_floor_make_tables(words[1]);
    if (error) return complain("tables", error);
    char conninfo[2048];
    int length = snprintf(conninfo, sizeof conninfo, "%s options='-csearch_path=floor'", words[1]);
    if (length >= (int)sizeof conninfo) return complain("CONNINFO", "it is too long");
    postgres_floor *floor = postgres_floor_open(conninfo);
    long long first = 0;
    if (!floor || *postgres_floor_error(floor)
        || postgres_floor_fill(floor, "bench.bundle-fetched", arguments, sizeof arguments - 1, PENDING, &first))
        return complain("fill", postgres_floor_error(floor));

    size_t turns = 0;
    double *rates = malloc(sizeof(double) * (size_t)steps);
    if (!rates) return complain("rates", "no memory");
    for (long long done = 0; done < steps;) {
        double start = seconds(), elapsed;
        long long before = done;
        do {
            if (postgres_floor_step(
                    floor, "bench.bundle-fetched", arguments, sizeof arguments - 1, first + done, group, order))
                return complain("step", postgres_floor_error(floor));
            done += group;
            elapsed = seconds() - start;
        } while (elapsed * 1e6 < TURN_MICROSECONDS && done < steps);
        rates[turns++] = (double)(done - before) / elapsed;
    }
    postgres_floor_close(floor);
    qsort(rates, turns, sizeof *rates, compare);
    char name[32] = "step-alone";
    if (group > 1) snprintf(name, sizeof name, "group-%d", group);
    printf("postgres-floor/%s%s %.0f steps/s\n", name, count == 5 ? "-two-flights" : "", rates[turns / 2]);
    free(rates);
    return 0;
}
