/* Processor time of each thread of some processes. Where there are fewer processors than threads,
 * or other programs use them too, it says what the clock cannot: how fast all of it would go if
 * each thread had a processor of its own, which is as fast as the one that has most to do. */
#ifndef BENCH_THREADS_H
#define BENCH_THREADS_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

enum { THREADS_MAX = 128 };
struct thread_times {
    size_t count;
    struct {
        pid_t process;
        long thread;
        uint64_t ns;
    } at[THREADS_MAX];
};

static void threads_add(struct thread_times *times, pid_t process) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)process);
    DIR *tasks = opendir(path);
    for (const struct dirent *task; tasks && (task = readdir(tasks)) != NULL;) {
        unsigned long long ns = 0;
        const long thread = strtol(task->d_name, NULL, 10);
        snprintf(path, sizeof path, "/proc/%d/task/%ld/schedstat", (int)process, thread);
        FILE *file = thread > 0 ? fopen(path, "r") : NULL;
        if (file && fscanf(file, "%llu", &ns) == 1 && times->count < THREADS_MAX) {
            times->at[times->count].process = process;
            times->at[times->count].thread = thread;
            times->at[times->count++].ns = ns;
        }
        if (file) {
            fclose(file);
        }
    }
    if (tasks) {
        closedir(tasks);
    }
}

/* ns that the threads of a process (0: of all) have computed between the two; *most: the busiest of
 * them. */
static double threads_worked(const struct thread_times *before, const struct thread_times *after,
                             pid_t process, double *most) {
    double all = 0;
    *most = 0;
    for (size_t i = 0; i < after->count; i++) {
        double ns = (double)after->at[i].ns;
        for (size_t j = 0; j < before->count; j++) {
            ns -= before->at[j].thread == after->at[i].thread ? (double)before->at[j].ns : 0;
        }
        if (process == 0 || process == after->at[i].process) {
            all += ns;
            *most = ns > *most ? ns : *most;
        }
    }
    return all;
}

#endif
