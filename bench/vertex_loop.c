#include "bench/vertex_loop.h"

#include "base/base.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct loop {
    enum loop_model model;
    size_t h, classes, gates, words;
    float *E, *W, *U, *Uf, *C, *b, *bf, *bC; /* parameters */
    /* By vertex: inputs, gates and their gradients, states, sums of children. */
    float *x, *z, *hs, *cs, *t, *S, *M, *F, *P, *dz, *dh, *dc, *dS, *dM, *df, *logits, *dx;
    float *dW, *dU, *dUf, *dC, *db, *dbf, *dbC;
};

static float *array(size_t n) {
    float *x = tide_alloc_aligned(64, (n * sizeof(float) + 127) & ~(size_t)63);
    for (size_t i = 0; i < n; i++) {
        x[i] = 0.1f * ((float)(i * 2654435761u >> 16 & 0xffff) / 65536.0f - 0.5f);
    }
    return x;
}

struct loop *loop_create(enum loop_model model, uint32_t words, size_t h, size_t classes,
                         size_t n) {
    struct loop *l = calloc(1, sizeof(*l));
    size_t gates = model == LOOP_TREE ? 3 : model == LOOP_CHAIN ? 4 : 1;
    size_t inputs = model == LOOP_FC ? 2 * h : h;
    *l = (struct loop){.model = model, .h = h, .classes = classes, .gates = gates, .words = words};
    l->E = array(words * h);
    l->W = array(h * gates * h);
    l->U = array(inputs * gates * h);
    l->Uf = array(h * h);
    l->C = array(h * classes + 1);
    l->b = array(gates * h);
    l->bf = array(h);
    l->bC = array(classes + 1);
    l->x = array(n * h);
    l->z = array(n * gates * h);
    l->hs = array(n * h);
    l->cs = array(n * h);
    l->t = array(n * h);
    l->S = array(n * inputs);
    l->M = array(n * h);
    l->F = array(n * h);
    l->P = array(n * h);
    l->dz = array(n * gates * h);
    l->dh = array(n * h);
    l->dc = array(n * h);
    l->dS = array(n * inputs);
    l->dM = array(n * h);
    l->df = array(n * h);
    l->logits = array(n * classes + 1);
    l->dx = array(n * h);
    l->dW = array(h * gates * h);
    l->dU = array(inputs * gates * h);
    l->dUf = array(h * h);
    l->dC = array(h * classes + 1);
    l->db = array(gates * h);
    l->dbf = array(h);
    l->dbC = array(classes + 1);
    return l;
}

void loop_destroy(struct loop *l) {
    float *all[] = {l->E,  l->W,  l->U,  l->Uf, l->C,  l->b,  l->bf, l->bC, l->x,  l->z,  l->hs,
                    l->cs, l->t,  l->S,  l->M,  l->F,  l->P,  l->dz, l->dh, l->dc, l->dS, l->dM,
                    l->df, l->dx, l->dW, l->dU, l->dUf, l->dC, l->db, l->dbf, l->dbC, l->logits};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        tide_free(all[i]);
    }
    free(l);
}

static void mm(bool ta, bool tb, size_t m, size_t n, size_t k, const float *a, size_t lda,
               const float *b, size_t ldb, float alpha, float beta, float *c, size_t ldc) {
    if (m > 0 && n > 0 && k > 0) {
        cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans,
                    (int)m, (int)n, (int)k, alpha, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
    }
}

static inline float sigmoid(float x) {
    return 1.0f / (1.0f + expf(-x));
}

struct view { /* a batch */
    const struct tide_levels *v;
    const int32_t *start, *child, *up, *parent, *word, *label;
};

static void add_rows(float *to, size_t h, const float *from, const int32_t *rows, int32_t begin,
                     int32_t end) {
    memset(to, 0, h * sizeof(float));
    for (int32_t k = begin; k < end; k++) {
        const float *a = from + (size_t)rows[k] * h;
        for (size_t j = 0; j < h; j++) {
            to[j] += a[j];
        }
    }
}

