/*
 * Which update rules there are: Tide's own, by number, and those of modules, by name and version. A module is loaded by
 * a process that makes tables, or by the first table of its rule that comes to a node; none is ever unloaded, as rows
 * may be inside.
 */
#include "store/rows/rules.h"

struct listed {
    struct listed *next;
    const struct tide_update_rule *rule;
    char version[65], file[160];
};

static struct tide_lock lock;
static struct listed *all; /* under lock, the newest first */
static _Atomic(tide__rule_loader) load_by;

void tide__rule_load_by(tide__rule_loader loader) {
    atomic_store_explicit(&load_by, loader, memory_order_release); /* pairs with tide__rule_resolve */
}

static const char *problem_of(const struct tide_update_rule *r, char text[TIDE_KERNEL_ERROR_BYTES]) {
    if (!r->name || !tide_identifier_valid(r->name) || strlen(r->name) >= TIDE_RULE_NAME_BYTES) {
        return "an update rule has a name of at most 47 lower-case letters, digits and . _ -";
    }
    const char *problem = NULL;
    for (const struct tide_update_rule *own = tide__rules; own->name; own++) {
        problem = strcmp(own->name, r->name) == 0 ? "has the name of one of Tide's own" : problem;
    }
    if (!r->apply || !r->doc || r->number_count > TIDE_RULE_NUMBERS || (r->number_count && !r->numbers) ||
        r->state_count > TIDE_RULE_STATES || (r->state_count && !r->states)) {
        problem = "needs `apply`, `doc`, at most 7 numbers and at most 4 states";
    } else if (r->flags & ~(uint32_t)TIDE_RULE_ADDS) {
        problem = "has flags that this version does not know";
    } else if (r->flags && r->state_count) {
        problem = "has a state, so its pushes do not add up (TIDE_RULE_ADDS)";
    }
    for (size_t i = 0; !problem && i < r->number_count; i++) {
        const struct tide_parameter *p = &r->numbers[i];
        if (!p->name || !p->doc || p->type != TIDE_NUMBER || !tide_identifier_valid(p->name) ||
            strcmp(p->name, "lr") == 0) {
            problem = "needs for each number a name other than lr, a doc and the type TIDE_NUMBER";
        }
    }
    for (size_t i = 0; !problem && i < r->state_count; i++) {
        if (!r->states[i].name || !tide_identifier_valid(r->states[i].name) || strlen(r->states[i].name) > 32 ||
            strcmp(r->states[i].name, "use") == 0) {
            problem = "needs for each state a name of at most 32 letters, other than use";
        }
    }
    if (problem) {
        (void)snprintf(text, TIDE_KERNEL_ERROR_BYTES, "update rule %s %s", r->name, problem);
    }
    return problem ? text : NULL;
}

/* Under the lock. */
static struct listed *find(const char *name, const char *version) {
    struct listed *l = all;
    while (l && (strcmp(l->rule->name, name) != 0 || (version[0] && strcmp(l->version, version) != 0))) {
        l = l->next;
    }
    return l;
}

int tide_rule_register(const struct tide_update_rule *rule, const char *version, const char *file) {
    char text[TIDE_KERNEL_ERROR_BYTES];
    const char *problem = problem_of(rule, text);
    if (problem || !version || !version[0] || strlen(version) > 64) {
        return tide_fail(TIDE_EINVAL, "%s", problem ? problem : "an update rule has a version of 1 to 64 letters");
    }
    file = file ? file : "";
    if (strlen(file) >= sizeof all->file) {
        return tide_fail(TIDE_EINVAL, "the path of a module with update rules has at most 159 bytes: %s", file);
    }
    tide_lock(&lock);
    struct listed *l = find(rule->name, version);
    if (!l && (l = tide_alloc_zero(1, sizeof *l))) {
        l->rule = rule;
        (void)snprintf(l->version, sizeof l->version, "%s", version);
        l->next = all;
        all = l;
    }
    if (l && *file) { /* the same file may have come to another place */
        (void)snprintf(l->file, sizeof l->file, "%s", file);
    }
    tide_unlock(&lock);
    return l ? 0 : tide_fail(TIDE_ENOMEM, "no memory for update rule %s", rule->name);
}

