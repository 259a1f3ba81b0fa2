/* t-cfg.c -- cfgs: what each key gives, what each mistake is told, shapes. */
#include <stdlib.h>
#include <string.h>

#include "yolo.h"
#include "test/tap.h"

static struct cfg *
parse(const char *text, struct err *e)
{
	e->msg[0] = 0;
	return cfg_parse("a.cfg", text, strlen(text), e);
}

/* Lines are counted by the cases below: [net] is line 1, [convolutional] 7, [yolo] 13. */
static const char base[] =
    "[net]\nbatch=4\nwidth=64\nheight=96\nchannels=3\n\n"
    "[convolutional]\nfilters=27\nsize=3\nstride=2\npad=1\n\n"
    "[yolo]\nmask=0,1,2\nanchors=8,8, 14,14, 22,20, 26,34\nclasses=4\nnum=4\n";

/* base with `from` (its first place) made `to`. */
static char *
change(const char *from, const char *to)
{
	const char *at = strstr(base, from);

	if (!at) {
		printf("Bail out! base has no '%s'\n", from);
		exit(1);
	}
	return xasprintf("%.*s%s%s", (int)(at - base), base, to, at + strlen(from));
}

static void
refused(const char *from, const char *to, const char *want)
{
	char *text = change(from, to), *what = xasprintf("%.60s -> %.60s: %s", from, to, want);
	struct err e;
	struct cfg *c = parse(text, &e);

	for (char *p = what; *p; p++)
		if (*p == '\n' || *p == '#')
			*p = ' ';
	if (!ok(!c && strstr(e.msg, want), what))
		printf("# said: %s\n", c ? "(accepted)" : e.msg);
	cfg_close(c);
	free(text);
	free(what);
}

static void
noted(const char *from, const char *to, const char *want)
{
	char *text = change(from, to);
	struct err e;
	struct cfg *c = parse(text, &e);
	int found = 0;

	for (int i = 0; c && i < c->nnote; i++)
		found |= !strcmp(c->note[i], want);
	if (!ok(found, want))
		printf("# said: %s\n", c && c->nnote ? c->note[0] : e.msg);
	cfg_close(c);
	free(text);
}

/* How lines, keys and sections are written. */
static void
wrong_words(void)
{
	refused("[net]\n", "batch=1\n[net]\n", "a.cfg:1: 'batch=1' stands before any section");
	refused("[net]\n", "[convolutional]\n", "a.cfg:1: a cfg begins with [net]");
	refused("[net]\n", "", "a.cfg:1: 'batch=4' stands before any section");
	refused("filters=27", "filters=", "a.cfg:8: filters= has no value");
	refused("filters=27", "filters", "a.cfg:8: 'filters': want key=value");
	refused("filters=27", "=27", "a.cfg:8: '=27': want key=value");
	refused("filters=27", "filter=27",
	    "a.cfg:8: unknown key 'filter' in [convolutional]; do you mean "
	    "filters?");
	refused("batch=4", "Batch=4", "a.cfg:2: unknown key 'Batch' in [net]; do you mean batch?");
	refused("filters=27", "counters_per_class=1", "; it belongs in [yolo]");
	refused("filters=27", "zqxwvy=1", "a.cfg:8: unknown key 'zqxwvy' in [convolutional]");
	refused("[convolutional]", "[Convolutional]",
	    "a.cfg:7: unknown section [Convolutional]; do you "
	    "mean [convolutional]?");
	refused("[convolutional]", "[convolutional] # first", "a.cfg:7: '[convolutional]#first': a "
	    "section's name ends with ]");
	refused("[convolutional]", "[convolutional", "a.cfg:7: '[convolutional': a section's name");
	refused("[convolutional]", "[softmax]", "a.cfg:7: [softmax] belongs to classifiers");
	refused("[convolutional]", "[net]", "a.cfg:7: a second [net]");
	refused("[convolutional]", "[]", "a.cfg:7: unknown section []");
}

