/* pack.c -- labels and pictures of any kind into a shard.
 *
 * First all labels are read, then threads read and decode pictures ahead while the main thread
 * writes them in order, so the file does not depend on the number of threads.  A picture is
 * decoded in full before it is taken: what is in a shard can be decoded.  The picture decides its
 * own size.  Its bytes are kept as they are unless recoding was asked for. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "shard/shard.h"

static void pack_decode(const struct pack_opts *o, struct pack_job *j, const char *path);

/* Pictures seen so far by the sum of their bytes; item: the first that has it. */
struct seen { struct keys sum; int *item; size_t cap; };
struct source { int shard; long record; };	/* shard -1: a file */
struct pack {
	const struct pack_opts *opt;
	struct labels l;
	struct dataset d;
	struct source *src;		/* of each item */
	size_t src_cap;
	struct shard **shard;
	int nshard;
	struct shard_stream *stream;	/* stdin */
	int *stream_class;
	struct shard_writer *out;
	struct pack_result *res;
	struct err *e;
	struct seen seen;
	/* the window of jobs: item i stands in slot i % slots */
	struct pack_job *slot;
	int slots, next, written, quit;
	pthread_mutex_t lock;
	pthread_cond_t ready, room;
};

static void
load(struct pack *p, int i, struct pack_job *j)
{
	const struct item *it = &p->d.item[i];
	const struct source *s = &p->src[i];
	struct err why;
	struct record r;

	free(j->note);
	free(j->bad);
	j->note = j->bad = NULL;
	j->note_len = j->note_cap = 0;
	j->box = (struct box *)xrealloc(j->box, (size_t)(it->nbox + 1) * sizeof *j->box);
	if (it->nbox)
		memcpy(j->box, it->box, (size_t)it->nbox * sizeof *j->box);
	if (s->shard >= 0) {
		if (shard_read(p->shard[s->shard], s->record, &r, &j->bytes, &j->cap, &why)) {
			j->bad = xstrdup(why.msg);
			return;
		}
		j->rec = r;
		j->packed = 1;
	} else {
		j->packed = 0;
		memset(&j->rec, 0, sizeof j->rec);
		free(j->bytes);
		j->cap = 0;
		j->bytes =
		    (unsigned char *)plain_read(it->path, (size_t)1 << 30, &j->rec.nbytes, &why);
		if (!j->bytes) {
			j->bad = xstrdup(why.msg);
			return;
		}
		j->rec.bytes = j->bytes;
		j->rec.id = it->id;
		j->rec.w = it->w;
		j->rec.h = it->h;
	}
	j->rec.name = it->name;
	j->rec.box = j->box;
	j->rec.nbox = it->nbox;
	if (s->shard < 0 || p->opt->w || p->opt->quality)
		pack_decode(p->opt, j, it->path ? it->path : it->name);
}

