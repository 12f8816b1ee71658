/* Directories of checkpoints, for the coordinator, restore and the command line. */
#ifndef TIDE_STORE_CHECKPOINT_H
#define TIDE_STORE_CHECKPOINT_H

#include "store/checkpoint/blocks.h"
#include "store/checkpoint/manifest.h"

enum { TIDE__GENERATIONS_MAX = 4096 };

/* DIR/000042 */
void tide__generation_path(const char *dir, uint64_t generation, char out[TIDE__PATH_MAX]);
/* DIR/000042/MANIFEST.json */
void tide__manifest_path(const char *dir, uint64_t generation, char out[TIDE__PATH_MAX + 16]);
/* Numbers of generations in `dir`, whole or not, newest first. *gives*. ENOENT. */
int tide__generation_list(struct tide_port *port, const char *dir, uint64_t **out, size_t *count);
/* ENOENT: it was never committed. Else as tide__manifest_parse, with the path in the text. */
int tide__generation_manifest(struct tide_port *port, const char *dir, uint64_t generation, struct tide__manifest *out);
/* Every block of the generation and of those it is built on. The text names what is damaged. */
int tide__generation_verify(struct tide_port *port, const char *dir, const struct tide__manifest *manifest);
/* Removes a generation, manifest first. False: after a crash it may be there again, and what it is
 * built on must be too. */
bool tide__generation_remove(struct tide_port *port, const char *dir, uint64_t generation);
/* Frees one that is neither committed nor aborted, without a message. *takes*. Any thread. */
void tide__checkpoint_forget(struct tide_checkpoint *checkpoint);
/* The clock of the cut that was announced to the calling worker's domain, while it is written; TIDE_NO_CLOCK: none. A
 * worker that reaches it knows that its interval is the first after the cut. */
uint32_t tide__cut_clock_told(void);
/* As tide_checkpoint_restore, for a run of a job: tables "JOB-n.rest" that belong to run n come back as "RUN.rest",
 * others under their own names, or not at all unless `others`. */
struct tide__restore_as {
    const char *job, *run;
    bool others;
    uint32_t number; /* of the run: its tables' domain and owner */
    uint64_t memory; /* of the run: tide_table_options.run_memory */
};
int tide__checkpoint_restore_as(struct tide_node *node, const char *dir, uint64_t generation,
                                const struct tide__restore_as *as, struct tide_restored *out);
struct tide_checkpoint_info tide__manifest_info(const struct tide__manifest *manifest);

#endif
