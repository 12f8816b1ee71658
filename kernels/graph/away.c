/*
 * Runs on a device with memory of its own. Operations are queued as fast as the host goes; what the
 * host is to learn (a layer's gradients are here, factors are here) is noted with a ticket, and the
 * hooks are called in that order as tickets are over: between operations if they are, at the end of
 * the step by waiting. So a layer leaves the machine while the device computes lower ones, and the
 * device never waits for the host.
 */
#include "graph/run.h"

#include <string.h>

enum { PLACE_BYTES = 64 };

static size_t loss_bytes(size_t count) {
    return 3 * count * sizeof(double);
}

static int place_inputs(struct tide_run *run) {
    const struct tide_program *p = run->plan->program;
    run->away.input_places = tide_alloc_zero(run->plan->input_count + 1, sizeof(*run->away.input_places));
    if (!run->away.input_places) {
        return TIDE_ENOMEM;
    }
    for (size_t i = 0; !p->vertex && i < p->value_count; i++) {
        const struct value *v = &p->values[i];
        if (v->class != CLASS_INPUT) {
            continue;
        }
        size_t bytes =
            tide__graph_rows(v, 1) * tide__graph_columns(v) * tide__graph_element(v, run->plan->device->element);
        run->away.input_places[run->plan->places[i].input] = run->away.input_bytes;
        run->away.input_bytes += (bytes + PLACE_BYTES - 1) & ~(size_t)(PLACE_BYTES - 1);
    }
    return 0;
}

int tide__away_open(struct tide_run *run) {
    struct away *away = &run->away;
    const struct tide_program *p = run->plan->program;
    away->memory = run->plan->device->memory;
    if (!away->memory) {
        return 0;
    }
    away->losses = tide_alloc_aligned(PLACE_BYTES, PLACE_BYTES * (p->loss_count + 1));
    if (away->losses) { /* pinned: their reader waits for the step's end alone */
        memset(away->losses, 0, PLACE_BYTES * (p->loss_count + 1));
        away->memory->pin(away->losses, PLACE_BYTES * (p->loss_count + 1));
    }
    away->factors = tide_alloc_zero(p->node_count + 1, sizeof(*away->factors));
    int code = away->losses && away->factors ? place_inputs(run) : TIDE_ENOMEM;
    if (code == 0 && away->memory->open(&away->queue) != 0) {
        code = tide_fail(TIDE_EIO, "program %s: the device %s gives no queue", p->name, run->plan->device->name);
    }
    return code;
}

static void unpin_staged(struct away *away) {
    if (away->parameters) {
        away->memory->unpin((void *)(uintptr_t)away->parameters);
    }
    if (away->gradients) {
        away->memory->unpin(away->gradients);
    }
    away->parameters = away->gradients = NULL;
}

static void drop_landing(const struct away *away, struct landing *landing) {
    if (landing->data) {
        away->memory->unpin(landing->data);
        tide_free(landing->data);
    }
    *landing = (struct landing){NULL, 0};
}

void tide__away_close(struct tide_run *run) {
    struct away *away = &run->away;
    if (!away->memory) {
        return;
    }
    if (away->queue) {
        away->memory->close(away->queue);
    }
    unpin_staged(away);
    for (size_t n = 0; away->factors && n < run->plan->program->node_count; n++) {
        drop_landing(away, &away->factors[n]);
    }
    drop_landing(away, &away->output);
    drop_landing(away, &away->staged);
    tide_free(away->factors);
    if (away->losses) {
        away->memory->unpin(away->losses);
        tide_free(away->losses);
    }
    if (away->lists) {
        away->memory->release(away->lists);
    }
    if (away->pinned) {
        away->memory->unpin(away->pinned);
    }
    tide_free(away->input_places);
}

void tide_run_stage(struct tide_run *run, const void *parameters, void *gradients) {
    struct away *away = &run->away;
    size_t bytes = tide_program_parameter_keys(run->plan->program) * TIDE_PARAMETER_KEY * run->plan->device->element;
    if (away->memory) {
        unpin_staged(away);
        away->parameters = parameters;
        away->gradients = gradients;
        if (parameters) {
            away->memory->pin((void *)(uintptr_t)parameters, bytes);
        }
        if (gradients) {
            away->memory->pin(gradients, bytes);
        }
    }
}