/* Values, alone and with each other. */
static void
wrong_values(void)
{
	refused("filters=27", "filters=30",
	    "a.cfg:8: filters=30 before [yolo]: want filters=27, 3 anchors x "
	    "(4 classes + 5)");
	refused("classes=4", "classes=5", "a.cfg:8: filters=27 before [yolo]: want filters=30");
	refused("filters=27", "filters=999999999999999999999",
	    "a.cfg:8: filters=999999999999999999999: want "
	    "a whole number from 1");
	refused("filters=27", "filters=-1", "a.cfg:8: filters=-1: want a whole number from 1");
	refused("filters=27", "filters=27.5", "a.cfg:8: filters=27.5: want a whole number");
	refused("filters=27", "filters=2e1", "a.cfg:8: filters=2e1: want a whole number");
	refused("filters=27", "filters=many", "a.cfg:8: filters=many: want a whole number");
	refused("width=64", "width=0", "a.cfg:3: width=0: want a whole number from 1");
	refused("width=64", "width=65",
	    "a.cfg:3: width=65 is not a multiple of 2, the net's stride; 64 or "
	    "66 would be");
	refused("height=96", "height=95", "a.cfg:4: height=95 is not a multiple of 2");
	refused("width=64\n", "", "a.cfg:1: [net] wants width, height and channels");
	refused("batch=4", "batch=4\nsubdivisions=3",
	    "a.cfg:3: subdivisions=3 does not divide batch=4");
	refused("batch=4", "policy=steps", "a.cfg:2: policy=steps wants the keys steps and scales");
	refused("batch=4", "policy=steps\nsteps=1,2\nscales=.1", "a.cfg:4: 2 steps but 1 scales");
	refused("batch=4", "policy=stairs", "a.cfg:2: policy=stairs: want constant, step, steps");
	refused("batch=4", "decay=nan", "a.cfg:2: decay=nan: want a number");
	refused("batch=4", "momentum=1e999", "a.cfg:2: momentum=1e999: want a number from 0 to 1");
	refused("pad=1", "activation=leaky # x", "a comment has a line of its own");
	refused("pad=1", "activation=tanh", "a.cfg:11: activation=tanh: want linear, leaky");
	refused("pad=1", "groups=2", "a.cfg:7: groups=2 does not divide both the 3 input channels");
	refused("pad=1", "xnor=1", "a.cfg:11: xnor=1 is not built here; only xnor=0");
	refused("size=3", "size=63\npad=0", "a.cfg:14: [yolo]: its grid of 1x17 does not divide");
	refused("mask=0,1,2", "mask=0,1,4", "a.cfg:14: mask 4: num=4, so there are anchors 0 to 3");
	refused("mask=0,1,2", "mask=0,1,-1", "a.cfg:14: mask -1");
	refused("mask=0,1,2", "mask=0,1,x", "a.cfg:14: mask: 'x' is no whole number");
	refused("mask=0,1,2", "mask=0,,2", "a.cfg:14: mask=0,,2: nothing between two commas");
	refused("anchors=8,8,", "anchors=8,-8,", "a.cfg:15: anchors: -8 is no size");
	refused("num=4\n", "num=4\ncounters_per_class=1,2\n",
	    "a.cfg:18: counters_per_class has 2 numbers for "
	    "4 classes");
	refused("num=4\n", "num=4\niou_loss=riou\n",
	    "a.cfg:18: iou_loss=riou: want mse, iou, giou, diou or "
	    "ciou");
	refused("[yolo]", "[route]\nlayers=1\n[yolo]",
	    "a.cfg:14: layers: 1 is layer 1, and this is layer 1");
	refused("[yolo]", "[route]\nlayers=-2\n[yolo]", "a.cfg:14: layers: -2 is layer -1");
	refused("[yolo]", "[route]\n[yolo]", "a.cfg:13: [route] wants the key layers");
	refused("[yolo]", "[shortcut]\nfrom=-1,7\n[yolo]", "a.cfg:14: from: 7 is layer 7");
	refused(
	    "[yolo]", "[upsample]\n[yolo]", "a.cfg:14: [yolo]: a [convolutional] with filters=27");
	refused("[yolo]", "[maxpool]\nstride=2\n[route]\nlayers=0,1\n[yolo]",
	    "a.cfg:16: layers: layer 0");
}