/* ---- forward ---- */

static void cell(struct loop *l, size_t r) {
    size_t h = l->h;
    float *z = l->z + r * l->gates * h, *c = l->cs + r * h, *t = l->t + r * h, *s = l->hs + r * h;
    const float *b = l->b, *m = l->M + r * h;
    if (l->model == LOOP_TREE) {
        for (size_t j = 0; j < h; j++) {
            float i = z[j] = sigmoid(z[j] + b[j]);
            float o = z[h + j] = sigmoid(z[h + j] + b[h + j]);
            float u = z[2 * h + j] = tanhf(z[2 * h + j] + b[2 * h + j]);
            c[j] = i * u + m[j];
            t[j] = tanhf(c[j]);
            s[j] = o * t[j];
        }
        return;
    }
    for (size_t j = 0; j < h; j++) { /* m: the child's c */
        float i = z[j] = sigmoid(z[j] + b[j]);
        float f = z[h + j] = sigmoid(z[h + j] + b[h + j]);
        float o = z[2 * h + j] = sigmoid(z[2 * h + j] + b[2 * h + j]);
        float u = z[3 * h + j] = tanhf(z[3 * h + j] + b[3 * h + j]);
        c[j] = f * m[j] + i * u;
        t[j] = tanhf(c[j]);
        s[j] = o * t[j];
    }
}

static void up_level(struct loop *l, const struct view *b, size_t level) {
    size_t h = l->h, g = l->gates * h, first = b->v->rounds[level].row;
    size_t n = b->v->rounds[level].rows;
    if (l->model == LOOP_FC) {
        for (size_t r = first; r < first + n; r++) {
            memset(l->S + r * 2 * h, 0, 2 * h * sizeof(float));
            for (int32_t k = b->start[r]; k < b->start[r + 1]; k++) {
                memcpy(l->S + r * 2 * h + (size_t)(k - b->start[r]) * h,
                       l->hs + (size_t)b->child[k] * h, h * sizeof(float));
            }
        }
        if (level > 0) {
            mm(false, false, n, h, 2 * h, l->S + first * 2 * h, 2 * h, l->U, h, 1, 0,
               l->z + first * h, h);
        } else {
            memset(l->z, 0, n * h * sizeof(float));
        }
        for (size_t r = first; r < first + n; r++) {
            for (size_t j = 0; j < h; j++) {
                float z = l->z[r * h + j];
                l->z[r * h + j] = z > 0 ? z : 0;
                l->hs[r * h + j] = l->x[r * h + j] + l->z[r * h + j];
            }
        }
        return;
    }
    for (size_t r = first; r < first + n; r++) {
        add_rows(l->S + r * h, h, l->hs, b->child, b->start[r], b->start[r + 1]);
        add_rows(l->M + r * h, h, l->model == LOOP_TREE ? l->P : l->cs, b->child, b->start[r],
                 b->start[r + 1]);
    }
    if (level > 0) {
        mm(false, false, n, g, h, l->S + first * h, h, l->U, g, 1, 1, l->z + first * g, g);
    }
    for (size_t r = first; r < first + n; r++) {
        cell(l, r);
    }
    if (l->model == LOOP_TREE && level + 1 < b->v->round_count) {
        mm(false, false, n, h, h, l->hs + first * h, h, l->Uf, h, 1, 0, l->F + first * h, h);
        for (size_t e = first * h; e < (first + n) * h; e++) {
            l->F[e] = sigmoid(l->F[e] + l->bf[e % h]);
            l->P[e] = l->F[e] * l->cs[e];
        }
    }
}

/* ---- the classifier ---- */