static int grow(const struct away *away, struct landing *landing, size_t bytes) {
    if (bytes <= landing->bytes && landing->data) {
        return 0;
    }
    drop_landing(away, landing);
    landing->data = tide_alloc_aligned(64, (bytes + 64) & ~(size_t)63);
    if (!landing->data) {
        return TIDE_ENOMEM;
    }
    landing->bytes = bytes;
    away->memory->pin(landing->data, bytes);
    return 0;
}

size_t tide__away_input_bytes(const struct tide_run *run, size_t capacity) {
    return run->away.input_bytes * capacity;
}

/* Inputs travel from pinned memory, so the host does not wait for them; it is free again when the
 * step is finished. */
int tide__away_send_inputs(struct tide_run *run, size_t rows) {
    const struct tide_program *p = run->plan->program;
    struct away *away = &run->away;
    away->counted = false;
    int code = p->vertex ? 0 : grow(away, &away->staged, away->input_bytes * rows + 1);
    size_t at = 0;
    for (size_t i = 0; code == 0 && !p->vertex && i < p->value_count; i++) {
        const struct value *v = &p->values[i];
        if (v->class == CLASS_INPUT && run->inputs[run->plan->places[i].input]) {
            size_t bytes =
                tide__graph_rows(v, rows) * tide__graph_columns(v) * tide__graph_element(v, run->plan->device->element);
            char *from = away->staged.data + at;
            if (bytes > 0) {
                memcpy(from, run->inputs[run->plan->places[i].input], bytes);
            }
            at += bytes;
            code = away->memory->upload(away->queue, tide__run_address(run, (uint32_t)i), from, bytes);
        }
    }
    return code;
}

int tide__away_send_lists(struct tide_run *run, char **out) {
    struct away *away = &run->away;
    struct tide_levels *l = run->graphs.levels;
    if (away->pinned != l->data) { /* they moved as they grew */
        if (away->pinned) {
            away->memory->unpin(away->pinned);
        }
        away->pinned = l->data;
        away->memory->pin(l->data, l->byte_room);
    }
    if (l->bytes > away->list_room || !away->lists) {
        if (away->lists) {
            away->memory->release(away->lists);
        }
        away->list_room = 2 * l->bytes + PLACE_BYTES;
        away->lists = away->memory->allocate(away->list_room);
        if (!away->lists) {
            away->list_room = 0;
            return tide_fail(TIDE_ENOMEM, "no room for the lists of a batch on %s", run->plan->device->name);
        }
    }
    *out = away->lists;
    return away->memory->upload(away->queue, away->lists, l->data, l->bytes);
}

/* Elements of a layer with parameters. */
static size_t layer_range(const struct tide_run *run, uint32_t layer, size_t *first) {
    struct tide_layer_place place = tide_program_layer_at(run->plan->program, layer);
    *first = place.first_key * TIDE_PARAMETER_KEY;
    return place.key_count * TIDE_PARAMETER_KEY;
}

int tide__away_need(struct tide_run *run, uint32_t layer) {
    const struct away *away = &run->away;
    size_t element = run->plan->device->element, first, count = layer_range(run, layer, &first);
    return away->parameters
               ? away->memory->upload_beside(away->queue, (char *)run->parameters + first * element,
                                             (const char *)away->parameters + first * element, count * element)
               : 0;
}

/* Room for one more notice. */
static int make_room(struct tide_run *run, const struct tide_run_hooks *hooks) {
    return run->away.count < NOTICES_MAX ? 0 : tide__away_deliver(run, hooks, true);
}

static void note(struct away *away, struct notice notice) {
    away->notices[(away->first + away->count++) % NOTICES_MAX] = notice;
}

int tide__away_ready(struct tide_run *run, uint32_t layer, const struct tide_run_hooks *hooks) {
    struct away *away = &run->away;
    struct notice notice = {.layer = layer};
    size_t element = run->plan->device->element, first, count = layer_range(run, layer, &first);
    if (!away->gradients && !(hooks && hooks->ready)) {
        return 0; /* no reader */
    }
    int code = make_room(run, hooks);
    if (code == 0 && away->gradients) {
        code = away->memory->download_beside(away->queue, (char *)away->gradients + first * element,
                                             (const char *)run->gradients + first * element, count * element,
                                             &notice.ticket);
    } else if (code == 0) {
        code = away->memory->mark(away->queue, &notice.ticket);
    }
    if (code == 0) {
        note(away, notice);
    }
    return code;
}

