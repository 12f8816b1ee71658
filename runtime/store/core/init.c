/*
 * Initial rows. A pure function of (options, key): the same on every node, so a row that no node
 * pushed to need not be stored, and where a key lives never shows in its value. Element j comes
 * from word j mod 4 of the Philox block (seed, key, j / 4). Normal values by Box and Muller (1958)
 * in double precision, rounded once.
 */
#include "store/rows/rules.h"

#include <math.h>

static double unit(uint32_t word) { /* [0, 1), 24 bits: exact in f32 */
    return (double)(word >> 8) * 0x1p-24;
}

static void normal_pair(uint32_t a, uint32_t b, double out[2]) {
    const double pi = 3.14159265358979323846;
    double radius = sqrt(-2.0 * log(unit(a) + 0x1p-24)); /* (0, 1]: finite */
    double angle = 2.0 * pi * unit(b);
    out[0] = radius * cos(angle);
    out[1] = radius * sin(angle);
}

static void random_values(const struct tide_table_options *o, uint64_t key, float *values) {
    double low = o->init_a, high = o->init_b;
    if (o->init == TIDE_INIT_XAVIER) { /* Glorot and Bengio (2010), formula 16 */
        high = sqrt(6.0 / ((double)o->init_a + (double)o->init_b));
        low = -high;
    }
    for (size_t i = 0; i < o->width; i += 4) {
        uint32_t words[4];
        double drawn[4];
        tide_philox(o->seed, key, i / 4, words);
        if (o->init == TIDE_INIT_NORMAL) {
            normal_pair(words[0], words[1], drawn);
            normal_pair(words[2], words[3], drawn + 2);
        }
        for (size_t j = 0; j < 4 && i + j < o->width; j++) {
            double value =
                o->init == TIDE_INIT_NORMAL ? (double)o->init_a * drawn[j] : low + (high - low) * unit(words[j]);
            values[i + j] = (float)value;
        }
    }
}

void tide__row_init(const struct tide_table_options *options, uint64_t key, float *row, bool full) {
    if (options->init == TIDE_INIT_ZERO) {
        memset(row, 0, options->width * sizeof *row);
    } else {
        random_values(options, key, row);
    }
    const struct tide_update_rule *rule = tide__rule_of(options);
    if (full) { /* with no use yet */
        memset(row + options->width, 0, (tide__row_floats(options) - options->width) * sizeof *row);
    }
    if (full && rule->init) {
        rule->init(options->numbers + 1, key, options->width, row + options->width);
    }
}
