/*
 * Forests as text: the first byte chooses the format. What is accepted has children before their
 * parents, indices in their range, and heights that fit.
 */
#include "fuzz.h"
#include "names.h"
#include "readers/forest.h"
#include "readers/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const formats[] = {"sexpr", "parents", "lists", "sentences", "stanford"};
    if (size == 0) {
        return 0;
    }
    struct tide_dictionary words = {0};
    struct tide_forest_format format = {
        .name = formats[data[0] % 5], .words = &words, .grow = true};
    const char *text = (const char *)data + 1;
    size_t left = size - 1, third = left / 3, count = data[0] % 5 == 4 ? 3 : 1;
    struct tide_text texts[3] = {{"parents", text, count == 3 ? third : left},
                                 {"words", text + third, third},
                                 {"labels", text + 2 * third, left - 2 * third}};
    struct tide_forest *f = NULL;
    if (tide_forest_read(&format, texts, count, &f) == 0) {
        FUZZ_CHECK(f->samples > 0 && f->sample_start[f->samples] == f->vertices);
        for (size_t s = 0; s < f->samples; s++) {
            size_t base = f->sample_start[s];
            for (size_t v = base; v < f->sample_start[s + 1]; v++) {
                for (size_t i = 0; i < f->input_count; i++) {
                    int32_t index = ((const int32_t *)f->inputs[i].data)[v];
                    FUZZ_CHECK(index >= -1 && index < (int64_t)f->inputs[i].below);
                }
                for (uint32_t e = f->child_start[v]; e < f->child_start[v + 1]; e++) {
                    FUZZ_CHECK(f->child[e] >= 0 && base + (size_t)f->child[e] < v);
                    FUZZ_CHECK(f->height[base + (size_t)f->child[e]] < f->height[v]);
                }
            }
        }
        tide_forest_destroy(f);
    }
    tide_dictionary_release(&words);
    return 0;
}
