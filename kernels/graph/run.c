/*
 * Runs of a plan: operands are addresses computed from places and the number of rows. The arena
 * grows to the next power of two of rows; a step of a size seen before allocates nothing.
 */
#include "graph/run.h"
#include "kernel.h"

#include <math.h>
#include <string.h>

int tide_run_create(struct tide_plan *plan, uint64_t seed, struct tide_run **out) {
    struct tide_run *run = tide_alloc_zero(1, sizeof(*run));
    if (!run) {
        return TIDE_ENOMEM;
    }
    run->plan = plan;
    run->seed = seed;
    run->prepared = SIZE_MAX;
    run->inputs = tide_alloc_zero(plan->input_count + 1, sizeof(*run->inputs));
    run->calls = tide_alloc_zero(plan->program->node_count + 1, sizeof(*run->calls));
    run->offered = tide_alloc_zero(plan->program->node_count + 1, sizeof(*run->offered));
    int code = run->inputs && run->calls && run->offered ? 0 : TIDE_ENOMEM;
    if (code == 0 && plan->program->vertex) {
        run->graphs.motions = tide_alloc_zero(plan->program->node_count + 1, sizeof(*run->graphs.motions));
        code = run->graphs.motions ? tide_levels_create(&plan->want, &run->graphs.levels) : TIDE_ENOMEM;
    }
    code = code == 0 ? tide__away_open(run) : code;
    if (code != 0) {
        tide_run_destroy(run);
        return code;
    }
    *out = run;
    return 0;
}

/* Memory that operations work on: the arena and the scratch. */
static void *reserve(const struct tide_run *run, size_t bytes) {
    return run->away.memory ? run->away.memory->allocate(bytes) : tide_alloc_aligned(64, bytes);
}

static void give_back(const struct tide_run *run, void *memory) {
    if (run->away.memory && memory) {
        run->away.memory->release(memory);
    } else {
        tide_free(memory);
    }
}

void tide_run_destroy(struct tide_run *run) {
    if (run) {
        tide__away_close(run);
        tide_free(run->inputs);
        tide_free(run->calls);
        tide_free(run->offered);
        give_back(run, run->arena);
        give_back(run, run->scratch);
        tide__levels_close(run);
        tide_free(run);
    }
}

void tide_run_bind_parameters(struct tide_run *run, void *parameters, void *gradients, void *states) {
    run->parameters = parameters;
    run->gradients = gradients;
    run->states = states;
    run->prepared = SIZE_MAX;
}

int tide_run_bind(struct tide_run *run, const char *input, const void *data) {
    uint32_t value;
    if (run->plan->program->vertex) {
        return tide_fail(TIDE_EINVAL, "program %s is one of vertices: it takes samples of a forest",
                         run->plan->program->name);
    }
    if (!tide_program_value(run->plan->program, input, &value) || run->plan->places[value].kind != PLACE_INPUT) {
        return tide_fail(TIDE_EINVAL, "program %s has no input \"%s\"", run->plan->program->name, input);
    }
    run->inputs[run->plan->places[value].input] = data;
    run->prepared = SIZE_MAX;
    return 0;
}

void tide_run_fold(struct tide_run *run, double rate) {
    run->fold_rate = rate;
    run->prepared = SIZE_MAX;
}

void tide_run_limit(struct tide_run *run, size_t bytes) {
    run->limit = bytes;
}

void tide_run_divide(struct tide_run *run, double by) {
    run->divide_by = by;
}

bool tide_run_folded(const struct tide_run *run, size_t parameter) {
    for (size_t n = 0; run->fold_rate > 0 && n < run->plan->program->node_count; n++) {
        if (run->plan->foldable[n] == parameter + 1) {
            return true;
        }
    }
    return false;
}

/* The operation that makes a parameter's gradient as a product of two factors; NONE. */
static size_t factored_by(const struct tide_run *run, size_t parameter) {
    const struct tide_program *p = run->plan->program;
    for (size_t n = 0; n < p->node_count && !(run->fold_rate > 0); n++) {
        const struct tide_attributes *t = &p->nodes[n].attributes;
        if (run->plan->foldable[n] == parameter + 1 && t->ta && !t->tb && fpclassify(t->alpha) == FP_ZERO) {
            return n;
        }
    }
    return NONE;
}

