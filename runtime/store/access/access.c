/*
 * Pulls and pushes of workers, whole. A worker of a table with clocks works on its node's copies (clocked/). Else what
 * is here is done in place, rows of hot keys in their copies (adaptive/hot_keys.c), and what is missed goes to other
 * nodes, one message each (operation/remote.c).
 */
#include "store/adaptive/hot_keys.h"
#include "store/clocked/clocked.h"
#include "store/core/key_counts.h"
#include "store/replica/program_order.h"

static inline __attribute__((always_inline)) int operate(struct tide_table *table, const enum tide__kind kind,
                                                         const uint64_t *keys, size_t count, float *out,
                                                         const float *in, struct tide_ticket *ticket) {
    struct tide__ticket waited, *t = ticket ? (struct tide__ticket *)(void *)ticket : &waited;
    tide__ticket_init(t, table, kind, out); /* done, so far; also after an error */
    int code = tide__operation_enter(table, kind, false, keys, count, in);
    if (code) {
        return code;
    }
    tide__heat_access(table->heat, tide__stripe(), keys, count, kind == TIDE__PUSH);
    if (tide__clocked_part(table) && tide__worker_of(table)) {
        code = tide__clocked_operate(table, kind, keys, count, out, in, ticket);
        tide__table_count(table, kind == TIDE__PULL ? TIDE__PULLS_LOCAL : TIDE__PUSHES_LOCAL, count);
        return code;
    }
    bool sent;
    struct tide__misses misses, late;
    tide__misses_init(&misses);
    struct tide__pass pass = tide__pass_of_worker(table, keys, count, out, in, &misses);
    struct tide__hot_table *hot = tide__hot_of(table);
    pass.async = ticket;
    pass.stamp = kind == TIDE__PUSH ? tide__push_stamp(table) : TIDE_NO_CLOCK;
    pass.unshared = !hot;
    code = TIDE_UNLIKELY(hot) ? tide__hot_operate(hot, &pass, kind, t, !ticket)
                              : tide__pass_run(&pass, kind, t, !ticket, &sent);
    if (TIDE_UNLIKELY(code == TIDE__OVERTAKEN)) { /* what was missed may have copies by now */
        tide__misses_init(&late);
        pass.index = misses.at;
        pass.count = misses.count;
        pass.at = 0;
        pass.unshared = false;
        pass.misses = &late;
        code = tide__hot_operate(tide__hot_of(table), &pass, kind, t, !ticket);
        tide__misses_release(&late);
    }
    tide__misses_release(&misses);
    return code;
}

int tide_table_pull(struct tide_table *table, const uint64_t *keys, size_t key_count, float *rows,
                    struct tide_ticket *ticket) {
    return operate(table, TIDE__PULL, keys, key_count, rows, NULL, ticket);
}

int tide_table_push(struct tide_table *table, const uint64_t *keys, size_t key_count, const float *rows,
                    struct tide_ticket *ticket) {
    return operate(table, TIDE__PUSH, keys, key_count, NULL, rows, ticket);
}

int tide_ticket_wait(struct tide_ticket *ticket) {
    struct tide__ticket *t = (struct tide__ticket *)(void *)ticket;
    return t->kind == TIDE__CLOCKED ? tide__clocked_wait(ticket) : tide__ticket_wait(t);
}

size_t tide_table_pull_local(struct tide_table *table, const uint64_t *keys, size_t key_count, float *rows,
                             uint64_t *hit) {
    memset(hit, 0, (key_count + 63) / 64 * sizeof *hit);
    struct tide__misses misses;
    tide__misses_init(&misses);
    size_t hits = 0;
    if (TIDE_UNLIKELY(table->operations->groups) && tide__program_order_is_held(table, keys, key_count)) {
        return 0;
    }
    for (size_t i = 0; i < key_count; i++) {
        if (table->options.keys == TIDE_KEYS_DENSE && keys[i] >= table->options.key_count) {
            continue;
        }
        struct tide__pass pass = tide__pass_of_worker(table, keys + i, 1, rows + i * table->width, NULL, &misses);
        pass.hands_over = pass.patient = false;
        misses.count = 0;
        if ((tide__hot_of(table) && tide__hot_read(table, keys[i], pass.out)) ||
            (tide__pass_pull(&pass) == 0 && misses.count == 0)) {
            hit[i / 64] |= UINT64_C(1) << (i % 64);
            hits++;
            tide__heat_access(table->heat, tide__stripe(), &keys[i], 1, false);
        }
    }
    tide__table_count(table, TIDE__PULLS_LOCAL, hits);
    return hits;
}

/* ---- single columns ---- */

/* The general way, which also says what is wrong. */
static int add_by_push(struct tide_table *table, uint64_t key, const uint32_t *columns, const float *values,
                       size_t count) {
    float small[256], *row = small;
    if (table->width > TIDE_COUNT(small)) {
        row = tide_alloc(table->width * sizeof *row);
        if (!row) {
            return TIDE_ENOMEM;
        }
    }
    memset(row, 0, table->width * sizeof *row);
    for (size_t i = 0; i < count; i++) {
        row[columns[i]] += values[i];
    }
    int code = tide_table_push(table, &key, 1, row, NULL);
    if (row != small) {
        tide_free(row);
    }
    return code;
}

int tide_table_add(struct tide_table *table, uint64_t key, const uint32_t *columns, const float *values, size_t count) {
    if (table->options.update != TIDE_UPDATE_ADD) {
        return tide_fail(TIDE_EUNSUPPORTED, "table '%s' has another update rule than add", table->name);
    }
    for (size_t i = 0; i < count; i++) {
        if (columns[i] >= table->width) {
            return tide_fail(TIDE_ERANGE, "column %u of table '%s' (0..%u)", columns[i], table->name, table->width - 1);
        }
    }
    int code;
    return tide__clocked_add(table, key, columns, values, count, &code)
               ? code
               : add_by_push(table, key, columns, values, count);
}
