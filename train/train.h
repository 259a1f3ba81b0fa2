/* train.h -- a run: recipe, rates, one step, validation, and what is kept of it.
 *
 * Needs all parts below.  Promises: stopped and resumed is never stopped, N ranks are one rank to
 * rounding, and a run that ends leaves a checkpoint that loads. */
#ifndef TRAIN_PART_H
#define TRAIN_PART_H

#include "base/base.h"
#include "model/model.h"
#include "kernel/kernel.h"
#include "sync/sync.h"
#include "loss/loss.h"
#include "shard/shard.h"
#include "device/device.h"
#include "net/net.h"
#include "loader/loader.h"
#include "detect/detect.h"
#include "eval/eval.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- optimplan.c, schedule.c: rates and sizes of a step ------------------------------------ */

/* One update's settings, whoever made them. */
struct warm { double lr, lr_bias, momentum, decay; int accumulate; };
/* Which parameter is in which group: kernels, biases and scales apart, layers with learning_rate
 * or dont_update of their own apart, frozen ones (train_only_bn and all before it; all before
 * stopbackward=1) apart. */
struct optim_plan {
	unsigned char *group;		/* host, units bytes; to be put on the device; free() */
	size_t units;			/* OPTIM_UNIT floats each, the whole of ntrain */
	int nclass;
	struct { double scale; long until; } cls[OPTIM_GROUPS / 3]; /* no update while b <= until */
};
struct params;
int optim_plan(const struct cfg *, const struct params *, struct optim_plan *, struct err *);
/* Rates of update b (from 1).  Decay on kernels only, or on all (darknet's Adam). */
void optim_rates(const struct optim_plan *, long b, const struct warm *, int decay_all,
    struct optim_rates *);

/* Darknet's policies; b: the update, from 1 (0 is legal).  seed: for policy random. */
double schedule_lr(const struct cfg_net *, uint64_t seed, long b);
/* Ultralytics' recipe of 2020: the cosine falls from lr0 to lr0*lrf by epochs; until iteration
 * n = max(warmup * samples/batch, 500) lr, bias lr, momentum, decay and accumulate ramp up. */
struct cosine {
	double lr0, lrf, momentum, decay, epochs, warmup;	/* lrf .05, warmup 3: golden */
	long samples;			/* per epoch */
	int batch, nominal;		/* accumulate goes to nominal/batch (64) */
};
struct warm schedule_cosine(const struct cosine *, long it);
/* Its recipes of 2019; epoch, and i in it, from 0: the first batch has rate 0. */
enum ultra_lr { ULTRA_EPOCH250, ULTRA_MILESTONES };
double schedule_ultralytics(double lr0, enum ultra_lr, long batches, long epoch, long i);
double schedule_ema(double decay, double tau, long t);	/* decay*(1-exp(-t/tau)); tau 0: decay */
/* Multi-scale: the sizes of a run's inputs.  The rules draw one for ten batches, SIZE_V5 for each:
 * SIZE_PJREDDIE and SIZE_2019 (ultralytics at 613ce1b): 320..608 squares, whatever the cfg says;
 * SIZE_ALEXEY: the cfg's size times 1/r..r, plus a resize_step; SIZE_ARCHIVE: times 1/1.5..1.5;
 * SIZE_V5: times 0.5..1.5.  All are multiples of unit. */
enum size_rule { SIZE_FIXED, SIZE_PJREDDIE, SIZE_ALEXEY, SIZE_2019, SIZE_ARCHIVE, SIZE_V5 };
#define SIZE_FACTOR 16	/* a range that ends here or below is in factors of the cfg's side */
#define SIZE_TRIES 4096
struct size_plan {
	enum size_rule rule;
	int w, h;			/* the cfg's size */
	int unit, every;		/* pixels; batches */
	int lo, hi, keep_ratio;		/* of the longer side, pixels; 0: squares */
	int given;			/* the range is the user's */
	double factor;			/* SIZE_ALEXEY: r */
};
/* random: the cfg's, of the last head; 0: always its size.  stride: sides are multiples of it. */
void schedule_sizes(struct size_plan *, const struct cfg_net *, int stride, enum size_rule rule,
    double random);
/* Then, or instead: a range of the longer side; the other follows.  -1: no multiple lies in it. */
int schedule_size_range(struct size_plan *, enum size_rule rule, double lo, double hi);
/* Size of batch `step` (from 0) of `steps`, a function of (seed, step). */
void schedule_size(const struct size_plan *, uint64_t seed, long step, long steps, int *w, int *h);
void schedule_size_max(const struct size_plan *, int *w, int *h);
/* i from 0 to SIZE_TRIES - 1 goes through the sizes, each at least once. */
void schedule_size_try(const struct size_plan *, int i, int *w, int *h);

/* ---- transfer.c: the weights a new run begins with ----------------------------------------- */

/* The weights a new run begins with (transfer.c): the file's, its averages where it has some.
 * Heads of another number of classes keep their first values, and that is said; all else must
 * fit. */