static size_t operand_bytes(const struct tide_run *run, const struct tide_operand *operand) {
    return operand->rows * operand->columns * run->plan->device->element;
}

/* In the queue's order, as the arena's places are used again. */
int tide__away_factors(struct tide_run *run, size_t node, const struct tide_run_hooks *hooks) {
    struct away *away = &run->away;
    struct notice notice = {.layer = NONE, .node = node};
    const struct tide_operand *a = &run->calls[node].in[0], *b = &run->calls[node].in[1];
    size_t bytes_a = operand_bytes(run, a), bytes_b = operand_bytes(run, b);
    int code = make_room(run, hooks);
    if (code == 0) {
        code = grow(away, &away->factors[node], bytes_a + bytes_b);
    }
    char *to = away->factors[node].data;
    if (code == 0) {
        code = away->memory->download(away->queue, to, a->data, bytes_a);
    }
    if (code == 0) {
        code = away->memory->download(away->queue, to + bytes_a, b->data, bytes_b);
    }
    if (code == 0) {
        code = away->memory->mark(away->queue, &notice.ticket);
    }
    if (code == 0) {
        note(away, notice);
    }
    return code;
}

static int give_factors(const struct tide_run *run, size_t node, const struct tide_run_hooks *hooks) {
    struct tide_operand a = run->calls[node].in[0], b = run->calls[node].in[1];
    size_t bytes_a = operand_bytes(run, &a);
    a.data = run->away.factors[node].data;
    b.data = run->away.factors[node].data + bytes_a;
    return hooks->factors(hooks->arg, run->plan->foldable[node] - 1, &a, &b);
}

int tide__away_deliver(struct tide_run *run, const struct tide_run_hooks *hooks, bool wait) {
    struct away *away = &run->away;
    while (away->count > 0) {
        struct notice notice = away->notices[away->first];
        int over = away->memory->over(away->queue, notice.ticket, wait);
        if (over <= 0) {
            return over;
        }
        away->first = (away->first + 1) % NOTICES_MAX;
        away->count--;
        int code = notice.layer == NONE    ? give_factors(run, notice.node, hooks)
                   : hooks && hooks->ready ? hooks->ready(hooks->arg, notice.layer)
                                           : 0;
        if (code != 0) {
            return code;
        }
    }
    return 0;
}

static int download_loss(struct tide_run *run, size_t i) {
    const struct tide_program *p = run->plan->program;
    return run->away.memory->download(run->away.queue, run->away.losses + 3 * i,
                                      tide__run_address(run, p->nodes[p->losses[i]].out[0]), loss_bytes(1));
}

static int finish_queue(struct tide_run *run) {
    char text[256] = "";
    int code = run->away.memory->finish(run->away.queue, text, sizeof(text));
    return code == 0
               ? 0
               : tide_fail(code, "program %s: %s", run->plan->program->name, text[0] ? text : "the device failed");
}

int tide__away_finish(struct tide_run *run, int code) {
    for (size_t i = 0; code == 0 && i < run->plan->program->loss_count; i++) {
        code = download_loss(run, i);
    }
    run->away.count = 0;
    if (code == 0 || code == TIDE_EIO || code == TIDE_ENOMEM) {
        int finished = finish_queue(run); /* its text says more */
        return finished != 0 ? finished : code;
    }
    char text[256]; /* a hook's, or of what was asked: what ends the step keeps its reason */
    snprintf(text, sizeof(text), "%s", tide_error_message());
    finish_queue(run);
    return tide_fail(code, "%s", text);
}

int tide__away_count(struct tide_run *run) {
    int code = 0;
    for (size_t i = 0; code == 0 && !run->away.counted && i < run->plan->program->loss_count; i++) {
        code = download_loss(run, i);
    }
    if (code == 0 && !run->away.counted) {
        code = finish_queue(run);
    }
    run->away.counted = code == 0;
    return code;
}

const void *tide__away_output(struct tide_run *run, const struct tide_operand *output) {
    struct away *away = &run->away;
    size_t bytes = operand_bytes(run, output);
    if (grow(away, &away->output, bytes) != 0 ||
        away->memory->download(NULL, away->output.data, output->data, bytes) != 0) {
        return NULL;
    }
    return away->output.data;
}
