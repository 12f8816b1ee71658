/*
 * Knowledge graph embeddings: what training, ranking and tests share. Both models are trilinear
 * forms T(s, r, o), so every derivative is the form with one argument left open ("toward" it), and
 * the adjoint of a derivative is again one of them with the incoming gradient in the open place:
 *
 *   ComplEx (Trouillon et al., ICML 2016, eq. 9-11): T = Re <s, r, conj(o)>; d even, first half
 * real parts, second half imaginary parts of every vector. Relation: d values. RESCAL  (Nickel et
 * al., ICML 2011): T = s' M o, M row-major. Relation: d * d values.
 */
#ifndef TIDE_KGE_H
#define TIDE_KGE_H

#include "kernel.h"

enum kge_model { KGE_COMPLEX, KGE_RESCAL };

/* Values of a relation's row when an entity's row has d. */
static inline size_t kge_relation_width(enum kge_model model, size_t d) {
    return model == KGE_RESCAL ? d * d : d;
}

/* out = dT/do, dT/ds, dT/dr. `out` does not overlap the inputs. */
void kge_toward_object(enum kge_model model, size_t d, const float *s, const float *r, float *out);
void kge_toward_subject(enum kge_model model, size_t d, const float *r, const float *o, float *out);
/* The same, added to out. */
void kge_add_toward_object(enum kge_model model, size_t d, const float *s, const float *r, float *out);
void kge_add_toward_subject(enum kge_model model, size_t d, const float *r, const float *o, float *out);
void kge_add_toward_relation(enum kge_model model, size_t d, const float *s, const float *o, float *out);
float kge_dot(size_t d, const float *x, const float *y);
void kge_axpy(size_t d, float scale, const float *x, float *y);

/*
 * One example: returns -log sigmoid(+-score) for label 1 or 0 and writes the three gradients of
 * that loss. gamma_e, gamma_r: L2 weights, gradient += gamma x; the regulariser gamma |x|^2 is
 * added to *penalty. Both 0: none.
 */
float kge_step(enum kge_model model, size_t d, const float *s, const float *r, const float *o, bool label,
               float gamma_e, float gamma_r, float *gradient_s, float *gradient_r, float *gradient_o, double *penalty);

/* Loss of one row of scores: own = the true one's score, scores[count] = the negatives'. */
struct kge_loss_row {
    double loss;
    float own; /* d loss / d own */
};
/*
 * Replaces scores by d loss / d score.
 * softmax:  -log( e^own / (e^own + weight sum e^score) ): with weight = entities / count an
 * estimate of the loss over all entities. logistic: softplus(-own) + weight sum softplus(score).
 */
struct kge_loss_row kge_softmax(float own, float *scores, size_t count, float weight);
struct kge_loss_row kge_logistic(float own, float *scores, size_t count, float weight);

/* ---- arguments ---- */
int kge_model_of(const struct tide_argument *model, enum kge_model *out, char *error);
/* Checks the widths of the two tables against the model. */
int kge_widths(enum kge_model model, const struct tide_rows *entities, const struct tide_rows *relations, char *error);
/* first and count of a call, within `triples`; count not given or -1: all that follow. */
int kge_part(const struct tide_kernel *kernel, const struct tide_argument *arguments, size_t first_index,
             size_t count_index, size_t triples, size_t *first, size_t *count, char *error);
/* ERANGE naming the first triple with an id out of range. relation_count 0: not checked. */
int kge_check(const uint32_t *triples, size_t first, size_t count, uint64_t entity_count, uint64_t relation_count,
              char *error);

#endif