size_t tide_run_factor_rows(const struct tide_run *run, size_t parameter) {
    const struct tide_program *p = run->plan->program;
    size_t n = factored_by(run, parameter);
    if (n == NONE) {
        return 0;
    }
    const struct value *v = &p->values[p->nodes[n].in[0]];
    return tide__graph_rows(v, run->now.rows > 0 ? tide__levels_rows(run, v) : 1);
}

int tide_run_offer_factors(struct tide_run *run, size_t parameter, bool on) {
    size_t n = factored_by(run, parameter);
    if (n != NONE) {
        run->offered[n] = on;
        return 0;
    }
    return tide_fail(TIDE_EUNSUPPORTED, "program %s: the gradient of parameter %zu has no factors",
                     run->plan->program->name, parameter + 1);
}

/* The arena: rows, edges, rows of tables, of levels, what is of constant size, and what is copied to
 * a device. Values of `offset` bytes a row begin at `offset` times the rows of now. */
static size_t part_of(const struct tide_run *run, const struct spans *c, enum place_kind kind) {
    const struct tide_plan *plan = run->plan;
    size_t edges = plan->row_bytes * c->rows, tables = edges + plan->edge_bytes * c->edges;
    size_t levels = tables + plan->table_bytes * c->table;
    size_t fixed = levels + plan->level_bytes * c->level;
    return kind == PLACE_EDGES        ? edges
           : kind == PLACE_TABLE_ROWS ? tables
           : kind == PLACE_LEVEL      ? levels
           : kind == PLACE_FIXED      ? fixed
           : kind == PLACE_INPUT      ? fixed + plan->fixed_bytes
                                      : 0;
}

static size_t part_at(const struct tide_run *run, enum place_kind kind) {
    return part_of(run, &run->now, kind);
}

size_t tide__run_bytes(const struct tide_run *run, const struct spans *rows) {
    return part_of(run, rows, PLACE_INPUT) + tide__away_input_bytes(run, rows->rows) + 64;
}

static void *input_at(const struct tide_run *run, uint32_t input) {
    if (run->plan->program->vertex) {
        return run->graphs.lists + run->graphs.levels->input_at[input];
    }
    if (run->away.memory) {
        return run->arena + part_at(run, PLACE_INPUT) + run->away.input_places[input] * run->now.rows;
    }
    return (void *)(uintptr_t)run->inputs[input];
}

void *tide__run_address(const struct tide_run *run, uint32_t value) {
    const struct place *place = &run->plan->places[value];
    size_t element = run->plan->device->element;
    switch (place->kind) {
    case PLACE_INPUT:
        return input_at(run, place->input);
    case PLACE_PARAMETER:
        return (char *)run->parameters + place->offset * element;
    case PLACE_STATE:
        return (char *)run->states + place->offset * element;
    case PLACE_GRADIENT:
        return (char *)run->gradients + place->offset * element;
    case PLACE_ROWS:
        return run->arena + place->offset * run->now.rows;
    case PLACE_FIXED:
        return run->arena + part_at(run, PLACE_FIXED) + place->offset;
    case PLACE_LEVEL:
        return run->arena + part_at(run, PLACE_LEVEL) + place->offset * run->now.level;
    case PLACE_EDGES:
        return run->arena + part_at(run, PLACE_EDGES) + place->offset * run->now.edges;
    case PLACE_TABLE_ROWS:
        return run->arena + part_at(run, PLACE_TABLE_ROWS) + place->offset * run->now.table;
    case PLACE_TABLE:
        return (void *)(uintptr_t)run->graphs.table_rows[place->offset];
    case PLACE_TABLE_GRADIENT:
        return run->graphs.table_gradients[place->offset];
    case PLACE_LIST:
        return tide__levels_list(run, place->offset);
    default:
        return NULL;
    }
}