int weights_begin(const char *path, const struct cfg *, const struct params *, struct weights *,
    int cutoff, struct err *);

/* ---- trainer.c: one step of training ------------------------------------------------------- */

enum accum { ACCUM_GLOBAL, ACCUM_MEAN, ACCUM_SUM };
enum rule { RULE_SGD, RULE_ADAM, RULE_ADAMW };
struct train_opts {
	struct loss loss;		/* kind and gains; the rest comes from the cfg */
	int parts;			/* mini-batches of a step (subdivisions) */
	enum accum accum;		/* what the parts' means are divided by */
	double gain;			/* factor on gradients and loss; 0: 1/images of the step */
	enum rule rule;
	int nesterov;
	double decay, b1, b2, eps, clip;	/* clip: largest gradient norm, 0 none */
	double ema, ema_tau;		/* 0: no average of the weights */
	size_t bucket;			/* floats of a gradient bucket */
};
struct step_result {
	double loss, box, obj, cls;	/* of the whole batch over all ranks, gain applied */
	double gnorm;			/* norm of the gradient before clipping */
	int finite;	/* 0: loss or gradient was not finite, the update was skipped */
	int images;
};
struct trainer {
	struct net *net;
	struct sync *sync;		/* NULL: one rank */
	struct train_opts opt;
	float *mom, *mom2, *ema, *ema_stat;	/* device; NULL where not in use */
	float *stat_was;	/* device: statistics before the step, for one that is skipped */
	void *loss_ws, *optim_ws;
	struct optim_plan plan;		/* rates by layer and kind */
	unsigned char *group;		/* device: plan.group */
	int max_truth;
	struct truth *part;		/* truths of one mini-batch */
	long t;				/* updates made */
	long skipped;			/* updates skipped */
};
struct trainer *trainer_open(struct net *, struct sync *, const struct train_opts *, struct err *);
void trainer_close(struct trainer *);
size_t trainer_bytes(const struct params *, const struct train_opts *);	/* optimiser state */
/* Forward, loss, backward, all-reduce, update.  The same on every rank.  -1: a rank was lost. */
int trainer_step(struct trainer *, const struct batch *, const struct warm *, struct step_result *,
    struct err *);
void trainer_put(struct trainer *, const struct weights *);	/* parameters and state */
void trainer_get(struct trainer *, struct weights *);
/* The first n layers, and those before a stopbackward=1, shall be frozen. */
int trainer_freeze(struct cfg *, long n, struct err *);
/* Heads and anchors of a cfg into a loss; -1: its heads differ in classes or anchors. */
int trainer_heads(struct loss *, const struct cfg *, struct err *);

/* ---- recipe.c: how a run trains ------------------------------------------------------------ */

#define RECIPE_DROPS 8
enum run_policy { RUN_CFG, RUN_2019, RUN_ARCHIVE };
extern const struct setting train_settings[];	/* the -O settings of yolo-train */
struct recipe {
	struct train_opts train;
	struct augment aug;
	struct cfg_net net;	/* the cfg's training keys, overridden by flags and settings */
	float bn_momentum;
	int syncbn, batch, prior;	/* prior: heads begin at the odds of finding nothing */
	long steps, save, nan_stop;	/* steps: length of the schedule; save: 0 at epochs only */
	long patience;		/* end after so many validations that are no better; 0: never */
	int best;			/* column of val_result that says which weights are best */
	double epochs;			/* 0: the length is in steps */
	double lr_final;		/* cosine: the last rate over the first */
	double mosaic_end;		/* share of the run that has mosaics */
	struct size_plan size;		/* filled by recipe_sizes */
	enum run_policy policy;		/* RUN_CFG: net.policy */
	double drop[RECIPE_DROPS]; /* policy steps: shares of the run at which the rate falls */
	int ndrop;			/* 0: at the cfg's steps */
	long samples, total;		/* of an epoch, of the run; filled by recipe_length */
	float *cls_weight;		/* of the classes, by recipe_classes; free() */
};
/* From the cfg, the loss and augmentation asked for (NULL: by the cfg's keys), settings and flags
 * (0: not given). */
int recipe_make(struct recipe *, const struct cfg *, const char *loss, const char *aug, int batch,
    double epochs, const struct settings *, struct err *);
/* Multi-scale, for the cfg at the size that was asked for: the flavour's rule where the cfg's last
 * head has random, or what the setting says.  -1: it says no range. */
int recipe_sizes(struct recipe *, const struct cfg *, const struct settings *, struct err *);
/* How long the run is: epochs, 0: the cfg's max_batches, else 100 epochs; recipe_make does this. */
void recipe_span(struct recipe *, const struct cfg *, double epochs);
void recipe_length(struct recipe *, long samples);	/* steps from epochs and the data's size */
/* Rates, momentum and decay of a step, from 0. */
void recipe_rates(const struct recipe *, uint64_t seed, long step, struct warm *);
/* Label smoothing, focal loss: the settings, else the cfg's keys, into the recipe's loss or, for
 * the darknet flavours, the cfg's heads.  -1: the flavour has no such thing. */
