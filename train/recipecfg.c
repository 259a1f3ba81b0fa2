/* recipecfg.c -- what a recipe changes in a network: the heads' first biases, and the cfg's text.
 *
 * run.cfg and the checkpoint carry the text as it was really run, so that any program which knows
 * darknet's keys decodes the weights rightly. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

void
recipe_prior(const struct cfg *c, const struct params *p, struct weights *w)
{
	int head[MAX_HEADS], n = cfg_heads(c, head, MAX_HEADS);

	for (int i = 0; i < n; i++) {
		const struct def_yolo *d = &c->l[head[i]].u.yolo;
		const struct param *b = params_find(p, head[i] - 1, P_BIAS);
		double stride = (double)c->l[0].in_w / c->l[head[i]].w,
		    cells = 640 / stride * 640 / stride;

		for (int a = 0; b && a < d->nmask; a++) {
			float *bias = w->train + b->off + a * (d->classes + 5);

			bias[4] += (float)log(8 / cells); /* about 8 objects in a picture of 640 */
			for (int k = 0; k < d->classes; k++)
				bias[5 + k] += (float)log(.6 / (d->classes - .99));
		}
	}
}

/* One line of a cfg: does it set this key? */
static int
sets(const char *line, size_t len, const char *key)
{
	size_t k = strlen(key), i = 0;

	while (i < len && strchr(" \t", line[i]))
		i++;
	if (len - i < k || strncmp(line + i, key, k))
		return 0;
	for (i += k; i < len && strchr(" \t", line[i]); i++)
		;
	return i < len && line[i] == '=';
}

/* Which layer's section, counted as darknet counts, does line `no` belong to?  -1: [net]. */
static int
layer_at(const struct cfg *c, int no)
{
	int i = -1;

	while (i + 1 < c->nl && c->l[i + 1].line <= no)
		i++;
	return i;
}

/* Is the head, with the convolution before it, what this loss trains?  ciou's form is its own;
 * the others but darknet-iou know exp() and the plain logistic only. */
static int
is_form(const struct cfg *c, int head, enum loss_kind kind)
{
	const struct def_yolo *d = &c->l[head].u.yolo;

	if (kind == LOSS_DARKNET_IOU || c->l[head].type != L_YOLO)
		return 1;
	return kind != LOSS_CIOU && !d->new_coords && d->scale_x_y == 1 && head > 0 &&
	    c->l[head - 1].u.conv.act == ACT_LINEAR;
}

/* A head in our ciou form: its convolution ends in the logistic, and the [yolo] layer decodes
 * (2s - 0.5, 4 s^2): darknet's new_coords with scale_x_y 2.  A head written so, trained by a loss
 * that decodes it plainly, loses these keys: yolo-detect decodes as the text says. */
char *
recipe_cfg_text(const struct cfg *c, enum loss_kind kind, int w, int h)
{
	int ciou = kind == LOSS_CIOU;
	size_t n = 0;
	char *out = NULL;
	FILE *f = open_memstream(&out, &n);
	int no = 0;

	if (!f)
		die(1, "out of memory");
	for (const char *p = c->text, *end = p + c->len; p < end;) {
		const char *nl = (const char *)memchr(p, '\n', (size_t)(end - p));
		size_t len = (size_t)((nl ? nl : end) - p);
		int i = layer_at(c, ++no), yolo = i >= 0 && !is_form(c, i, kind);
		int before = i >= 0 && i + 1 < c->nl && !is_form(c, i + 1, kind);

		if ((yolo && (sets(p, len, "new_coords") || sets(p, len, "scale_x_y"))) ||
		    (before && sets(p, len, "activation")))
			len = 0;		/* said anew below the section's name */
		else if (i < 0 && w && (sets(p, len, "width") || sets(p, len, "height")))
			fprintf(f, "%s=%d\n", sets(p, len, "width") ? "width" : "height",
			    sets(p, len, "width") ? w : h);
		else
			fprintf(f, "%.*s\n", (int)len, p);
		if (ciou && yolo && c->l[i].line == no)
			fprintf(f, "new_coords=1\nscale_x_y=2.0\n");
		if (before && c->l[i].line == no)
			fprintf(f, "activation=%s\n", ciou ? "logistic" : "linear");
		p = nl ? nl + 1 : end;
	}
	fclose(f);
	return out;
}
