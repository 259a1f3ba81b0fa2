/* int.h -- what is kept of a detection and of a truth; one class of one picture. */
#ifndef EVAL_INT_H
#define EVAL_INT_H

#include "eval/eval.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- a word: what a rule says of a detection at all its IoUs ---- */

/* Bit t: a true positive at IoU t; bit EVAL_IOUS + t: ignored there; neither: a false positive. */
static inline uint32_t
word_of(uint32_t tp, uint32_t ignored)
{
	return tp | ignored << EVAL_IOUS;
}

static inline uint32_t
word_all(int niou)
{
	return (1u << niou) - 1;
}

static inline uint32_t
word_true(uint32_t word)
{
	return word & word_all(EVAL_IOUS);
}

static inline uint32_t
word_ignored(uint32_t word)
{
	return word >> EVAL_IOUS;
}

static inline enum eval_is
word_at(uint32_t word, int t)
{
	return word_ignored(word) >> t & 1 ? EVAL_NEITHER : word >> t & 1 ? EVAL_TRUE : EVAL_FALSE;
}

static inline uint32_t		/* word w of detection i; w = words: within so many maxdets */
eval_word(const struct eval *e, size_t i, int w)
{
	return e->row[(size_t)e->code[i] * (size_t)(e->words + 1) + (size_t)w];
}

/* ---- the mask of a truth ---- */

static inline unsigned
truth_outside(int area)			/* COCO ignores it in this area range */
{
	return 1u << area;
}

static inline unsigned
truth_in_rule(int rule)			/* it counts */
{
	return 1u << (EVAL_AREAS + rule);
}

/* How often detection i counts. */
static inline uint32_t
eval_times(const struct eval_tables *tab, size_t i)
{
	return tab->weight ? tab->weight[tab->e->pic[i]] : 1;
}

/* ---- one class of one picture ---- */

struct eval_buf { void *p, *pair, *edge; size_t cap, pairs, edges; };
struct eval_group {
	const struct eval *e;
	const struct eval_image *im;
	const int *ord, *tr;		/* [nd] detections by falling score, [nt] truths */
	int nd, nt;
	uint32_t *code;			/* [nd][words + 1] is written but for the last word */
	double *over;		/* [nd] darknet's IoU of a true positive at its first threshold */
	struct eval_buf *buf;		/* scratch, kept by the caller */
};
void eval_match(const struct eval_group *);

#ifdef __cplusplus
}
#endif
#endif