struct tide_operand tide__run_operand(const struct tide_run *run, uint32_t value) {
    const struct value *v = &run->plan->program->values[value];
    char *at = tide__run_address(run, value);
    size_t element = tide__graph_element(v, run->plan->device->element);
    return (struct tide_operand){.data = at ? at + v->column * element : NULL,
                                 .rows = tide__graph_rows(v, tide__levels_rows(run, v)),
                                 .columns = tide__graph_columns(v),
                                 .stride = v->stride};
}

static size_t power_of_two(size_t rows) {
    size_t capacity = 1;
    while (capacity < rows) {
        capacity *= 2;
    }
    return capacity;
}

static int grow(struct tide_run *run) {
    const struct spans *now = &run->now;
    size_t bytes, need = tide__run_bytes(run, now);
    if (run->arena && need <= run->arena_bytes) {
        return 0;
    }
    if (__builtin_mul_overflow(power_of_two(now->rows), run->plan->row_bytes, &bytes) || bytes > (size_t)1 << 46) {
        return tide_fail(TIDE_ENOMEM, "program %s: %zu rows of %zu bytes", run->plan->program->name, now->rows,
                         run->plan->row_bytes);
    }
    if (run->limit > 0 && need > run->limit) {
        return tide_fail(TIDE_ELIMIT, "program %s: the batch needs %zu bytes of the %zu it may have",
                         run->plan->program->name, need, run->limit);
    }
    const struct spans rounded = {power_of_two(now->rows), power_of_two(now->level), power_of_two(now->edges),
                                  power_of_two(now->table)};
    bytes = tide__run_bytes(run, &rounded);
    bytes = run->limit > 0 && bytes > run->limit ? run->limit : bytes;
    give_back(run, run->arena);
    run->arena = reserve(run, (bytes + 63) & ~(size_t)63);
    run->arena_bytes = run->arena ? bytes : 0;
    run->prepared = SIZE_MAX;
    if (!run->arena) {
        return tide_fail(TIDE_ENOMEM, "program %s: no room for %zu rows of %zu bytes on %s", run->plan->program->name,
                         now->rows, run->plan->row_bytes, run->plan->device->name);
    }
    return 0;
}

int tide__run_enlarge(struct tide_run *run, struct spans to, size_t rows, size_t edges) {
    const struct tide_plan *plan = run->plan;
    const struct spans was = run->now;
    const size_t held = run->arena_bytes;
    char *old = run->arena;
    size_t part[2] = {part_at(run, PLACE_EDGES), part_at(run, PLACE_FIXED)};
    if (rows == 0 && edges == 0) { /* nothing is kept: perhaps there is room already */
        run->now = to;
        return grow(run);
    }
    run->arena = NULL;
    run->arena_bytes = 0;
    run->now = to;
    int code = grow(run);
    if (code != 0) {
        run->arena = old;
        run->arena_bytes = held;
        run->now = was;
        return code;
    }
    for (size_t i = 0; old && i < plan->program->value_count; i++) {
        const struct place *place = &plan->places[i];
        if (plan->program->values[i].root != i) {
            continue;
        }
        if (place->kind == PLACE_ROWS) {
            memcpy(run->arena + place->offset * to.rows, old + place->offset * was.rows, place->bytes * rows);
        } else if (place->kind == PLACE_EDGES) {
            memcpy(run->arena + part_at(run, PLACE_EDGES) + place->offset * to.edges,
                   old + part[0] + place->offset * was.edges, place->bytes * edges);
        }
    }
    if (old) {
        memcpy(run->arena + part_at(run, PLACE_FIXED), old + part[1], plan->fixed_bytes);
        give_back(run, old);
    }
    return 0;
}