static void *
worker(void *arg)
{
	struct pack *p = (struct pack *)arg;

	pthread_mutex_lock(&p->lock);
	for (;;) {
		struct pack_job *j;
		int i;

		while (!p->quit && p->next < p->d.n && p->next >= p->written + p->slots)
			pthread_cond_wait(&p->room, &p->lock);
		if (p->quit || p->next >= p->d.n)
			break;
		i = p->next++;
		j = &p->slot[i % p->slots];
		pthread_mutex_unlock(&p->lock);
		load(p, i, j);
		pthread_mutex_lock(&p->lock);
		j->done = 1;
		pthread_cond_broadcast(&p->ready);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* The item that had the same bytes, -1: none, and this one is remembered. */
static int
seen_before(struct seen *s, const void *bytes, size_t n, int item)
{
	XXH128_hash_t h = XXH3_128bits(bytes, n);
	int had = s->sum.n, k = keys_add(&s->sum, &h, sizeof h);

	if (k < had)
		return s->item[k];
	s->item = (int *)xgrow(s->item, &s->cap, (size_t)had + 1, sizeof *s->item);
	s->item[k] = item;
	return -1;
}

static int
same_labels(const struct item *a, const struct item *b)
{
	int same = a->nbox == b->nbox;

	for (int i = 0; i < a->nbox && same; i++)
		same = a->box[i].cls == b->box[i].cls && a->box[i].x == b->box[i].x &&
		    a->box[i].y == b->box[i].y && a->box[i].w == b->box[i].w &&
		    a->box[i].h == b->box[i].h;
	return same;
}

/* A picture that is there twice is packed twice, as the input says, and told. */
static void
tell_twin(struct pack *p, const struct pack_job *j, int i)
{
	const struct item *it = &p->d.item[i], *twin;
	int k = seen_before(&p->seen, j->rec.bytes, j->rec.nbytes, i);

	if (k < 0)
		return;
	twin = &p->d.item[k];
	label_say(&p->l, SAY_NOTE, "%s: the same picture as %s%s", it->path ? it->path : it->name,
	    twin->path ? twin->path : twin->name, same_labels(it, twin) ? "" :
	    ", with other labels");
}

/* What became of one picture: into the shard, or into the report. */
static int
settle(struct pack *p, struct pack_job *j)
{
	char *save = NULL;

	if (j->note)
		for (char *s = strtok_r(j->note, "\n", &save); s; s = strtok_r(NULL, "\n", &save))
			label_say(&p->l, SAY_NOTE, "%s", s);
	if (j->bad) {
		label_say(&p->l, SAY_PICTURE, "%s", j->bad);
		return 0;
	}
	if (shard_add(p->out, &j->rec, p->e))
		return -1;
	p->res->pictures++;
	p->res->boxes += j->rec.nbox;
	for (int i = 0; i < j->rec.nbox; i++)
		p->res->untrained += (j->rec.box[i].flags & (BOX_CROWD | BOX_DIFFICULT)) != 0;
	if (p->res->pictures % 64 == 0)
		progress("%ld of %d pictures", p->res->pictures, p->d.n);
	return 0;
}

static int
write_items(struct pack *p)
{
	int n = p->opt->threads < 1 ? 1 : p->opt->threads, started = 0, r = 0;
	pthread_t *th = (pthread_t *)xmalloc((size_t)n * sizeof *th);

	image_threads(n);
	p->slots = 4 * n;
	p->slot = (struct pack_job *)xcalloc((size_t)p->slots, sizeof *p->slot);
	for (; started < n; started++)
		if (pthread_create(&th[started], NULL, worker, p))
			break;
	if (!started)
		r = err_set(p->e, "cannot start a thread: %s", strerror(errno));
	for (int i = 0; i < p->d.n && !r; i++) {
		struct pack_job *j = &p->slot[i % p->slots];

		pthread_mutex_lock(&p->lock);
		while (!j->done)
			pthread_cond_wait(&p->ready, &p->lock);
		pthread_mutex_unlock(&p->lock);
		if (!j->bad && !*p->opt->stop)
			tell_twin(p, j, i);
		r = *p->opt->stop ? err_set(p->e, "interrupted") : settle(p, j);
		pthread_mutex_lock(&p->lock);
		j->done = 0;
		p->written++;
		pthread_cond_broadcast(&p->room);
		pthread_mutex_unlock(&p->lock);
	}
	pthread_mutex_lock(&p->lock);
	p->quit = 1;
	pthread_cond_broadcast(&p->room);
	pthread_mutex_unlock(&p->lock);
	while (started)
		pthread_join(th[--started], NULL);
	for (int i = 0; i < p->slots; i++) {
		free(p->slot[i].box);
		free(p->slot[i].bytes);
		free(p->slot[i].note);
		free(p->slot[i].bad);
	}
	free(p->slot);
	free(th);
	return r;
}

/* Classes of a shard or stream within ours: by name, nameless ones by their number. */
static int *
map_classes(struct pack *p, char *const *name, const int64_t *id, int n, struct err *e)
{
	int *map = (int *)xmalloc((size_t)n * sizeof *map), had = p->d.nclass;

	for (int i = 0; i < n; i++) {
		map[i] = -1;
		if (had && name[i])
			map[i] = label_class(&p->l, name[i], i);
		else if (i < had)
			map[i] = i;
		else if (!p->d.fixed) {
			label_new_class(&p->d, name[i], id[i]);
			map[i] = p->d.nclass - 1;
		}
		if (map[i] < 0) {
			err_set(e, "class %d (%s) %s among the names", i,
			    name[i] ? name[i] : "nameless",
			    map[i] == -1 ? "is not" : "stands twice");
			free(map);
			return NULL;
		}
	}
	return map;
}

static int
add_shard(struct pack *p, const char *path)
{
	struct shard *s = shard_open(path, p->e);
	struct record r;
	struct err why;
	char **name;
	int64_t *id;
	int n, *map;

	if (!s)
		return -1;
	p->shard = (struct shard **)xrealloc(p->shard, (size_t)(p->nshard + 1) * sizeof *p->shard);
	p->shard[p->nshard++] = s;
	n = shard_classes(s, &name, &id);
	if (!(map = map_classes(p, name, id, n, &why)))
		return err_set(p->e, "%s: %s", path, why.msg);
	for (long i = 0; i < shard_count(s) && !shard_labels(s, i, &r, p->e); i++) {
		struct item *it = label_item(&p->l, r.name, NULL);

		it->id = r.id;
		it->w = r.w;
		it->h = r.h;
		for (int k = 0; k < r.nbox; k++) {
			struct box b = r.box[k];

			b.cls = map[b.cls];
			label_box(it, &b);
		}
		p->src =
		    (struct source *)xgrow(p->src, &p->src_cap, (size_t)p->d.n, sizeof *p->src);
		p->src[p->d.n - 1] = (struct source){ p->nshard - 1, i };
	}
	free(map);
	return 0;
}

/* stdin: a shard's first byte is no text's. */
static int
add_stdin(struct pack *p)
{
	char **name;
	int64_t *id;
	int c = p->opt->nul ? 0 : getc(stdin), n;
	struct err why;

	if (c != 0x89) {
		if (!p->opt->nul && c != EOF)
			ungetc(c, stdin);
		return labels_read(&p->d, p->opt->nul ? "-0" : "-", p->opt->names, p->opt->report,
		    p->opt->arg, p->e);
	}
	ungetc(c, stdin);
	if (!(p->stream = stream_open(stdin, "stdin", p->e)))
		return -1;
	n = stream_classes(p->stream, &name, &id);
	if (!(p->stream_class = map_classes(p, name, id, n, &why)))
		return err_set(p->e, "stdin: %s", why.msg);
	return 0;
}

static int
read_inputs(struct pack *p)
{
	const struct pack_opts *o = p->opt;
	int r = 0;

	p->d.split = o->split;
	if (o->names && labels_names(&p->d, o->names, p->e))
		return -1;
	for (int i = 0; i < o->nin && !r; i++) {
		int shard = shard_is(o->in[i]), from = p->d.n;

		if (shard && !o->salvage && shard_again(o->in, i))
			continue;
		if (!shard && strcmp(o->in[i], "-"))
			r = labels_read(&p->d, o->in[i], NULL, o->report, o->arg, p->e);
		else if (shard && !o->salvage)
			r = add_shard(p, o->in[i]);
		else if (p->stream)
			r = err_set(p->e, "only one stream can be read");
		else if (shard && !freopen(o->in[i], "rb", stdin))
			r = err_set(p->e, "%s: %s", o->in[i], strerror(errno));
		else
			r = add_stdin(p);
		p->src =
		    (struct source *)xgrow(p->src, &p->src_cap, (size_t)p->d.n + 1, sizeof *p->src);
		for (; from < p->d.n && (!shard || o->salvage); from++)
			p->src[from] = (struct source){ -1, 0 };
	}
	return r;
}

/* What -x cannot write as COCO or VOC, and no JSON or XML can hold. */
static void
note_names(struct pack *p)
{
	for (int i = 0; i < p->d.nclass; i++)
		if (p->d.class_name[i] && !utf8_is(p->d.class_name[i]))
			label_say(&p->l, SAY_NOTE, "class %d: '%s': its name is not UTF-8, which "
			    "COCO and VOC want", i, p->d.class_name[i]);
}

/* The records of stdin's stream, after all else. */
static int
write_stream(struct pack *p)
{
	const struct pack_opts *o = p->opt;
	struct pack_job j;
	struct err why;
	int r;

	memset(&j, 0, sizeof j);
	j.packed = 1;
	while ((r = stream_next(p->stream, &j.rec, &why)) == 1 && !*o->stop) {
		j.box = (struct box *)xrealloc(j.box, (size_t)(j.rec.nbox + 1) * sizeof *j.box);
		for (int k = 0; k < j.rec.nbox; k++) {
			j.box[k] = j.rec.box[k];
			j.box[k].cls = p->stream_class[j.box[k].cls];
		}
		j.rec.box = j.box;
		if (o->w || o->quality)
			pack_decode(o, &j, j.rec.name);
		if (settle(p, &j)) {
			r = -2;
			break;
		}
		free(j.bytes);
		free(j.note);
		free(j.bad);
		j.bytes = NULL;
		j.note = j.bad = NULL;
		j.note_len = j.note_cap = 0;
	}
	free(j.bytes);
	free(j.box);
	free(j.note);
	free(j.bad);
	if (r == -1 && o->salvage) {
		label_say(&p->l, SAY_NOTE, "%s; what stands before is kept", why.msg);
		return 0;
	}
	if (r == -1)
		return err_set(p->e, "%s", why.msg);
	return r == 1 ? err_set(p->e, "interrupted") : r;
}

static int
too_bad(struct pack *p)
{
	const struct dataset *d = &p->d;
	long pictures = p->opt->max_bad < 0 ? 0 : p->opt->max_bad;

	if (d->bad > pictures)
		return err_set(p->e,
		    "%ld pictures cannot be used, more than -m %ld: nothing written", d->bad,
		    pictures);
	if (p->opt->max_bad >= 0 && d->refused > p->opt->max_bad)
		return err_set(p->e, "%ld labels refused, more than -m %ld: nothing written",
		    d->refused, p->opt->max_bad);
	if (!p->res->pictures)
		return err_set(p->e, "nothing to pack");
	return 0;
}

int
pack_run(const struct pack_opts *o, struct pack_result *res, struct err *e)
{
	struct pack p;
	char options[64] = "";
	int r;

	memset(&p, 0, sizeof p);
	memset(res, 0, sizeof *res);
	p.opt = o;
	p.res = res;
	p.e = e;
	p.d.stored = o->stored;
	p.l = (struct labels){ .d = &p.d, .report = o->report, .arg = o->arg, .e = e };
	pthread_mutex_init(&p.lock, NULL);
	pthread_cond_init(&p.ready, NULL);
	pthread_cond_init(&p.room, NULL);
	if (o->w || o->quality)
		snprintf(options, sizeof options, "side=%dx%d\nquality=%d\n", o->w, o->h,
		    o->quality ? o->quality : 90);
	r = read_inputs(&p);
	note_names(&p);
	if (!r &&
	    !(p.out = shard_create(o->out, p.d.class_name, p.d.class_id, p.d.nclass, options, e)))
		r = -1;
	if (!r && o->limit)
		shard_limit(p.out, o->limit);
	if (!r && !(r = write_items(&p)) && p.stream)
		r = write_stream(&p);
	if (!r && !(r = too_bad(&p))) {
		r = shard_finish(p.out, e);
		p.out = NULL;
	}
	progress_end();
	shard_discard(p.out);
	stream_close(p.stream);
	for (int i = 0; i < p.nshard; i++)
		shard_close(p.shard[i]);
	res->refused = p.d.refused;
	res->notes = p.d.notes;
	res->bad = p.d.bad;
	res->classes = p.d.nclass;
	keys_free(&p.seen.sum);
	free(p.seen.item);
	free(p.shard);
	free(p.src);
	free(p.stream_class);
	labels_close(&p.d);
	pthread_mutex_destroy(&p.lock);
	pthread_cond_destroy(&p.ready);
	pthread_cond_destroy(&p.room);
	return r ? -1 : 0;
}

/* One picture on its way into a shard: decoded in full, remarks, recoding.
 *
 * Runs in a worker thread and touches nothing but its job.  What it has to say waits in the job
 * until the picture's turn comes, so the report's order does not depend on the threads. */

static void remark(struct pack_job *, const char *fmt, ...) PRINTF(2, 3);

static void
remark(struct pack_job *j, const char *fmt, ...)
{
	char *line;
	va_list ap;
	size_t n;

	va_start(ap, fmt);
	if (vasprintf(&line, fmt, ap) < 0)
		die(1, "out of memory");
	va_end(ap);
	for (char *p = line; *p; p++)
		*p = *p == '\n' ? ' ' : *p;
	n = strlen(line);
	line[n] = '\n';			/* where its NUL was */
	j->note = (char *)xgrow(j->note, &j->note_cap, j->note_len + n + 2, 1);
	memcpy(j->note + j->note_len, line, n + 1);
	j->note[j->note_len += n + 1] = 0;
	free(line);
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
	if (r->orientation & REC_TURN)
		r->orientation = 0;	/* it is turned now, and has no EXIF */
	r->w = im->w;
	r->h = im->h;
}

/* As EXIF says, unless that is not wanted, or a shard decided it before.  Boxes whose file gives
 * the stored size, which is not that of the turned picture, were drawn on the stored pixels. */
static void
turn(const struct pack_opts *o, struct pack_job *j, struct image *im)
{
	struct record *r = &j->rec;
	int w, h, how;
	struct err why;

	if (j->packed) {
		if (r->orientation & REC_TURN)
			image_turn(im, r->orientation & ~REC_TURN);
		return;
	}
	image_size(r->bytes, r->nbytes, &w, &h, &how, &why);
	r->orientation = how;
	if (how < 2 || o->stored)
		return;
	r->orientation |= REC_TURN;
	image_turn(im, how);
	if (how < 5 || w == h || r->w != w || r->h != h)
		return;
	for (int i = 0; i < r->nbox; i++)
		label_turn(&j->box[i], how, w, h);
	r->w = h;
	r->h = w;
}

/* Decode the job's bytes: size, remarks, recoding. */
static void
pack_decode(const struct pack_opts *o, struct pack_job *j, const char *path)
{
	struct record *r = &j->rec;
	struct image im;
	struct err why;

	if (image_decode(r->bytes, r->nbytes, &im, &why)) {
		j->bad = xasprintf("%s: %s", path, why.msg);
		return;
	}
	if (why.msg[0])
		remark(j, "%s: %s", path, why.msg);
	turn(o, j, &im);
	if (r->w && (r->w != im.w || r->h != im.h))
		remark(j, "%s: the labels say %dx%d, the picture is %dx%d; the picture is right",
		    path, r->w, r->h, im.w, im.h);
	r->w = im.w;
	r->h = im.h;
	r->codec = codec_of(r->bytes, r->nbytes);
	for (int i = 0; i < r->nbox && r->id != -1; i++) {
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
	if (r->orientation > 1 && r->orientation < REC_TURN && r->nbox && r->id != -1)
		remark(j,
		    "%s: EXIF orientation %d is not applied; were the boxes drawn on the stored "
		    "pixels?",
		    path, r->orientation);
	if (o->w || o->quality)
		recode(o, j, &im);
	image_free(&im);
}
