/* loader.h -- batches: the order of samples, augmentation, threads that stay ahead.
 *
 * Needs image, labels, loss (a truth) and shard.  Promises: a batch is a function of seed and
 * number alone, whatever the threads and ranks. */
#ifndef LOADER_PART_H
#define LOADER_PART_H

#include "base/base.h"
#include "image/image.h"
#include "labels/labels.h"
#include "loss/loss.h"
#include "shard/shard.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- augment.c: a decoded picture becomes a sample ----------------------------------------- */

enum aug_kind { AUG_NONE, AUG_DARKNET, AUG_ULTRA2019, AUG_MOSAIC };
struct augment {
	enum aug_kind kind;
	double jitter, hue, saturation, exposure, flip;	/* darknet: U(-j,j), factors 1..s */
	double degrees, translate, scale, shear, mosaic;	/* ultralytics: half ranges */
	double hsv_h, hsv_s, hsv_v; /* half ranges: hue in turns, gains of saturation and value */
	enum resize_kind resize; /* none only; the others read the picture once, bilinearly */
	int stretch;			/* none only */
	long mosaic_last;		/* samples from this one on are no mosaics; 0: all may be */
};
void augment_defaults(struct augment *, enum aug_kind);
#define AUG_PICTURES 4
#define AUG_WINDOW 256		/* mosaic's partners are at most so many samples away */
/* The pictures that sample t is made of, as sample numbers, itself first; how many. */
int augment_picks(const struct augment *, uint64_t seed, long t, long pick[AUG_PICTURES]);
struct sample {			/* a decoded picture and its labels, in its pixels */
	struct image im;
	const struct box *box;
	int nbox;
};
struct warp;
/* Sample t from its n pictures, a function of these arguments alone: pixels into out[h][w][3],
 * labels into truth, which has room for all the pictures' boxes; at most max of them (0: all).
 * Crowds and difficult boxes are not trained on, nor what is cut off or shrunk to nothing.  Truths
 * get image 0.  Returns their number. */
int augment_sample(const struct augment *, uint64_t seed, long t, const struct sample *, int n,
    int w, int h, int max, struct warp *, float *out, struct truth *);

/* ---- loader.c, order.c: batches in their order --------------------------------------------- */

struct loader_opts {
	uint64_t seed;
	int batch;			/* the global batch B */
	int rank, ranks;
	int parts;			/* the batch is cut into so many, 0: one */
	int w, h;			/* network input, or the largest when size is given */
	int threads;
	long total;	/* samples of the whole run, 0: steps * batch (the last is whole) */
	int grey;			/* pictures of one channel, not three */
	int in_order;			/* validation: sample t is record t, one pass */
	int max_truth;			/* per image, 0: all */
	struct augment aug;
	/* Multi-scale: the input of a step, at most w h, a function of the step alone because
	 * batches are made ahead; called by one thread at a time.  NULL: w h. */
	void (*size)(void *arg, long step, int *w, int *h);
	void *size_arg;
};
struct batch {
	long step;			/* number of the batch, from 0 */
	long first;			/* first sample of the whole batch */
	long t0;			/* first sample of this rank's slice */
	int n, w, h;			/* images of this rank; w h of the input */
	int n_global;			/* images in the whole batch */
	float *x;			/* [n][h][w][3], or of 1; 0..1 */
	struct truth *truth;
	int ntruth;
	long *record;			/* which record each image is (mosaic: its first picture) */
	struct fit *fit;		/* and how it lies in the input (augmentation none only) */
	int *pic_w, *pic_h;
	double wait;			/* seconds the consumer waited for it */
};
struct loader;
/* The batches first_step .. first_step + steps - 1 of a run: batch i holds the samples i * B up to
 * (i + 1) * B or total, of which a rank gets its share of each part (order_share), one behind the
 * other. */
struct loader *loader_open(struct shard *, const struct loader_opts *, long first_step, long steps,
    struct err *);
/* The next batch, in order; the caller may hold two at a time.  NULL at the end (err->msg empty) or
 * for a picture that cannot be used, the same one at any number of threads: "...: record N (name):
 * why". */
int loader_wait(struct loader *, double seconds);	/* at most so long; 1: it is there */
struct batch *loader_next(struct loader *, struct err *);
void loader_free(struct loader *, struct batch *);	/* give the slot back */
void loader_close(struct loader *);	/* at any moment */
/* The one block that its ring takes and, with mosaic, what of this shard's pictures is kept
 * decoded, LOADER_KEEP bytes at most.  Each thread's file and decoded pictures, and labels beyond
 * LOADER_TRUTH a picture, come on top. */
#define LOADER_TRUTH 64
#define LOADER_KEEP ((size_t)256 << 20)
size_t loader_bytes(const struct loader_opts *, struct shard *);
/* The record of sample t: a keyed permutation of 0..n-1 for every epoch t / n. */
long loader_record(uint64_t seed, long n, long t);
/* Of a batch of n images, those of a part that a rank computes: [*from, *to).  A part is the same
 * images whatever the ranks: part p is the n * p / parts-th up to the n * (p + 1) / parts-th.  The
 * ranks have slices of it, those whose turn it is one image more; the turn moves on from part to
 * part, so that what ranks have of a batch differs by one image at most. */
void order_share(int n, int parts, int part, int ranks, int rank, int *from, int *to);
int order_images(int n, int parts, int ranks, int rank);	/* of all parts (0: one) */
int order_image(int n, int parts, int ranks, int rank, int i);	/* the i-th of them; n: none */

#ifdef __cplusplus
}
#endif
#endif
