/*
 * A main for fuzz targets without libFuzzer: replays the files, and the files of the directories,
 * that are its arguments. With libFuzzer this file is left out of the build. Exit 0: all ran; the
 * target itself aborts on a finding.
 */
#include "fuzz.h"

#include <dirent.h>
#include <sys/stat.h>

static int replay_file(const char *path) {
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = NULL;
    size_t size = 0, got;
    if (!file) {
        fprintf(stderr, "%s: cannot open\n", path);
        return 1;
    }
    do {
        uint8_t *grown = realloc(bytes, size + 65536);
        if (!grown) {
            fprintf(stderr, "%s: out of memory\n", path);
            break;
        }
        bytes = grown;
        got = fread(bytes + size, 1, 65536, file);
        size += got;
    } while (got > 0);
    fclose(file);
    uint8_t *tight = malloc(size ? size : 1); /* exact, so that a sanitizer sees a read past it */
    if (tight && bytes) {
        memcpy(tight, bytes, size);
        (void)LLVMFuzzerTestOneInput(tight, size);
    }
    free(tight);
    free(bytes);
    return 0;
}

static int replay_directory(const char *path, DIR *directory, size_t *count) {
    struct dirent *entry;
    int rc = 0;
    while ((entry = readdir(directory)) != NULL) {
        char name[1024];
        if (entry->d_name[0] == '.') {
            continue;
        }
        if (snprintf(name, sizeof name, "%s/%s", path, entry->d_name) >= (int)sizeof name) {
            continue;
        }
        rc |= replay_file(name);
        *count += 1;
    }
    closedir(directory);
    return rc;
}

int main(int argc, char **argv) {
    size_t count = 0;
    int rc = 0;
    for (int i = 1; i < argc; i++) {
        DIR *directory = opendir(argv[i]);
        if (directory) {
            rc |= replay_directory(argv[i], directory, &count);
        } else {
            rc |= replay_file(argv[i]);
            count++;
        }
    }
    printf("%zu inputs replayed\n", count);
    return rc != 0 || count == 0;
}