static double classify(struct loop *l, const struct view *b) {
    size_t n = b->v->vertices, h = l->h, k = l->classes;
    double loss = 0;
    if (l->model == LOOP_FC) {
        for (size_t e = 0; e < n * h; e++) {
            loss += (double)l->hs[e];
            l->dh[e] = 1;
        }
        return loss;
    }
    mm(false, false, n, k, h, l->hs, h, l->C, k, 1, 0, l->logits, k);
    for (size_t r = 0; r < n; r++) {
        float *z = l->logits + r * k, most = -INFINITY, sum = 0;
        for (size_t j = 0; j < k; j++) {
            z[j] += l->bC[j];
            most = z[j] > most ? z[j] : most;
        }
        float own = z[b->label[r]];
        for (size_t j = 0; j < k; j++) {
            z[j] = expf(z[j] - most);
            sum += z[j];
        }
        for (size_t j = 0; j < k; j++) {
            z[j] /= sum;
        }
        loss += (double)(logf(sum) + most - own);
        z[b->label[r]] -= 1;
    }
    mm(false, true, n, h, k, l->logits, k, l->C, k, 1, 0, l->dh, h);
    return loss;
}

/* ---- backward ---- */

static void cell_back(struct loop *l, size_t r) {
    size_t h = l->h;
    const float *z = l->z + r * l->gates * h, *t = l->t + r * h, *dh = l->dh + r * h;
    float *dz = l->dz + r * l->gates * h, *dc = l->dc + r * h;
    const float *m = l->M + r * h;
    if (l->model == LOOP_TREE) {
        for (size_t j = 0; j < h; j++) {
            float i = z[j], o = z[h + j], u = z[2 * h + j];
            dc[j] += dh[j] * o * (1 - t[j] * t[j]);
            dz[j] = dc[j] * u * i * (1 - i);
            dz[h + j] = dh[j] * t[j] * o * (1 - o);
            dz[2 * h + j] = dc[j] * i * (1 - u * u);
            l->dM[r * h + j] = dc[j];
        }
        return;
    }
    for (size_t j = 0; j < h; j++) {
        float i = z[j], f = z[h + j], o = z[2 * h + j], u = z[3 * h + j];
        dc[j] += dh[j] * o * (1 - t[j] * t[j]);
        dz[j] = dc[j] * u * i * (1 - i);
        dz[h + j] = dc[j] * m[j] * f * (1 - f);
        dz[2 * h + j] = dh[j] * t[j] * o * (1 - o);
        dz[3 * h + j] = dc[j] * i * (1 - u * u);
        l->dM[r * h + j] = dc[j] * f;
    }
}

static void down_level(struct loop *l, const struct view *b, size_t level) {
    size_t h = l->h, g = l->gates * h, first = b->v->rounds[level].row;
    size_t n = b->v->rounds[level].rows;
    if (l->model == LOOP_FC) {
        for (size_t r = first; r < first + n; r++) {
            for (int32_t k = b->up[r]; k < b->up[r + 1]; k++) {
                size_t p = (size_t)b->parent[k];
                bool second = (size_t)b->child[b->start[p]] != r;
                const float *d = l->dS + p * 2 * h + (second ? h : 0);
                for (size_t j = 0; j < h; j++) {
                    l->dh[r * h + j] += d[j];
                }
            }
            for (size_t j = 0; j < h; j++) {
                l->dz[r * h + j] = l->z[r * h + j] > 0 ? l->dh[r * h + j] : 0;
            }
        }
        if (level > 0) {
            mm(false, true, n, 2 * h, h, l->dz + first * h, h, l->U, h, 1, 0, l->dS + first * 2 * h,
               2 * h);
        }
        return;
    }
    for (size_t r = first; r < first + n; r++) {
        float *dh = l->dh + r * h, *dc = l->dc + r * h;
        add_rows(l->dx, h, l->dS, b->parent, b->up[r], b->up[r + 1]);
        for (size_t j = 0; j < h; j++) {
            dh[j] += l->dx[j];
        }
        add_rows(dc, h, l->dM, b->parent, b->up[r], b->up[r + 1]);
        for (size_t j = 0; l->model == LOOP_TREE && j < h; j++) {
            float f = b->up[r] < b->up[r + 1] ? l->F[r * h + j] : 0;
            l->df[r * h + j] = dc[j] * l->cs[r * h + j] * f * (1 - f);
            dc[j] *= f;
        }
    }
    if (l->model == LOOP_TREE) {
        mm(false, true, n, h, h, l->df + first * h, h, l->Uf, h, 1, 1, l->dh + first * h, h);
    }
    for (size_t r = first; r < first + n; r++) {
        cell_back(l, r);
    }
    if (level > 0) {
        mm(false, true, n, h, g, l->dz + first * g, g, l->U, g, 1, 0, l->dS + first * h, h);
    }
}

