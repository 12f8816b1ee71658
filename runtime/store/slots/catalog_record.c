/*
 * What the controller records of a table (tide_net_record), for itself when it is started again, and for the next one.
 */
#include "store/slots/learning_rate.h"
#include "store/core/options.h"
#include "store/slots/catalog.h"

/* A joiner may have received changes that were never recorded: a new controller numbers its own ones above those. */
enum { VERSIONS_LEFT_OUT = 4096 };

/* [options, last version of the map, made?, homes, versions, chains, id, rate, changes]; of one that is dropped:
 * [id, gone?] */
void tide__catalog_write(const struct tide__catalog_entry *entry, struct tide_writer *w,
                         char key[TIDE__CATALOG_KEY_BYTES]) {
    (void)snprintf(key, TIDE__CATALOG_KEY_BYTES, "table/%05u", (unsigned)tide__catalog_place(entry->id));
    tide_writer_init(w, NULL, 0);
    if (entry->phase >= TIDE__CATALOG_CLOSE) {
        tide_write_array(w, 2);
        tide_write_uint(w, entry->id);
        tide_write_bool(w, entry->phase == TIDE__CATALOG_GONE);
        return;
    }
    tide_write_array(w, 9);
    tide__options_write(w, &entry->options);
    tide_write_uint(w, entry->version);
    tide_write_bool(w, true);
    tide_write_binary(w, entry->homes, sizeof entry->homes);
    tide_write_typed(w, TIDE_U32, entry->versions, TIDE_SLOT_COUNT);
    tide_write_typed(w, TIDE_U64, entry->chains, entry->options.replicas ? TIDE_SLOT_COUNT : 0);
    tide_write_uint(w, entry->id);
    tide_write_double(w, (double)entry->rate);
    tide_write_uint(w, entry->changes);
}

int tide__catalog_read(struct tide__catalog_entry *entry, const struct tide_control_pair *pair) {
    char name[64];
    size_t homes_size = 0, versions_count = 0, chains_count = 0;
    unsigned id = 0;
    struct tide_reader r;
    tide_reader_init(&r, pair->value, pair->size);
    const size_t fields = tide_read_array(&r);
    bool has_chains = fields > 5; /* earlier versions recorded no copies */
    if (fields == 2) {
        const uint64_t life = tide_read_uint(&r);
        entry->phase = tide_read_bool(&r) ? TIDE__CATALOG_GONE : TIDE__CATALOG_CLOSE;
        entry->id = (uint32_t)life;
        entry->recorded = true;
        entry->name[0] = '?';
        entry->options.name = entry->name;
        return r.error || life > UINT32_MAX || tide__catalog_place(entry->id) == 0
                   ? tide_fail(TIDE_EPROTO, "the recorded '%s' is damaged", pair->key)
                   : 0;
    }
    int code = tide__options_read(&r, &entry->options, name);
    uint64_t version = tide_read_uint(&r);
    bool made = tide_read_bool(&r);
    const uint8_t *homes = tide_read_binary(&r, &homes_size);
    const uint8_t *versions = tide_read_typed(&r, TIDE_U32, &versions_count);
    const uint8_t *chains = has_chains ? tide_read_typed(&r, TIDE_U64, &chains_count) : NULL;
    const uint64_t whole = fields > 6 ? tide_read_uint(&r) : 0;                        /* earlier ones had one life */
    const double rate = fields > 8 ? tide_read_double(&r) : (double)entry->options.lr; /* and one rate */
    const uint64_t changes = fields > 8 ? tide_read_uint(&r) : 0;
    if (code || r.error || whole > UINT32_MAX || !tide__learning_rate_fits(rate) || changes > UINT32_MAX ||
        homes_size != sizeof entry->homes || versions_count != TIDE_SLOT_COUNT ||
        chains_count != (entry->options.replicas ? TIDE_SLOT_COUNT : 0) || sscanf(pair->key, "table/%5u", &id) != 1 ||
        id == 0 || id >= TIDE__TABLES_MAX) {
        return tide_fail(TIDE_EPROTO, "the recorded '%s' is damaged", pair->key);
    }
    entry->id = whole ? (uint32_t)whole : id;
    entry->rate = (float)rate;
    entry->changes = (uint32_t)changes;
    entry->version = (uint32_t)version;
    entry->phase = made ? TIDE__CATALOG_PREPARE : TIDE__CATALOG_CLOSE;
    entry->recorded = !made;
    (void)snprintf(entry->name, sizeof entry->name, "%s", made ? name : "?");
    entry->options.name = entry->name;
    memcpy(entry->homes, homes, sizeof entry->homes);
    memcpy(entry->versions, versions, sizeof entry->versions);
    if (chains_count) {
        memcpy(entry->chains, chains, sizeof entry->chains);
        entry->version += VERSIONS_LEFT_OUT;
        entry->tell = true;
    }
    return 0;
}
