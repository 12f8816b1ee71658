/*
 * A client in C: reads a row of a table of a running cluster, and adds to it.
 *
 *   cc client.c $(pkg-config --cflags --libs tide-client) -o client
 *   ./client CLUSTER TABLE KEY [VALUE]      VALUE is pushed to each value of the row
 */
#include <stdio.h>
#include <stdlib.h>
#include <tide/client.h>

static int fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, tide_client_error());
    return 1;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: client CLUSTER TABLE KEY [VALUE]\n");
        return 2;
    }
    const struct tide_client_options options = {
        .size = sizeof options, .cluster = argv[1], .right = argc > 4 ? TIDE_RIGHT_OPERATE : TIDE_RIGHT_READ};
    const uint64_t key = strtoull(argv[3], NULL, 10);
    struct tide_client *client;
    struct tide_client_table *table;
    if (tide_client_open(&options, &client) < 0) {
        return fail("connecting");
    }
    if (tide_client_table(client, argv[2], 0, &table) < 0) {
        return fail("opening the table");
    }
    const unsigned width = tide_client_width(table);
    float *row = calloc(width, sizeof *row);
    for (unsigned i = 0; argc > 4 && i < width; i++) {
        row[i] = strtof(argv[4], NULL);
    }
    if (argc > 4 && tide_client_push(table, &key, 1, row, 0, NULL) < 0) {
        return fail("pushing");
    }
    if (tide_client_pull(table, &key, 1, row, 0, NULL) < 0) {
        return fail("pulling");
    }
    for (unsigned i = 0; i < width; i++) {
        printf("%g%c", (double)row[i], i + 1 < width ? ' ' : '\n');
    }
    free(row);
    tide_client_close(client);
    return 0;
}
