/* Training, cut in two: kge_train.c checks arguments and walks single examples, kge_batch.c works
 * by mini-batches. */
#ifndef TIDE_KGE_TRAIN_H
#define TIDE_KGE_TRAIN_H

#include "models/kge.h"
#include "base/base.h"

struct kge_training {
    enum kge_model model;
    size_t width, relation_width;
    struct tide_rows entities, relations;
    struct tide_draws draws; /* of the negatives */
    const uint32_t *triples; /* subject, relation, object */
    uint32_t *order;         /* the triples of this call, shuffled */
    size_t count;
    uint64_t entity_count;
    size_t negatives, batch, ahead;
    bool intended; /* subjects and objects */
    bool softmax, cubic;
    float weight; /* logistic: of all negatives of one side together; softmax: ignored */
    float gamma_entity, gamma_relation;
    struct tide_random random;
    /* results */
    double loss, penalty;
    uint64_t examples, steps, calls;
};

/* One pass over training->order. Errors are those of the rows' functions, ENOMEM. */
int kge_train_batches(struct kge_training *training);

#endif
