/* detections_s8_f32: the boxes of an object detector with the highest scores, of which none overlaps
 * another one by much (non-maximum suppression).
 *   x[0]  (1, N, 4)  int8     codes of boxes: centre y, centre x, height, width
 *   x[1]  (1, N, C)  int8     scores of classes; the first `offset` are those of the background
 *   y     (1, 6 * most + 1)   float: `most` boxes (ymin, xmin, ymax, xmax), their classes, their
 *                             scores, and how many there are; the others are 0
 * `centres` and `halves` have the doubles by which the height and width of an anchor are multiplied,
 * as two words each, for codes -128 .. 127 of y, then of x.  Scratch: for each box its best score,
 * and its index in 4 bytes; before these, 257 words.
 * Source: TensorFlow Lite, kernels/detection_postprocess.cc. */
#ifndef PENSTOCK_DETECTIONS_S8_F32_H
#define PENSTOCK_DETECTIONS_S8_F32_H

#include "real.h"
#include "view.h"
#include "wide.h"

struct detections_s8_f32 {
    int32_t boxes, columns, offset, most;
    int32_t least;      /* score of boxes that count */
    int32_t score_zero; /* a score is (element - score_zero) * reals[0] */
    const float *reals; /* scale of scores, largest overlap */
    const float *anchors;
    const int32_t *centres, *halves;
};

typedef struct {
    float lower[2], upper[2]; /* y, x */
} detections_s8_f32_box;

static inline double detections_s8_f32_factor(const int32_t *words, int32_t axis, int8_t code) {
    double factor;
    memcpy(&factor, words + 2 * (axis * 256 + code + 128), sizeof factor);
    return factor;
}

static detections_s8_f32_box detections_s8_f32_decoded(const struct detections_s8_f32 *p,
                                                       const int8_t *codes, int32_t index) {
    const int8_t *code = codes + 4 * index;
    const float *anchor = p->anchors + 4 * index;
    detections_s8_f32_box box;
    for (int32_t axis = 0; axis < 2; axis++) {
        const double size = (double)anchor[2 + axis];
        const double moved = detections_s8_f32_factor(p->centres, axis, code[axis]) * size;
        const float centre = (float)(moved + (double)anchor[axis]);
        const float half = (float)(detections_s8_f32_factor(p->halves, axis, code[2 + axis]) * size);
        box.lower[axis] = centre - half;
        box.upper[axis] = centre + half;
    }
    return box;
}

static inline float detections_s8_f32_area(const detections_s8_f32_box *box) {
    return (box->upper[0] - box->lower[0]) * (box->upper[1] - box->lower[1]);
}

/* Extent of what two boxes share along an axis. */
static inline float detections_s8_f32_shared(const detections_s8_f32_box *a,
                                             const detections_s8_f32_box *b, int32_t axis) {
    const float lower = a->lower[axis] < b->lower[axis] ? b->lower[axis] : a->lower[axis];
    const float upper = b->upper[axis] < a->upper[axis] ? b->upper[axis] : a->upper[axis];
    return upper - lower < 0.0f ? 0.0f : upper - lower;
}

/* The area that two boxes share, in relation to that of both. */
static float detections_s8_f32_overlap(const detections_s8_f32_box *a,
                                       const detections_s8_f32_box *b) {
    const float areas[2] = {detections_s8_f32_area(a), detections_s8_f32_area(b)};
    if (areas[0] <= 0.0f || areas[1] <= 0.0f) {
        return 0.0f;
    }
    const float shared = detections_s8_f32_shared(a, b, 0) * detections_s8_f32_shared(a, b, 1);
    return shared / (areas[0] + areas[1] - shared);
}

/* The first class with the highest score. */
static int32_t detections_s8_f32_class(const struct detections_s8_f32 *p, const int8_t *scores,
                                       int32_t index) {
    const int8_t *of_box = scores + index * p->columns + p->offset;
    int32_t best = 0;
    for (int32_t k = 1; k < p->columns - p->offset; k++) {
        best = of_box[k] > of_box[best] ? k : best;
    }
    return best;
}

/* Writes the indices of the boxes that count to `sorted`, the highest score first, then the lowest
 * index.  `starts` has 257 words: by 127 - score, where the next index goes.  Returns the number. */
static int32_t detections_s8_f32_sort(const struct detections_s8_f32 *p, const int8_t *scores,
                                      int8_t *starts, int8_t *sorted, int8_t *best) {
    memset(starts, 0, 257 * 4);
    for (int32_t k = 0; k < p->boxes; k++) {
        best[k] = scores[k * p->columns + p->offset + detections_s8_f32_class(p, scores, k)];
        const int32_t place = 128 - best[k];
        penstock_put_s32(starts, place, penstock_get_s32(starts, place) + 1);
    }
    for (int32_t k = 1; k <= 256; k++) {
        penstock_put_s32(starts, k, penstock_get_s32(starts, k) + penstock_get_s32(starts, k - 1));
    }
    const int32_t count = p->least > 127 ? 0 : penstock_get_s32(starts, 128 - p->least);
    for (int32_t k = 0; k < p->boxes; k++) {
        const int32_t place = 127 - best[k];
        const int32_t at = penstock_get_s32(starts, place);
        penstock_put_s32(starts, place, at + 1);
        penstock_put_s32(sorted, at, k);
    }
    return count;
}

PENSTOCK_KERNEL void detections_s8_f32(const struct detections_s8_f32 *p, const penstock_source *x,
                                       const penstock_sink *y, int32_t lower, int32_t upper,
                                       int8_t *scratch) {
    (void)lower;
    (void)upper;
    const int8_t *codes = x[0].base;
    const int8_t *scores = x[1].base;
    int8_t *out = y->base;
    int8_t *sorted = scratch + 257 * 4;
    int8_t *best = sorted + 4 * p->boxes;
    const int32_t count = detections_s8_f32_sort(p, scores, scratch, sorted, best);
    int32_t found = 0;
    memset(out, 0, (size_t)(6 * p->most + 1) * 4);
    for (int32_t k = 0; k < count && found < p->most; k++) {
        const int32_t index = penstock_get_s32(sorted, k);
        if (index < 0) { /* overlaps a box with a higher score */
            continue;
        }
        const detections_s8_f32_box box = detections_s8_f32_decoded(p, codes, index);
        for (int32_t axis = 0; axis < 2; axis++) {
            penstock_put_f32(out, 4 * found + axis, box.lower[axis]);
            penstock_put_f32(out, 4 * found + 2 + axis, box.upper[axis]);
        }
        const int32_t class = detections_s8_f32_class(p, scores, index);
        penstock_put_f32(out, 4 * p->most + found, (float)class);
        penstock_put_f32(out, 5 * p->most + found,
                         (float)(best[index] - p->score_zero) * p->reals[0]);
        found++;
        for (int32_t l = k + 1; l < count; l++) {
            const int32_t other = penstock_get_s32(sorted, l);
            if (other >= 0) {
                const detections_s8_f32_box next = detections_s8_f32_decoded(p, codes, other);
                if (detections_s8_f32_overlap(&box, &next) > p->reals[1]) {
                    penstock_put_s32(sorted, l, -1);
                }
            }
        }
    }
    penstock_put_f32(out, 6 * p->most, (float)found);
}

#endif