/* Fills in what the list has of the rule. */
static bool take(struct tide_table_options *o) {
    tide_lock(&lock);
    const struct listed *l = find(o->rule, o->rule_version);
    if (l) {
        o->own = l->rule;
        (void)snprintf(o->rule_version, sizeof o->rule_version, "%s", l->version);
        (void)snprintf(o->rule_file, sizeof o->rule_file, "%s", l->file[0] ? l->file : o->rule_file);
    }
    tide_unlock(&lock);
    return l != NULL;
}

/* Of the rule of that name that was registered last. */
static bool version_of(const char *name, char version[65]) {
    tide_lock(&lock);
    const struct listed *l = find(name, "");
    (void)snprintf(version, 65, "%s", l ? l->version : "");
    tide_unlock(&lock);
    return l != NULL;
}

const struct tide_update_rule *tide__rule_find(const char *name, const char *version) {
    tide_lock(&lock);
    const struct listed *l = find(name, version);
    tide_unlock(&lock);
    return l ? l->rule : NULL;
}

int tide__rule_resolve(struct tide_port *port, struct tide_table_options *o) {
    if (o->update != TIDE_UPDATE_OWN || take(o)) {
        return 0;
    }
    const tide__rule_loader loader = atomic_load_explicit(&load_by, memory_order_acquire);
    char other[65];
    if ((!o->rule_file[0] || !loader) && version_of(o->rule, other)) {
        return tide_fail(
            TIDE_EVERSION,
            "table '%s' has version %.12s of update rule '%s', this process has %.12s: use the module that "
            "the table was made with",
            o->name, o->rule_version, o->rule, other);
    }
    if (!o->rule_file[0] || !loader) {
        return tide_fail(TIDE_EUNSUPPORTED,
                         "table '%s': this process has no update rule '%s' of version %.12s. Load its module first: "
                         "tide.kernel.load, tide_rule_register",
                         o->name, o->rule, o->rule_version);
    }
    const int code = loader(port, o->rule_file, o->rule_version);
    if (code) {
        char why[500];
        (void)snprintf(why, sizeof why, "%s", tide_error_message());
        return tide_fail(TIDE_EUNSUPPORTED, "update rule '%s': %s", o->rule, why);
    }
    return take(o) ? 0 : tide_fail(TIDE_EUNSUPPORTED, "'%s' has no update rule '%s'", o->rule_file, o->rule);
}

const struct tide_update_rule *tide__rule_of(const struct tide_table_options *o) {
    static const struct tide_update_rule unknown = {.name = "of a module that is not loaded here"};
    return o->update != TIDE_UPDATE_OWN ? &tide__rules[o->update] : o->own ? o->own : &unknown;
}

const char *tide__rule_name(const struct tide_table_options *o) {
    return o->update == TIDE_UPDATE_OWN ? o->rule : tide__rule_of(o)->name;
}

int tide__rule_numbers(struct tide_table_options *o) {
    char error[TIDE_KERNEL_ERROR_BYTES] = "it says no reason";
    const bool is_own = o->update == TIDE_UPDATE_OWN;
    if (is_own != (o->rule[0] != '\0') || (!is_own && (o->rule_version[0] || o->rule_file[0]))) {
        return tide_fail(TIDE_EINVAL, "the name of a rule of a module goes with update TIDE_UPDATE_OWN");
    }
    if (is_own && !take(o)) {
        o->own = NULL;
        return 0;
    }
    const struct tide_update_rule *rule = tide__rule_of(o);
    for (size_t i = 0; i < rule->number_count; i++) {
        float *number = &o->numbers[1 + i];
        *number = *number == 0.0f && !is_own ? (float)rule->numbers[i].number : *number;
        if (!(*number - *number == 0)) {
            return tide_fail(TIDE_EINVAL, "update rule %s: a number of it is not finite", rule->name);
        }
    }
    return rule->check && rule->check(o->numbers + 1, error) < 0
               ? tide_fail(TIDE_EINVAL, "update rule %s: %s", rule->name, error)
               : 0;
}

int tide__rule_check(struct tide_table_options *o) {
    const int code = tide__rule_numbers(o);
    char why[TIDE_KERNEL_ERROR_BYTES + 80];
    (void)snprintf(why, sizeof why, "%s", code ? tide_error_message() : "");
    return code ? tide_fail(code, "table '%s': %s", o->name, why) : 0;
}
