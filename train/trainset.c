/* trainset.c -- the -O settings of yolo-train: key, default, range, meaning.
 *
 * A default of NULL depends on the cfg or on the loss; the meaning says how.  man/yolo-train.1 has
 * the same list, and a test compares them. */
#include <stddef.h>

#include "train/train.h"

const struct setting train_settings[] = {
	{ "accumulate", "global", "global|mean|sum",
	    "what the loss of a mini-batch is divided by: the whole batch's counts or its own" },
	{ "anchor_t", "4", "1..inf",
	    "ciou: an anchor takes a truth whose sides differ by less than this factor" },
	{ "aug", NULL, "none|darknet|ultralytics-2019|mosaic",
	    "augmentation, as -A; for settings files" },
	{ "best", "AP", "AP|AP50|AP75|APs|APm|APl|AR1|AR10|AR100|ARs|ARm|ARl|P|R|F1",
	    "figure of the validation that says which weights are best" },
	{ "beta2", NULL, "0..1",
	    "Adam: decay of the squared gradients (the cfg's B2, else 0.999)" },
	{ "bn_momentum", NULL, "0..1", "share of a batch in the running statistics (0.1; "
	    "darknet's losses 0.01)" },
	{ "box_gain", NULL, "0..inf",
	    "weight of the box term (1 with ciou; not in darknet's losses)" },
	{ "bucket", "6250000", "int 1..inf", "floats of a gradient bucket between ranks" },
	{ "check", "0", "0|1", "print what the run would learn from, and stop" },
	{ "class_counts", NULL, "text",
	    "weight classes by the inverse of these counts, with commas; auto: those of the data; "
	    "none (the cfg's counters_per_class)" },
	{ "clip", NULL, "0..inf", "largest gradient norm (10 with ciou, else 0: none)" },
	{ "cls_gain", NULL, "0..inf",
	    "weight of the class term (0.5 with ciou; not in darknet's losses)" },
	{ "cutoff", NULL, "int 0..10000", "load only the first N layers of -w" },
	{ "decay", NULL, "0..1", "weight decay of convolution weights (the cfg's decay)" },
	{ "deterministic", "0", "0|1", "on CUDA: the same bits in every run" },
	{ "drops", NULL, "text",
	    "policy steps: shares of the run at which the rate falls to a tenth (the cfg's steps, "
	    "else 0.8,0.9)" },
	{ "ema", NULL, "0..1", "average of the weights that is validated and kept as best (0.999 "
	    "with ciou)" },
	{ "ema_tau", "200", "0..inf", "steps over which the average gets its full length" },
	{ "emulate", "0", "0|1",
	    "bfloat16 by -p also on a CPU without it: the same numbers, slowly" },
	{ "exact", "0", "0|1", "plain kernels only" },
	{ "exposure", NULL, "0..100", "augmentation: factor of brightness (the cfg's exposure)" },
	{ "flip", NULL, "0..1", "augmentation: share of mirrored pictures (0.5)" },
	{ "focal", NULL, "0..10",
	    "focal loss: its gamma; darknet-iou knows 0 and 2 (2 if the cfg says focal_loss=1, "
	    "else 0)" },
	{ "freeze", "0", "int 0..inf", "the first N layers learn nothing and keep their running "
	    "statistics" },
	{ "gain", NULL, "0..inf", "factor on the loss (64; 0, with darknet's losses: 1/batch)" },
	{ "hue", NULL, "0..1", "augmentation: shift of hue (the cfg's hue)" },
	{ "jitter", NULL, "0..1", "augmentation: darknet's shift of sides (the cfg's jitter)" },
	{ "label_smooth", NULL, "0..1",
	    "label smoothing of the classes, with ciou, ultralytics-archive, darknet-iou (the "
	    "cfg's label_smooth_eps)" },
	{ "loss", NULL,
	    "ciou|darknet|darknet-iou|ultralytics-2019|ultralytics-multi|ultralytics-archive",
	    "loss flavour, as -L; for settings files" },
	{ "lr", NULL, "0..inf", "learning rate (the cfg's learning_rate)" },
	{ "lr_final", NULL, "0..1", "cosine: the last learning rate over the first (0.01; "
	    "ultralytics-archive 0.05)" },
	{ "momentum", NULL, "0..1", "momentum, Adam's beta1 (the cfg's momentum)" },
	{ "mosaic", NULL, "0..1", "augmentation: share of four-picture mosaics (0.5 with ciou, 0 "
	    "if the cfg says mosaic=0)" },
	{ "mosaic_end", "1", "0..1",
	    "share of the run that has mosaics; then pictures are as the detector will see them" },
	{ "multiscale", NULL, "text",
	    "input sizes over time: 0, 1 (the loss flavour's rule) or lo:hi, sides or, up to 16, "
	    "factors of the cfg's (by the cfg's random)" },
	{ "nan_stop", "10", "int 1..inf", "end the run after so many skipped updates in a row" },
	{ "nesterov", NULL, "0|1", "Nesterov's momentum (1 with ciou)" },
	{ "nominal", "0", "int 0..1000000",
	    "add up batches until so many pictures make an update; gain and decay in proportion "
	    "(0: the batch)" },
	{ "obj_gain", NULL, "0..inf",
	    "weight of the objectness term (1 with ciou; not in darknet's losses)" },
	{ "patience", "0", "int 0..inf", "end the run after so many validations that are no "
	    "better (0: never)" },
	{ "plan", "0", "0|1", "print the bytes needed and stop" },
	{ "policy", NULL,
	    "constant|steps|step|exp|poly|sigmoid|sgdr|cosine|ultralytics-2019|ultralytics-archive",
	    "learning rate over time; the last two with a warm-up of their own (the cfg's "
	    "policy)" },
	{ "power", NULL, "0..100", "exponent of the warm-up and of policy poly (the cfg's power)" },
	{ "prior", NULL, "0|1", "start the heads at the odds of finding nothing (1 with ciou)" },
	{ "rect", "0", "0|1",
	    "validation: pictures padded to whole strides only, as yolo-detect's rect does" },
	{ "resize", "stb", "stb|bilinear|darknet",
	    "how pictures are resized with augmentation none" },
	{ "rule", NULL, "sgd|adam|adamw", "optimiser (the cfg's adam, with ciou as adamw; else "
	    "sgd)" },
	{ "saturation", NULL, "0..100", "augmentation: factor of saturation (the cfg's "
	    "saturation)" },
	{ "save", "0", "int 0..inf", "checkpoint every n steps too, not only at an epoch's end" },
	{ "scale", NULL, "0..1", "augmentation: half range of zoom (0.5 with mosaic)" },
	{ "stall", "60", "1..1000000000", "several ranks: end the run when one shows no life for "
	    "so many seconds" },
	{ "steps", NULL, "int 1..inf", "end the run early, after n steps" },
	{ "syncbn", "0", "0|1", "batch-norm statistics over all ranks" },
	{ "threads", NULL, "int 1..1024", "compute threads of a rank (cores / ranks)" },
	{ "translate", NULL, "0..1", "augmentation: half range of shift (0.1 with mosaic)" },
	{ "warmup", NULL, "int 0..1000000000",
	    "steps of rising learning rate (the cfg's burn_in)" },
	{ NULL, NULL, NULL, NULL }
};