/* What the previous list cannot say with one change. */
static void
structures(void)
{
	static const char top[] =
	    "[net]\nwidth=64\nheight=64\nchannels=3\n[convolutional]\nfilters=8\n";
	static const struct { const char *text, *want;
	} t[] = {
		{ "[maxpool]\nstride=2\n[route]\nlayers=0,1\n",
		    "a.cfg:10: layers: layer 0 is 64x64, layer 1 "
		    "is 32x32; a route joins equal sizes" },
		{ "[maxpool]\nstride=2\n[shortcut]\nfrom=0\n",
		    "a.cfg:10: from: layer 0 is 64x64, the layer "
		    "before is 32x32" },
		{ "[route]\nlayers=-1\ngroups=3\n",
		    "a.cfg:7: groups=3 does not divide the 8 channels" },
		{ "[route]\nlayers=-1\ngroups=2\ngroup_id=2\n",
		    "a.cfg:7: group_id=2, but groups=2" },
		{ "[scale_channels]\nfrom=0\n", "want 1x1 and the same channels" },
		{ "[maxpool]\nstride=2\n[sam]\nfrom=0\n", "want the same size" },
		{ "[reorg]\nstride=4\n", "a.cfg:7: 8 input channels: want a multiple of" },
		{ "[reorg3d]\nstride=3\n", "a.cfg:7: stride=3 does not divide the input of 64x64" },
		{ "[maxpool]\nsize=2\nstride=2\npadding=4\n",
		    "a.cfg:10: padding=4 (in all) leaves windows" },
		{ "[maxpool]\nsize=17\n", "a.cfg:8: size=17: want a whole number from 1 to 16" },
		{ "[avgpool]\n[convolutional]\nsize=3\n", "a.cfg:8: a kernel of 3x3 does not fit" },
		{ "[upsample]\nstride=64\n[upsample]\nstride=64\n[upsample]\nstride=64\n",
		    "more than 2147483647 "
		    "numbers" },
		{ "[convolutional]\nfilters=1048576\nsize=63\n", "weights in a layer" },
		{ "[shortcut]\nfrom=0\nweights_type=per_feature\n",
		    "a.cfg:9: weights_type=per_feature is not" },
		{ "[reorg3d]\nstride=64\n[reorg3d]\nstride=64\n",
		    "a.cfg:9: stride=64 does not divide" },
	};
	struct err e;

	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		char *text = xasprintf("%s%s", top, t[i].text);
		struct cfg *c = parse(text, &e);

		if (!ok(!c && strstr(e.msg, t[i].want), t[i].want))
			printf("# said: %s\n", c ? "(accepted)" : e.msg);
		cfg_close(c);
		free(text);
	}
	ok(!parse("[net]\nwidth=8\nheight=8\nchannels=3\n", &e) && strstr(e.msg, "no layers"),
	    "no layers");
	ok(!parse("", &e) && strstr(e.msg, "a.cfg:1: a cfg begins with [net]"), "an empty file");
	ok(!cfg_parse("a.cfg", "[net]\0", 6, &e) && strstr(e.msg, "zero bytes"), "zero bytes");
	ok(!parse("\n \n[yolo\n", &e) && strstr(e.msg, "a.cfg:3:"), "no bracket at the end");
}

static void
oddities(void)
{
	noted("batch=4", "batch=4\nbatch=8", "a.cfg:3: given twice, the first counts: batch");
	noted(
	    "filters=27", "filters=27\t#32", "a.cfg:8: a comment behind a value, cut off: filters");
	noted("batch=4", "mosaic_bound=1", "a.cfg:2: no effect here: mosaic_bound");
	noted("26,34", "26,34,", "a.cfg:15: a comma at the end: anchors");
	noted(
	    "num=4", "num=5", "a.cfg:15: anchors has fewer than 2 x num numbers, the rest are 0.5");
	noted("num=4", "num=3",
	    "a.cfg:15: anchors has more than 2 x num numbers, the rest is not used");
	noted("num=4", "num=2", "a.cfg:17: num is too small for the masks: all anchors count");
	noted("[net]", "\xef\xbb\xbf[net]",
	    "a.cfg:1: begins with a byte order mark, which darknet does not "
	    "survive");
	noted("size=3", "clip=1\nsize=3", "a.cfg:9: no effect here: clip");
}

/* The same net however it is written. */
static void
spellings(void)
{
	static const struct { const char *from, *to, *what; } t[] = {
		{ "filters=27", " fil ters\t= 2 7 ", "white space anywhere" },
		{ "[convolutional]", "[conv]", "alias of a section" },
		{ "[net]", "[network]", "[network]" },
		{ "filters=27", "filters=27.0", "27.0" },
		{ "filters=27", "; a comment\n  # another\nfilters=27", "comments" },
		{ "batch=4", "batch=4\nangle=0", "a neutral value is no news" },
		{ "stride=2", "stride=1\nstride_x=2\nstride_y=2", "stride_x, stride_y" },
		{ "pad=1", "padding=1", "padding" },
		{ "pad=1", "pad=1\npadding=7", "pad wins over padding" },
		{ "num=4\n", "num=4", "no newline at the end" },
	};
	struct err e;
	struct cfg *a = parse(base, &e);
	char *crlf = (char *)xcalloc(2, sizeof base), *p = crlf;

	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		char *text = change(t[i].from, t[i].to);
		struct cfg *b = parse(text, &e);

		ok(b && b->nl == a->nl && b->nnote == 0 && !memcmp(&a->l[0].u, &b->l[0].u,
		    sizeof a->l[0].u.conv) && b->l[1].w == 32 && b->l[1].h == 48, t[i].what);
		cfg_close(b);
		free(text);
	}
	for (const char *s = base; *s; s++) {
		if (*s == '\n')
			*p++ = '\r';
		*p++ = *s;
	}
	cfg_close(a);
	ok((a = parse(crlf, &e)) != NULL && a->nnote == 0, "CRLF");
	cfg_close(a);
	free(crlf);
}