/* Fills in the calls for a number of rows; grows the scratch. */
int tide__run_prepare(struct tide_run *run, size_t rows) {
    const struct tide_program *p = run->plan->program;
    size_t scratch = 0;
    for (size_t n = 0; n < p->node_count; n++) {
        const struct node *node = &p->nodes[n];
        struct tide_op_call *call = &run->calls[n];
        *call = (struct tide_op_call){.attributes = &node->attributes, .seed = run->seed, .queue = run->away.queue};
        for (size_t i = 0; i < node->in_count; i++) {
            call->in[i] = tide__run_operand(run, node->in[i]);
        }
        for (size_t o = 0; o < node->out_count; o++) {
            call->out[o] = tide__run_operand(run, node->out[o]);
        }
        call->accumulate = node->accumulates;
        size_t bytes = run->plan->device->scratch(node->code, call);
        scratch = bytes > scratch ? bytes : scratch;
    }
    if (scratch > run->scratch_bytes || !run->scratch) {
        give_back(run, run->scratch);
        run->scratch = reserve(run, (scratch + 127) & ~(size_t)63);
        run->scratch_bytes = run->scratch ? scratch : 0;
        if (!run->scratch) {
            return TIDE_ENOMEM;
        }
    }
    for (size_t n = 0; n < p->node_count; n++) {
        run->calls[n].scratch = run->scratch;
    }
    if (p->vertex) {
        tide__levels_prepare(run);
    }
    run->prepared = rows;
    return 0;
}

static int check_bound(const struct tide_run *run) {
    const struct tide_program *p = run->plan->program;
    if (p->vertex) {
        for (size_t t = 0; t < p->table_count; t++) {
            if (!run->graphs.table_rows[t]) {
                return tide_fail(TIDE_EINVAL, "program %s: table \"%s\" is not bound", p->name,
                                 p->values[p->tables[t]].name);
            }
        }
        return run->graphs.lists ? 0 : tide_fail(TIDE_EINVAL, "program %s: no forest is bound", p->name);
    }
    for (size_t i = 0; i < p->value_count; i++) {
        const struct place *place = &run->plan->places[i];
        if (place->kind == PLACE_INPUT && p->values[i].class == CLASS_INPUT && !run->inputs[place->input]) {
            for (size_t n = 0; n < p->node_count; n++) {
                for (size_t k = 0; k < p->nodes[n].in_count; k++) {
                    if (p->nodes[n].in[k] == i) {
                        return tide_fail(TIDE_EINVAL, "program %s: input \"%s\" is not bound", p->name,
                                         p->values[i].name);
                    }
                }
            }
        }
    }
    return 0;
}

/* w += -(rate / count) a^T b in place of the gradient. */
static int run_folded(struct tide_run *run, size_t n) {
    const struct tide_program *p = run->plan->program;
    struct tide_attributes attributes = p->nodes[n].attributes;
    struct tide_op_call call = run->calls[n];
    int counted = run->away.memory ? tide__away_count(run) : 0;
    if (counted != 0) {
        return counted;
    }
    double count = run->divide_by > 0 ? run->divide_by : tide_run_loss(run).count;
    double alpha = fpclassify(attributes.alpha) == FP_ZERO ? 1 : attributes.alpha;
    if (!(count > 0)) {
        return 0;
    }
    attributes.alpha = -alpha * run->fold_rate / count;
    call.attributes = &attributes;
    call.accumulate = true;
    call.out[0].data = tide__run_address(run, p->parameters[run->plan->foldable[n] - 1]);
    return run->plan->device->functions[TIDE_OP_MM](&call);
}

static int report_work(const struct tide_run *run, size_t n, bool accumulates, const struct tide_run_hooks *hooks) {
    if (!hooks || !hooks->work) {
        return 0;
    }
    struct tide_op_call call = run->calls[n];
    call.accumulate |= accumulates;
    return hooks->work(hooks->arg, tide_op_work(run->plan->program->nodes[n].code, &call, run->plan->device->element));
}

static int report_value(const struct tide_run *run, size_t n, const struct tide_run_hooks *hooks) {
    const struct tide_program *p = run->plan->program;
    const struct node *node = &p->nodes[n];
    int code = 0;
    for (size_t o = 0; code == 0 && o < node->out_count; o++) {
        uint8_t type = p->values[node->out[o]].type;
        if (type == TIDE_VALUE_FLOAT || type == TIDE_VALUE_LOSS) {
            struct tide_run_value value = {.operation = tide__graph_written(p, node),
                                           .name = p->values[node->out[o]].name,
                                           .layer = p->layers[node->layer].name,
                                           .at = node->at,
                                           .backward = node->backward,
                                           .loss = type == TIDE_VALUE_LOSS,
                                           .output = o,
                                           .data = tide__run_operand(run, node->out[o])};
            code = hooks->made(hooks->arg, &value);
        }
    }
    return code;
}

