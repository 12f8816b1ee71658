/*
 * Generated inputs: the same bytes on every machine, so that measurements can be compared and tests
 * need no data files. Only text is produced; where it goes is the sink's affair.
 *
 * Random numbers are splitmix64 (Steele, Lea, Flood, OOPSLA 2014); all draws of one input come from
 * one stream in the order in which the lines are written.
 */
#ifndef TIDE_GENERATE_H
#define TIDE_GENERATE_H

#include <stddef.h>
#include <stdint.h>

struct tide_sink {
    void *arg;
    int (*write)(void *arg, const char *data, size_t size); /* 0, or a code that ends the generation */
};

/* A rows x columns matrix W H' of `rank` with noise 0.01, some cells of it, as MatrixMarket
 * coordinate text. */
struct tide_matrix_input {
    uint64_t rows, columns, train, test; /* train + test: different cells */
    uint32_t rank;
    uint64_t seed;
};
/* Triples "subject tab relation tab object": the relation and the class of the subject fix the
 * class (of 20) of the object; entities and relations are drawn from Zipf laws of exponents 0.6
 * and 1. */
struct tide_graph_input {
    uint64_t entities, relations, train, valid, test;
    uint64_t seed;
};
/* Words "w0 " .. in lines of `sentence` words; each line has one of 50 topics, words from w100 on
 * belong to one. */
struct tide_text_input {
    uint64_t vocabulary, words, sentence;
    uint64_t seed;
};

/* Examples of `nonzeros` different columns each, drawn uniformly, values normal with deviation
 * 1 / sqrt(nonzeros), as LibSVM text with indices from 1. With 2 or more `classes`, W has a normal
 * entry for each class and column, and the label is the class (from 0) with the largest w_k.a, but
 * one in 20 is drawn anew. With 0, the label is w.a + 0.01 x noise, where one entry of w in 10 is
 * not 0: what the lasso finds. */
struct tide_sparse_input {
    uint64_t train, test, columns, nonzeros, classes;
    uint64_t seed;
};

/* Documents of a topic model as UCI's bag of words: topics are Dirichlet of words_mass times shares
 * that fall as 1/(rank + 3), a document's topics Dirichlet of topics_mass in all, lengths about
 * `length`. Its draws are a stream of its own (generate_lda.c). */
struct tide_topics_input {
    uint64_t vocabulary, topics, documents, length;
    double words_mass, topics_mass;
    uint64_t seed;
};

/* Errors: EINVAL (an empty or impossible size), ENOMEM, or the sink's. Memory: the factors and the
 * cells' set; the cumulated law of n doubles; the same; W. Any thread. */
int tide_generate_matrix(const struct tide_matrix_input *input, struct tide_sink train, struct tide_sink test);
int tide_generate_graph(const struct tide_graph_input *input, struct tide_sink train, struct tide_sink valid,
                        struct tide_sink test);
int tide_generate_text(const struct tide_text_input *input, struct tide_sink sink);
int tide_generate_sparse(const struct tide_sparse_input *input, struct tide_sink train, struct tide_sink test);
int tide_generate_topics(const struct tide_topics_input *input, struct tide_sink sink);

#endif