static void
defaults(void)
{
	static const char text[] =
	    "[net]\nwidth=32\nheight=32\nchannels=3\n[convolutional]\n[maxpool]\n"
	    "stride=2\n[upsample]\n[dropout]\n[convolutional]\nfilters=75\n[yolo]\nmask=0,1,2\nnum="
	    "3\n";
	struct err e;
	struct cfg *c = parse(text, &e);
	const struct cfg_net *n;
	const struct def_yolo *y;

	if (!ok(c != NULL, "a cfg of defaults")) {
		printf("# %s\n", e.msg);
		return;
	}
	n = &c->net;
	y = &c->l[5].u.yolo;
	ok(n->batch == 1 && n->subdivisions == 1 && n->max_batches == 0 && n->lr == .001 &&
		n->momentum == .9 && n->decay == .0001 && n->policy == LR_CONSTANT &&
		n->power == 4 && n->eps == 1e-6 && n->b1 == .9 && n->b2 == .999 && n->flip == 1 &&
		n->resize_step == 32 && n->saturation == 1 && n->exposure == 1 && n->hue == 0,
	    "[net]");
	ok(c->l[0].u.conv.k == 1 && c->l[0].u.conv.size == 1 && c->l[0].u.conv.pad == 0 &&
		c->l[0].u.conv.act == ACT_LOGISTIC && !c->l[0].u.conv.bn &&
		c->l[0].u.conv.groups == 1 && c->l[0].lr_scale == 1,
	    "[convolutional]: the activation is logistic");
	ok(c->l[1].u.pool.size == 2 && c->l[1].u.pool.padding == 1 && c->l[1].w == 16, "[maxpool]");
	ok(c->l[2].u.stride.stride == 2 && c->l[2].u.stride.scale == 1, "[upsample]");
	ok(c->l[3].u.dropout.p == .2f, "[dropout]");
	ok(y->classes == 20 && y->max == 200 && y->jitter == .2f && y->resize == 1 &&
		y->ignore_thresh == .5f && y->truth_thresh == 1 && y->scale_x_y == 1 &&
		y->iou_normalizer == .75f && y->obj_normalizer == 1 && y->cls_normalizer == 1 &&
		y->iou_loss == IOU_MSE && y->iou_thresh == 1 && y->iou_thresh_kind == IOU_IOU &&
		y->nms_kind == NMS_DEFAULT && y->beta_nms == .6f && y->anchor[5] == .5f &&
		!y->given,
	    "[yolo]");
	cfg_close(c);
}

static void
sizes(void)
{
	struct err e;
	char *text = change("[yolo]", "[yolo]\nnew_coords=1\nlabel_smooth_eps=.1\niou_loss=ciou");
	struct cfg *c = parse(text, &e);

	ok(c && c->l[0].w == 32 && c->l[0].h == 48 && c->l[0].c == 27 && cfg_stride(c) == 2,
	    "sides that differ");
	ok(cfg_flops(c, 0) == 2. * 32 * 48 * 27 * 27 && cfg_flops(c, 1) == 0, "flops");
	ok(cfg_floats(c, 0) == 27 * 27 + 27 && cfg_floats(c, 1) == 0, "floats");
	ok(!cfg_resize(c, 128, 32, &e) && c->l[1].w == 64 && c->l[1].h == 16 && c->net.w == 128,
	    "resize");
	ok(cfg_resize(c, 33, 32, &e) && strstr(e.msg, "a.cfg: width=33 is not a multiple of 2") &&
	    c->l[1].w == 64 && c->net.w == 128, "a size that does not fit leaves the old one");
	ok(cfg_resize(c, 0, 32, &e) && cfg_resize(c, 32, 1 << 20, &e), "no size at all");
	ok(c->l[1].u.yolo.given == YOLO_IOU_LOSS && c->l[1].u.yolo.new_coords == 1,
	    "keys that were given");
	cfg_close(c);
	free(text);
}

int
main(void)
{
	wrong_words();
	wrong_values();
	structures();
	oddities();
	spellings();
	defaults();
	sizes();
	return done();
}
