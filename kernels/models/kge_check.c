/* Checks that training and ranking share; see kge.h. */
#include "arguments.h"
#include "models/kge.h"

#include <string.h>

int kge_model_of(const struct tide_argument *model, enum kge_model *out, char *error) {
    *out = KGE_COMPLEX;
    if (!model->given || strcmp(model->text, "complex") == 0) {
        return 0;
    }
    if (strcmp(model->text, "rescal") == 0) {
        *out = KGE_RESCAL;
        return 0;
    }
    return tide_kernel_fail(error, TIDE_EINVAL, "model: \"%.60s\" is none of \"complex\", \"rescal\"", model->text);
}

int kge_widths(enum kge_model model, const struct tide_rows *entities, const struct tide_rows *relations, char *error) {
    size_t d = entities->width;
    if (d == 0 || d > 65536 || (model == KGE_COMPLEX && d % 2)) {
        return tide_kernel_fail(error, TIDE_EINVAL, "entities: width %zu is not%s from 1 to 65536", d,
                                model == KGE_COMPLEX ? " even and" : "");
    }
    if (relations->width != kge_relation_width(model, d)) {
        return tide_kernel_fail(error, TIDE_EMISMATCH, "relations: width %u, but entities of %zu values need %zu",
                                relations->width, d, kge_relation_width(model, d));
    }
    return 0;
}

int kge_part(const struct tide_kernel *kernel, const struct tide_argument *arguments, size_t first_index,
             size_t count_index, size_t triples, size_t *first, size_t *count, char *error) {
    uint64_t number = 0;
    int code = tide_kernel_whole(kernel, arguments, first_index, 0, triples, &number, error);
    if (code) {
        return code;
    }
    *first = (size_t)number;
    *count = triples - *first;
    if (arguments[count_index].given && arguments[count_index].number != -1) {
        code = tide_kernel_whole(kernel, arguments, count_index, 0, *count, &number, error);
        *count = (size_t)number;
    }
    if (!code && *first + *count > UINT32_MAX) {
        return tide_kernel_fail(error, TIDE_ERANGE, "triples: more than 2^32");
    }
    return code;
}

int kge_check(const uint32_t *triples, size_t first, size_t count, uint64_t entity_count, uint64_t relation_count,
              char *error) {
    for (size_t i = first; i < first + count; i++) {
        const uint32_t *t = triples + 3 * i;
        if (t[0] >= entity_count || t[2] >= entity_count) {
            return tide_kernel_fail(error, TIDE_ERANGE, "triple %zu: entity %u, but entity_count is %llu", i,
                                    t[0] >= entity_count ? t[0] : t[2], (unsigned long long)entity_count);
        }
        if (relation_count && t[1] >= relation_count) {
            return tide_kernel_fail(error, TIDE_ERANGE, "triple %zu: relation %u, but the table has %llu", i, t[1],
                                    (unsigned long long)relation_count);
        }
    }
    return 0;
}