static void columns(const float *x, size_t rows, size_t c, float *sum) {
    memset(sum, 0, c * sizeof(float));
    for (size_t r = 0; r < rows; r++) {
        for (size_t j = 0; j < c; j++) {
            sum[j] += x[r * c + j];
        }
    }
}

static void descend(float *w, const float *d, size_t n, float rate) {
    for (size_t i = 0; i < n; i++) {
        w[i] -= rate * d[i];
    }
}

double loop_step(struct loop *l, const struct tide_levels *v, float rate) {
    size_t h = l->h, g = l->gates * h, n = v->vertices, inner = v->round_count ? v->rounds[0].rows : 0;
    const char *d = v->data;
#define LIST(at) ((const int32_t *)(const void *)(d + (at)))
    struct view b = {v,
                     LIST(v->list_at[TIDE_LIST_CHILD_START]),
                     LIST(v->list_at[TIDE_LIST_CHILD]),
                     LIST(v->list_at[TIDE_LIST_PARENT_START]),
                     LIST(v->list_at[TIDE_LIST_PARENT]),
                     LIST(v->input_at[0]),
                     LIST(v->input_at[1])};
    size_t words = v->limit[0][0];
    for (size_t r = 0; r < n; r++) {
        if (b.word[r] >= 0) {
            memcpy(l->x + r * h, l->E + (size_t)b.word[r] * h, h * sizeof(float));
        } else {
            memset(l->x + r * h, 0, h * sizeof(float));
        }
    }
    if (l->model != LOOP_FC) {
        mm(false, false, words, g, h, l->x, h, l->W, g, 1, 0, l->z, g);
        memset(l->z + words * g, 0, (n - words) * g * sizeof(float));
    }
    for (size_t level = 0; level < v->round_count; level++) {
        up_level(l, &b, level);
    }
    double loss = classify(l, &b);
    for (size_t level = v->round_count; level-- > 0;) {
        down_level(l, &b, level);
    }
    if (l->model == LOOP_FC) {
        mm(true, false, 2 * h, h, n - inner, l->S + inner * 2 * h, 2 * h, l->dz + inner * h, h,
           -rate, 1, l->U, h);
        for (size_t r = 0; r < words; r++) {
            descend(l->E + (size_t)b.word[r] * h, l->dh + r * h, h, rate);
        }
        return loss;
    }
    mm(false, true, words, h, g, l->dz, g, l->W, g, 1, 0, l->dx, h);
    for (size_t r = 0; r < words; r++) {
        if (b.word[r] >= 0) {
            descend(l->E + (size_t)b.word[r] * h, l->dx + r * h, h, rate);
        }
    }
    columns(l->dz, n, g, l->db);
    columns(l->logits, n, l->classes, l->dbC);
    mm(true, false, h, g, words, l->x, h, l->dz, g, -rate, 1, l->W, g);
    mm(true, false, h, g, n - inner, l->S + inner * h, h, l->dz + inner * g, g, -rate, 1, l->U, g);
    mm(true, false, h, l->classes, n, l->hs, h, l->logits, l->classes, -rate, 1, l->C, l->classes);
    descend(l->b, l->db, g, rate);
    descend(l->bC, l->dbC, l->classes, rate);
    if (l->model == LOOP_TREE) {
        size_t below = v->round_count ? v->rounds[v->round_count - 1].row : 0;
        mm(true, false, h, h, below, l->hs, h, l->df, h, -rate, 1, l->Uf, h);
        columns(l->df, below, h, l->dbf);
        descend(l->bf, l->dbf, h, rate);
    }
    return loss;
}