int tide__run_node(struct tide_run *run, size_t n, uint64_t step, const struct tide_run_hooks *hooks) {
    const struct node *node = &run->plan->program->nodes[n];
    if (node->code == TIDE_OP_RESHAPE) {
        return 0;
    }
    if (run->fold_rate > 0 && run->plan->foldable[n] != 0) {
        int code = run_folded(run, n);
        return code == 0 ? report_work(run, n, true, hooks) : code;
    }
    if (run->offered[n] && hooks && hooks->factors) {
        return run->away.memory
                   ? tide__away_factors(run, n, hooks)
                   : hooks->factors(hooks->arg, run->plan->foldable[n] - 1, &run->calls[n].in[0], &run->calls[n].in[1]);
    }
    const char *own = node->attributes.own ? node->attributes.own->name : NULL;
    run->calls[n].step = step;
    if (own && hooks && hooks->enter) {
        hooks->enter(hooks->arg, own);
    }
    int code = run->plan->device->functions[node->code](&run->calls[n]);
    if (own && hooks && hooks->enter) {
        hooks->enter(hooks->arg, NULL);
    }
    if (code == TIDE_EINVAL && run->away.memory) {
        tide_fail(code, "%s of this size is too much for %s", tide_op_names[node->code], run->plan->device->name);
    }
    if (code != 0 && node->at[0]) {
        char text[400];
        snprintf(text, sizeof(text), "%s", tide_error_message());
        return tide_fail(code, "%s: %s", node->at, text);
    }
    code = code == 0 ? report_work(run, n, false, hooks) : code;
    return code == 0 && hooks && hooks->made && !run->away.memory ? report_value(run, n, hooks) : code;
}

/* A layer's parameters are about to be read, or its gradients are made. */
static int on_need(struct tide_run *run, uint32_t layer, const struct tide_run_hooks *hooks) {
    int code = hooks && hooks->need ? hooks->need(hooks->arg, layer) : 0;
    return code == 0 && run->away.memory ? tide__away_need(run, layer) : code;
}

static int on_ready(struct tide_run *run, uint32_t layer, const struct tide_run_hooks *hooks) {
    if (run->away.memory) {
        return tide__away_ready(run, layer, hooks);
    }
    return hooks && hooks->ready ? hooks->ready(hooks->arg, layer) : 0;
}

static int raise_events(struct tide_run *run, const uint32_t *when, size_t n,
                        int (*event)(struct tide_run *, uint32_t, const struct tide_run_hooks *),
                        const struct tide_run_hooks *hooks) {
    int code = 0;
    for (size_t l = 0; code == 0 && l < run->plan->layer_count; l++) {
        if (when[l] == n) {
            code = event(run, (uint32_t)l, hooks);
        }
    }
    return code;
}

/* The operations from .. to - 1, with the events between them. */
static int run_once(struct tide_run *run, size_t from, size_t to, uint64_t step, const struct tide_run_hooks *hooks) {
    int code = 0;
    for (size_t n = from; code == 0 && n < to; n++) {
        code = raise_events(run, run->plan->first_use, n, on_need, hooks);
        if (code == 0 && run->plan->program->vertex) {
            code = tide__levels_rest(run, n);
        }
        if (code == 0) {
            code = tide__run_node(run, n, step, hooks);
        }
        if (code == 0) {
            code = raise_events(run, run->plan->last_gradient, n, on_ready, hooks);
        }
        if (code == 0 && run->away.memory) {
            code = tide__away_deliver(run, hooks, false);
        }
    }
    return code;
}

/* A loop needs all its layers when it begins, and has made its gradients when it is over. */
static int run_loop(struct tide_run *run, enum section section, uint64_t step, const struct tide_run_hooks *hooks) {
    size_t from = run->plan->section_at[section], to = run->plan->section_at[section + 1];
    int code = 0;
    for (size_t n = from; code == 0 && n < to; n++) {
        code = raise_events(run, run->plan->first_use, n, on_need, hooks);
    }
    code = code == 0 ? tide__levels_run(run, section, step, hooks) : code;
    for (size_t n = from; code == 0 && n < to; n++) {
        code = raise_events(run, run->plan->last_gradient, n, on_ready, hooks);
    }
    return code == 0 && run->away.memory ? tide__away_deliver(run, hooks, false) : code;
}

