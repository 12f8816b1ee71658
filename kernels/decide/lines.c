/*
 * Lines that forget: what is known of seconds = at + per * units of one subject, from samples that
 * come one at a time. Five sums are all that is kept of them, so a sample costs the same however
 * long the run is. Recursive least squares with exponential forgetting (Haykin, "Adaptive Filter
 * Theory", chapter 10), as sums because there are two coefficients.
 */
#include "decide/numeric.h"

#include <math.h>

enum { DISTINCT = 1000000000 }; /* relative spread of the units below 1 / DISTINCT: they are one */

/* Which way the sample is off the line by the factor `jump`: 1 too long, -1 too short, 0 neither. */
static int off_by(const struct tide_line_seen *line, double units, double seconds, double jump) {
    double expected = line->at + line->per * units;
    if (!(expected > 0)) {
        return 0;
    }
    return seconds > expected * jump ? 1 : seconds * jump < expected ? -1 : 0;
}

static void add(struct tide_line_seen *line, double units, double seconds, double forget) {
    line->weight = forget * line->weight + 1;
    line->units = forget * line->units + units;
    line->seconds = forget * line->seconds + seconds;
    line->units_units = forget * line->units_units + units * units;
    line->units_seconds = forget * line->units_seconds + units * seconds;
}

/* The best line with both coefficients >= 0; `seconds` is the newest sample's. */
static void fit(struct tide_line_seen *line, double units, double seconds) {
    double spread = line->weight * line->units_units - line->units * line->units;
    if (!(spread > line->weight * line->units_units / DISTINCT)) {
        line->at = fmin(line->kept_at, 0.9 * seconds);
        line->per = units > 0 ? fmax(line->seconds / line->weight - line->at, 0) / units : 0;
        return;
    }
    line->per = (line->weight * line->units_seconds - line->units * line->seconds) / spread;
    line->at = (line->seconds - line->per * line->units) / line->weight;
    if (line->per < 0) {
        line->per = 0;
        line->at = line->seconds / line->weight;
    } else if (line->at < 0) {
        line->per = line->units_seconds / line->units_units;
        line->at = 0;
    }
    line->kept_at = line->at;
}

void tide_line_learn(struct tide_line_seen *line, double units, double seconds, double forget, double jump) {
    int way = line->weight > 0 ? off_by(line, units, seconds, jump) : 0;
    if (way != 0 && way == line->way) { /* twice in a row: it has become another */
        line->kept_at *= seconds / (line->at + line->per * units);
        add(line, line->last_units, line->last_seconds, 0);
        way = 0;
    }
    line->way = way;
    add(line, units, seconds, forget);
    line->last_units = units;
    line->last_seconds = seconds;
    fit(line, units, seconds);
}