int recipe_loss(struct recipe *, struct cfg *, const struct settings *, struct err *);
/* Weights of the classes from the boxes that each has; count: those of the data. */
int recipe_classes(struct recipe *, struct cfg *, const struct settings *, const long *count,
    struct err *);
/* The keys that the file gives and a training of this kind does not look at, as in
 * "[net] hue; [yolo] max iou_loss"; NULL: none.  free() */
struct cfg_use {
	enum loss_kind loss;
	enum aug_kind aug;
	enum lr_policy policy;
	int adam, burn_in;
};
char *cfg_unused(const struct cfg *, const struct cfg_use *);
/* Warns of all that in the cfg, as the user wrote it, has no effect in this training. */
void recipe_tell(const struct recipe *, const struct cfg *);
/* Biases of the heads at the odds of finding nothing: few cells hold an object. */
void recipe_prior(const struct cfg *, const struct params *, struct weights *);
/* The cfg as text that a plain detector decodes rightly: our ciou loss means new_coords; and its
 * size, unless w is 0. */
char *recipe_cfg_text(const struct cfg *, enum loss_kind, int w, int h);

/* ---- validate.c: AP in the middle of a run ------------------------------------------------- */

enum { VAL_COLS = 16 };		/* COCO's twelve, P R F1 thr */
struct val_result { double col[VAL_COLS]; };
extern const char *const val_name[VAL_COLS];	/* AP AP50 ... thr */
struct validator;
struct val_opts {
	struct shard *shard;
	int batch, threads, rect;	/* rect: as in detect_opts */
	enum loss_kind loss;
	struct sync *sync;		/* is told that this rank works; may be NULL */
	int (*stop)(void);		/* asked before each batch; NULL: never */
};
struct validator *validator_open(struct dev *, const struct cfg *, const struct val_opts *,
    struct err *);
void validator_close(struct validator *);
/* What a detector that finds nothing scores: a figure of COCO's is 0, or -1 where no box of the
 * truth is one that it counts. */
int validation_none(struct shard *, struct val_result *, struct err *);
/* Detect on the whole shard with these parameters (device memory) and score.  The values pass
 * through the text that yolo-detect prints, so the result is that of the pipe to the last digit.
 * 1: it was stopped. */
int validator_run(struct validator *, const float *train, const float *stat, struct val_result *,
    struct err *);

/* ---- trainprep.c, trainuse.c, trainrun.c: yolo-train --------------------------------------- */

struct train_cmd {
	const char *arg[128];		/* arguments of the option letters, NULL where not given */
	char **in;			/* operands */
	int nin, resume;
	struct settings set;
	/* filled by train_prepare */
	char *saved;			/* a resumed run's options, which arg points into */
	int lock;			/* descriptor that locks the run's folder, 0: none */
	int usage, planned;		/* the error is the user's; only the plan was wanted */
	long ranks, jobs;
	long here;		/* ranks of this host */
	uint64_t seed;
	const char *dir;
	struct cfg *cfg;		/* as it is really run */
	struct recipe recipe;
	struct checkpoint from;		/* step 0 for a new run */
	struct shard *train, *val;	/* val NULL: no validation */
	int threads;			/* compute threads of a rank */
	char *scratch;	/* check=1 of a new run: a folder in its place, which goes again */
	char *screen;		/* what train_fit found, to be shown before the first step */
};
/* Options, resume, data (packed into the run's folder unless it is a shard), cfg and recipe.
 * Starts no thread and touches no device.  The message is empty where yolo-prep has said it. */
int train_prepare(struct train_cmd *, struct err *);
/* trainfit.c: -1: it could learn nothing.  Leaves the screen. */
int train_fit(struct train_cmd *, struct err *);
/* trainuse.c: what the user should know of this run, each in one line. */
void train_tell_unused(const struct train_cmd *);	/* settings that it does not look at */
/* A resumed run of another length; epochs: what it had, NULL: no -e. */
void train_tell_length(const struct train_cmd *, const char *epochs);
void train_tell_ranks(const struct train_cmd *);	/* a resumed run of other ranks, threads */
/* Compute threads of one of so many ranks of this host; joined: a launcher has made them. */
int train_threads(const struct train_cmd *, int ranks, int joined);
char *train_command(const struct train_cmd *);	/* the options that determine numbers; free() */
/* What must be the same on all ranks, for world_agree; free(). */
char *train_told(const struct train_cmd *);
int train_free_setting(const char *key);	/* -R may give it another value */
/* The training of one rank: exit status 0, 1 (message in err), 130, 143. */
int train_rank(struct train_cmd *, const struct world *, struct err *);
void train_close(struct train_cmd *);

#ifdef __cplusplus
}
#endif
#endif
