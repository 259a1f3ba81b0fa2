/* cfguse.c -- the keys of a cfg that a training of some kind does not look at.
 *
 * A cfg is written for one way to train, and may be trained in another: darknet's normalizers mean
 * nothing to the ciou loss, its hue nothing to the mosaics.  cfgkeys.c remarks on keys that never
 * have an effect here; this is about the others, so that none is passed over in silence. */
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

enum { DARK = 1 << LOSS_DARKNET, IOU = 1 << LOSS_DARKNET_IOU,
	OURS = 1 << LOSS_CIOU | 1 << LOSS_ARCHIVE, EVERY = -1 };
enum { A_DARK = 1 << AUG_DARKNET, A_MOSAIC = 1 << AUG_MOSAIC };
enum { P_POWER = 1 << LR_POLY | 1 << LR_RANDOM };

/* Who looks at a key: losses, augmentations, policies; all three must.  neutral: the value that
 * says what happens anyway. */
static const struct { const char *section, *keys, *neutral; int loss, aug, policy; } uses[] = {
	{ "yolo", "ignore_thresh max", "", DARK | IOU, EVERY, EVERY },
	{ "yolo", "truth_thresh", "1", DARK | IOU, EVERY, EVERY },
	{ "yolo", "iou_normalizer obj_normalizer delta_normalizer max_delta iou_thresh "
	    "iou_thresh_kind iou_loss show_details", "", IOU, EVERY, EVERY },
	{ "yolo", "objectness_smooth", "0", IOU, EVERY, EVERY },
	{ "yolo", "label_smooth_eps focal_loss", "0", IOU | OURS, EVERY, EVERY },
	{ "yolo", "counters_per_class", "", IOU | OURS, EVERY, EVERY },
	{ "yolo", "cls_normalizer", "1", IOU, EVERY, EVERY },
	{ "yolo", "jitter", "", EVERY, A_DARK, EVERY },
	{ "region", "jitter", "", EVERY, A_DARK, EVERY },
	{ "net", "hue saturation exposure", "", EVERY, A_DARK, EVERY },
	{ "net", "mosaic", "0", EVERY, A_MOSAIC, EVERY },
	{ "net", "steps scales", "", EVERY, EVERY, 1 << LR_STEPS },
	{ "net", "step", "", EVERY, EVERY, 1 << LR_STEP | 1 << LR_SIGMOID },
	{ "net", "scale", "", EVERY, EVERY, 1 << LR_STEP },
	{ "net", "gamma", "", EVERY, EVERY, 1 << LR_EXP | 1 << LR_SIGMOID },
	{ "net", "power", "", EVERY, EVERY, P_POWER },		/* and with burn_in: see below */
	{ "net", "learning_rate_min", "", EVERY, EVERY, 1 << LR_SGDR },
	{ "net", "sgdr_cycle sgdr_mult", "", EVERY, EVERY, 1 << LR_SGDR },
};

static int
holds(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; (p = strstr(p, word)); p += n)
		if ((p == list || p[-1] == ' ') && (!p[n] || p[n] == ' '))
			return 1;
	return 0;
}

static int
neutral(const char *value, const char *of)
{
	double a, b;

	return !num_real(value, -1e300, 1e300, &a) && !num_real(of, -1e300, 1e300, &b) && a == b;
}

static int
is_unused(const char *section, const struct cfg_key *k, const struct cfg_use *u)
{
	int net = !strcmp(section, "net"), scale = !strcmp(k->name, "scale_x_y");

	if (net && holds("B1 B2 eps", k->name))
		return !u->adam;
	if (net && !strcmp(k->name, "power") && u->burn_in > 0)
		return 0;
	if (!net && (scale || !strcmp(k->name, "new_coords")))	/* ciou's form is its own */
		return u->loss != LOSS_DARKNET_IOU &&
		    !neutral(k->value, u->loss != LOSS_CIOU ? scale ? "1" : "0" :
		    scale ? "2" : "1");
	for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
		if (!strcmp(section, uses[i].section) && holds(uses[i].keys, k->name))
			return !neutral(k->value, uses[i].neutral) &&
			    !(uses[i].loss >> u->loss & uses[i].aug >> u->aug &
			    uses[i].policy >> u->policy & 1);
	return 0;
}

/* The unused keys of all sections of a kind, once each, with blanks between; NULL: none. */
static char *
unused_in(const struct cfg_sections *all, const char *section, const struct cfg_use *u)
{
	char *list = NULL;

	for (int i = 0; i < all->n; i++) {
		const struct cfg_section *s = &all->s[i];

		if (strcmp(s->name, section) && (i || strcmp(section, "net")))	/* [network] */
			continue;
		for (int k = 0; k < s->n; k++) {
			char *old = list;

			if (!is_unused(section, &s->key[k], u) ||
			    (old && holds(old, s->key[k].name)))
				continue;
			list = xasprintf("%s%s%s", old ? old : "", old ? " " : "", s->key[k].name);
			free(old);
		}
	}
	return list;
}

char *
cfg_unused(const struct cfg *c, const struct cfg_use *u)
{
	static const char *const kinds[] = { "net", "yolo", "region" };
	struct cfg again = { .path = c->path, .text = c->text, .len = c->len };
	struct cfg_sections all;
	char *said = NULL;
	struct err e;

	if (cfg_lex(&again, &all, &e))		/* it was read before */
		die(1, "%s", e.msg);
	for (int i = 0; i < 3; i++) {
		char *list = unused_in(&all, kinds[i], u), *old = said;

		if (!list)
			continue;
		said = xasprintf("%s%s[%s] %s", old ? old : "", old ? "; " : "", kinds[i], list);
		free(old);
		free(list);
	}
	cfg_unlex(&all);
	for (int i = 0; i < again.nnote; i++)
		free(again.note[i]);
	free(again.note);
	free(again.note_more);
	return said;
}

void
recipe_tell(const struct recipe *r, const struct cfg *c)
{
	static const char *const augs[] = { [AUG_NONE] = "none", [AUG_DARKNET] = "darknet",
		[AUG_ULTRA2019] = "ultralytics-2019", [AUG_MOSAIC] = "mosaic" };
	int cfgs = r->policy == RUN_CFG;	/* ultralytics' schedules have no keys */
	struct cfg_use u = { r->train.loss.kind, r->aug.kind, cfgs ? r->net.policy : LR_CONSTANT,
		r->train.rule != RULE_SGD && r->net.adam, cfgs ? r->net.burn_in : 0 };
	char *list = cfg_unused(c, &u);

	for (int i = 0; i < c->nnote; i++)
		warn("%s", c->note[i]);
	if (list)
		warn("%s: not used with -L %s and -A %s: %s", c->path, loss_name(u.loss),
		    augs[u.aug], list);
	free(list);
}
