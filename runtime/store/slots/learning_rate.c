/*
 * The learning rate of a table whose rule has one. It may change while workers continue: the controller records
 * the new one with the table, notifies all nodes (catalog.c), and answers when all take their steps by it. A node
 * that joins, and a controller that takes over, get it with the table.
 *
 *   requester --SET_RATE (call)-->  controller --TABLE ready=1--> all --TABLE_DONE--> controller
 */
#include "store/slots/learning_rate.h"
#include "store/rows/rules.h"
#include "store/slots/catalog.h"

#include <math.h>

float tide_table_rate(const struct tide_table *table) {
    return tide__rule_has_rate(&table->made) ? tide__learning_rate(&table->options) : NAN;
}

bool tide__learning_rate_fits(double rate) {
    return fabs(rate) <= 3.4e38;
}

void tide__learning_rate_take(struct tide_table *table, float rate) {
    const float before = tide__learning_rate(&table->options);
    if (rate < before || rate > before) {
        __atomic_store(&table->options.lr, &rate, __ATOMIC_RELAXED);
        tide_log(TIDE_LOG_INFO, tide_node_name(table->store->node),
                 "table '%s': the learning rate is %.9g now, before it was %.9g", table->name, (double)rate,
                 (double)before);
    }
}

int tide__learning_rate_call(struct tide_store *store, struct tide__incoming *in) {
    const double rate = in->as.SET_RATE.rate;
    if (!tide__catalog_commands(store)) {
        return tide_fail(TIDE_EBUSY, "this node is not the controller");
    }
    struct tide__catalog_entry *entry = tide__catalog_entry_of(store, in->as.SET_RATE.table);
    if (!entry || entry->phase >= TIDE__CATALOG_CLOSE) {
        return tide_fail(TIDE_ENOENT, "the table was dropped");
    }
    if (!tide__rule_has_rate(&entry->options) || !tide__learning_rate_fits(rate)) {
        return tide_fail(TIDE_EINVAL, "table '%s': no such learning rate", entry->name);
    }
    if (entry->phase != TIDE__CATALOG_READY) {
        return tide_fail(TIDE_EBUSY, "table '%s' is being made or changed", entry->name);
    }
    entry->rate = (float)rate;
    return tide__catalog_change(store, entry, in->message);
}

int tide_table_set_rate(struct tide_table *table, float rate) {
    struct tide_store *store = table->store;
    if (!tide__rule_has_rate(&table->made)) {
        return tide_fail(TIDE_EINVAL, "table '%s': update rule %s has no learning rate", table->name,
                         tide__rule_name(&table->made));
    }
    if (!(rate >= 0) || !tide__learning_rate_fits((double)rate)) {
        return tide_fail(TIDE_EINVAL, "table '%s': %g is no learning rate: a number of 0 or more is", table->name,
                         (double)rate);
    }
    if (!store->net) {
        tide__learning_rate_take(table, rate);
        return 0;
    }
    return tide__ask_controller(store, TIDE__AS(SET_RATE, .table = table->id, .rate = (double)rate), true);
}