static int run_list(struct tide_run *run, uint64_t step, const struct tide_run_hooks *hooks) {
    const struct tide_plan *plan = run->plan;
    int code = run->away.memory ? tide__away_send_inputs(run, run->rows) : 0;
    for (size_t section = 0; code == 0 && section <= SECTION_DEFERRED; section++) {
        bool loop = plan->program->vertex && (section == SECTION_UP || section == SECTION_DOWN);
        code = loop ? run_loop(run, (enum section)section, step, hooks)
                    : run_once(run, plan->section_at[section], plan->section_at[section + 1], step, hooks);
    }
    return code == 0 && run->away.memory ? tide__away_deliver(run, hooks, true) : code;
}

int tide_run_step(struct tide_run *run, size_t rows, uint64_t step, const struct tide_run_hooks *hooks) {
    int code = check_bound(run);
    struct spans now = {.rows = rows};
    if (code == 0 && run->graphs.growing) {
        code = tide_fail(TIDE_EINVAL, "program %s: the run grows: finish ends it", run->plan->program->name);
    }
    if (code == 0 && run->plan->program->vertex) {
        now = tide__levels_spans(run);
        rows = now.rows;
    }
    if (code == 0) {
        run->now = now;
        code = grow(run);
    }
    if (code == 0 && (run->prepared != rows || run->plan->program->vertex)) {
        code = tide__run_prepare(run, rows);
    }
    run->rows = rows;
    if (code != 0) {
        return code;
    }
    code = run_list(run, step, hooks);
    return run->away.memory ? tide__away_finish(run, code) : code;
}

/* Whether loss i is the first one, of its kind. */
static bool counts(const struct tide_program *p, size_t i) {
    for (size_t k = 0; k < i; k++) {
        if (p->nodes[p->losses[k]].kind == p->nodes[p->losses[i]].kind) {
            return false;
        }
    }
    return true;
}

struct tide_run_loss tide_run_loss(const struct tide_run *run) {
    const struct tide_program *p = run->plan->program;
    struct tide_run_loss loss = {0, 0, 0};
    for (size_t i = 0; i < p->loss_count && run->arena; i++) {
        const double *values =
            run->away.memory ? run->away.losses + 3 * i : tide__run_address(run, p->nodes[p->losses[i]].out[0]);
        loss.sum += values[0];
        loss.count += counts(p, i) ? values[1] : 0;
        loss.correct += values[2];
    }
    return loss;
}

int tide_run_given(const struct tide_run *run, const struct tide_run_hooks *hooks) {
    const struct tide_program *p = run->plan->program;
    int code = 0;
    for (uint32_t i = 0; code == 0 && i < p->value_count; i++) {
        const struct value *v = &p->values[i];
        bool input = v->class == CLASS_INPUT && v->type == TIDE_VALUE_FLOAT;
        if (!input && v->class != CLASS_PARAMETER) {
            continue;
        }
        struct tide_run_value value = {.operation = input ? "input" : "parameter",
                                       .name = v->name,
                                       .layer = p->layers[v->layer].name,
                                       .at = "",
                                       .data = tide__run_operand(run, i)};
        code = value.data.data ? hooks->made(hooks->arg, &value) : 0;
    }
    return code;
}

const void *tide_run_output(struct tide_run *run, const char *name, size_t *rows, size_t *columns) {
    const struct tide_program *p = run->plan->program;
    if (p->vertex && run->arena) {
        return tide__levels_output(run, name, rows, columns);
    }
    for (size_t i = 0; i < p->output_count && run->arena; i++) {
        if (strcmp(p->outputs[i].name, name) == 0) {
            struct tide_operand found = tide__run_operand(run, p->outputs[i].value);
            *rows = found.rows;
            *columns = found.columns;
            return run->away.memory ? tide__away_output(run, &found) : found.data;
        }
    }
    return NULL;
}

size_t tide_run_arena_bytes(const struct tide_run *run) {
    return run->arena_bytes;
}
