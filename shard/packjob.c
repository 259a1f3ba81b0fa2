/* packjob.c -- one picture on its way into a shard: decoded in full, remarks, recoding.
 *
 * Runs in a worker thread and touches nothing but its job.  What it has to say waits in the job
 * until the picture's turn comes, so the report's order does not depend on the threads. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

static void remark(struct pack_job *, const char *fmt, ...) PRINTF(2, 3);

static void
remark(struct pack_job *j, const char *fmt, ...)
{
	char *line, *all;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&line, fmt, ap) < 0)
		die(1, "out of memory");
	va_end(ap);
	for (char *p = line; *p; p++)
		*p = *p == '\n' ? ' ' : *p;
	all = xasprintf("%s%s\n", j->note ? j->note : "", line);
	free(j->note);
	free(line);
	j->note = all;
}

static enum codec
codec_of(const void *p, size_t n)
{
	enum image_format f = image_format(p, n);

	return f == IMG_JPEG ? CODEC_JPEG : f == IMG_PNG ? CODEC_PNG : CODEC_OTHER;
}

/* Smaller, and as JPEG; boxes go along. */
static void
recode(const struct pack_opts *o, struct pack_job *j, struct image *im)
{
	struct record *r = &j->rec;
	struct fit f = fit_letterbox(im->w, im->h, o->w ? o->w : im->w, o->h ? o->h : im->h);
	struct image small;
	struct err why;

	if (o->w && (im->w > o->w || im->h > o->h)) {
		small = image_new(f.nw, f.nh);
		image_resize(im, &small, RESIZE_STB);
		image_free(im);
		*im = small;
		for (int i = 0; i < r->nbox; i++) {
			j->box[i].x *= f.sx;
			j->box[i].y *= f.sy;
			j->box[i].w *= f.sx;
			j->box[i].h *= f.sy;
			j->box[i].area *= f.sx * f.sy;
		}
	} else if (!o->quality)
		return;
	free(j->bytes);
	j->bytes = NULL;
	j->cap = 0;
	if (image_jpeg(im, o->quality ? o->quality : 90, &j->bytes, &r->nbytes, &why))
		j->bad = xasprintf("%s: %s", r->name, why.msg);
	r->bytes = j->bytes;
	r->codec = CODEC_JPEG;
	r->w = im->w;
	r->h = im->h;
}

/* Decode the job's bytes: size, remarks, recoding. */
void
pack_decode(const struct pack_opts *o, struct pack_job *j, const char *path)
{
	struct record *r = &j->rec;
	struct image im;
	struct err why;
	int w, h;

	if (image_decode(r->bytes, r->nbytes, &im, &why)) {
		j->bad = xasprintf("%s: %s", path, why.msg);
		return;
	}
	if (why.msg[0])
		remark(j, "%s: %s", path, why.msg);
	if (r->w && (r->w != im.w || r->h != im.h))
		remark(j, "%s: the labels say %dx%d, the picture is %dx%d; the picture is right",
		    path, r->w, r->h, im.w, im.h);
	image_size(r->bytes, r->nbytes, &w, &h, &r->orientation, &why);
	r->w = im.w;
	r->h = im.h;
	r->codec = codec_of(r->bytes, r->nbytes);
	for (int i = 0; i < r->nbox && r->id >= 0; i++) {
		const struct box *b = &j->box[i];

		if (b->x < -1 || b->y < -1 || b->x + b->w > im.w + 1 || b->y + b->h > im.h + 1)
			remark(j,
			    "%s: annotation %lld: the box sticks out of the picture, kept as "
			    "given%s",
			    path, (long long)b->id,
			    b->x >= 0 && b->w > b->x && b->h > b->y && b->w <= im.w && b->h <= im.h
				? "; corners instead of width and height?"
				: "");
	}
	if (r->orientation > 1 && r->nbox && r->id >= 0)
		remark(j,
		    "%s: EXIF orientation %d is not applied; were the boxes drawn on the stored "
		    "pixels?",
		    path, r->orientation);
	if (o->w || o->quality)
		recode(o, j, &im);
	image_free(&im);
}
