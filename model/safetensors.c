/* safetensors.c -- named tensors in one file: checkpoints, and golden data in tests.
 *
 * 8 bytes little-endian length of a JSON header, the header, then the tensors' bytes without holes.
 * Reading takes the file into memory (a mapped one that somebody cuts would end the program by
 * SIGBUS) and checks every number of the header against the file's length before it
 * is used; a tensor's bytes must lie inside, match its shape, and touch no other's.  Writing sorts
 * by name, pads the header to a multiple of 8 and renames into place, so equal contents are equal
 * files.
 *
 * The metadata of what is written here has the XXH3-64 of every tensor's bytes, one "digits name" a
 * line: offsets do not tell of a changed byte, and a run would go on from it.  A file of somebody
 * else has none and is read as it is. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <yajl/yajl_gen.h>
#include <yajl/yajl_tree.h>

#include "model/model.h"

static const struct { const char *name; size_t size; } types[] = {
	[ST_F32] = { "F32", 4 }, [ST_F64] = { "F64", 8 }, [ST_I32] = { "I32", 4 },
	[ST_I64] = { "I64", 8 }, [ST_U8] = { "U8", 1 }, [ST_BF16] = { "BF16", 2 },
	[ST_F16] = { "F16", 2 },
};
enum { NTYPE = sizeof types / sizeof *types, SUM = 16 };
static const char sums_key[] = "checksums";

/* Its bytes' XXH3-64 in hexadecimal. */
static void
sum_of(const struct st_tensor *t, char out[SUM + 1])
{
	snprintf(out, SUM + 1, "%016llx",
	    (unsigned long long)XXH3_64bits(t->data, t->n * types[t->type].size));
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(((const struct st_tensor *)a)->name, ((const struct st_tensor *)b)->name);
}

/* A JSON number as a size: digits only, no overflow. */
static int
as_size(yajl_val v, size_t *out)
{
	if (!YAJL_IS_INTEGER(v) || YAJL_GET_INTEGER(v) < 0)
		return -1;
	*out = (size_t)YAJL_GET_INTEGER(v);
	return 0;
}

/* One entry of the header; base: where data begins, size: how many bytes there are. */
static int
read_tensor(struct st_tensor *t, yajl_val v, const char *base, size_t size)
{
	const char *shape[] = { "shape", NULL }, *off[] = { "data_offsets", NULL };
	const char *dtype[] = { "dtype", NULL };
	yajl_val s = yajl_tree_get(v, shape, yajl_t_array), o = yajl_tree_get(v, off, yajl_t_array);
	yajl_val d = yajl_tree_get(v, dtype, yajl_t_string);
	const char *type;
	size_t from, to, n = 1;
	int k = 0;

	if (!s || !o || !d || YAJL_GET_ARRAY(s)->len > 8 || YAJL_GET_ARRAY(o)->len != 2)
		return -1;
	type = d->u.string;
	while (k < NTYPE && strcmp(types[k].name, type))
		k++;
	if (k == NTYPE || as_size(YAJL_GET_ARRAY(o)->values[0], &from) ||
	    as_size(YAJL_GET_ARRAY(o)->values[1], &to) || from > to || to > size)
		return -1;
	t->type = (enum st_type)k;
	t->ndim = (int)YAJL_GET_ARRAY(s)->len;
	for (int i = 0; i < t->ndim; i++) {
		if (as_size(YAJL_GET_ARRAY(s)->values[i], &t->dim[i]))
			return -1;
		if (t->dim[i] && n > SIZE_MAX / 16 / t->dim[i])
			return -1;
		n *= t->dim[i];
	}
	if (n * types[k].size != to - from)
		return -1;
	t->n = n;
	t->data = base + from;
	return 0;
}

static int
read_meta(struct st *st, yajl_val v)
{
	if (!YAJL_IS_OBJECT(v))
		return -1;
	st->key = (char **)xcalloc(v->u.object.len, sizeof *st->key);
	st->value = (char **)xcalloc(v->u.object.len, sizeof *st->value);
	for (size_t i = 0; i < v->u.object.len; i++) {
		if (!YAJL_IS_STRING(v->u.object.values[i]))
			return -1;
		st->key[st->nmeta] = xstrdup(v->u.object.keys[i]);
		st->value[st->nmeta++] = xstrdup(YAJL_GET_STRING(v->u.object.values[i]));
	}
	return 0;
}

static int
by_place(const void *a, const void *b)
{
	const struct st_tensor *s = *(const struct st_tensor *const *)a;
	const struct st_tensor *t = *(const struct st_tensor *const *)b;

	if (s->data != t->data)
		return (const char *)s->data < (const char *)t->data ? -1 : 1;
	return (s->n > t->n) - (s->n < t->n);
}

/* Do the tensors fill the data part without holes or overlap?  Overlap would let one tensor's bytes
 * stand for another's; a hole is a sign of a cut or patched file. */
static int
no_holes(const struct st *st, const char *base, size_t size)
{
	const struct st_tensor **p;
	const char *at = base;
	int ok;

	p = (const struct st_tensor **)xcalloc((size_t)st->nt, sizeof *p);
	for (int i = 0; i < st->nt; i++)
		p[i] = &st->t[i];
	qsort(p, (size_t)st->nt, sizeof *p, by_place);
	for (int i = 0; i < st->nt && at; i++)
		at = p[i]->data == at ? at + p[i]->n * types[p[i]->type].size : NULL;
	ok = at == base + size;
	free(p);
	return ok;
}

static int
read_header(struct st *st, yajl_val tree, const char *base, size_t size, const char *path,
    struct err *e)
{
	size_t n = tree->u.object.len;

	st->t = (struct st_tensor *)xcalloc(n, sizeof *st->t);
	for (size_t i = 0; i < n; i++) {
		const char *name = tree->u.object.keys[i];
		yajl_val v = tree->u.object.values[i];

		if (!strcmp(name, "__metadata__")) {
			if (st->key || read_meta(st, v))
				return err_set(e, "%s: bad __metadata__: want strings", path);
			continue;
		}
		if (read_tensor(&st->t[st->nt], v, base, size))
			return err_set(e, "%s: tensor '%.100s': type, shape and offsets do not fit "
			    "the file's %zu bytes of data", path, name, size);
		st->t[st->nt++].name = xstrdup(name);
	}
	qsort(st->t, (size_t)st->nt, sizeof *st->t, by_name);
	for (int i = 1; i < st->nt; i++)
		if (!strcmp(st->t[i - 1].name, st->t[i].name))
			return err_set(e, "%s: tensor '%.100s' twice", path, st->t[i].name);
	if (!no_holes(st, base, size))
		return err_set(e, "%s: tensors overlap or leave holes: damaged, or not complete",
		    path);
	return 0;
}

/* Do brackets stand in one another too deep?  A header needs three levels; yajl frees its tree by
 * recursion, and a million brackets would overflow the stack.  It takes comments, which are no
 * JSON, and which could hide a quote. */
static int
too_deep(const char *p, size_t n)
{
	enum { DEEPEST = 64 };
	int depth = 0, in_string = 0;

	for (size_t i = 0; i < n; i++)
		if (in_string && p[i] == '\\')
			i++;
		else if (in_string || p[i] == '"')
			in_string = p[i] != '"' || !in_string;
		else if (p[i] == '[' || p[i] == '{') {
			if (++depth > DEEPEST)
				return 1;
		} else if (p[i] == ']' || p[i] == '}')
			depth--;
		else if (p[i] == '/')
			return 1;
	return 0;
}

static int
check_sums(const struct st *st, const char *path, struct err *e)
{
	const char *p = st_meta(st, sums_key);
	char is[SUM + 1];
	int bad = 0;

	for (size_t n; p && *p && !bad; p += n + (p[n] == '\n')) {
		const struct st_tensor *t;
		char *line;

		n = strcspn(p, "\n");
		line = xasprintf("%.*s", (int)n, p);
		t = n > SUM + 1 && line[SUM] == ' ' ? st_find(st, line + SUM + 1) : NULL;
		if (t)
			sum_of(t, is);
		if (t && memcmp(is, line, SUM))
			bad = err_set(e, "%s: tensor %.100s: its bytes do not match the checksum "
			    "in the file: damaged, or changed by a program that kept the metadata",
			    path, t->name);
		else if (n <= SUM + 1 || line[SUM] != ' ')
			bad = err_set(e, "%s: bad __metadata__: %s wants lines of %d digits and a "
			    "name", path, sums_key, SUM);
		free(line);
	}
	return bad;
}

static int
parse(struct st *st, const char *path, struct err *e)
{
	const unsigned char *b = (const unsigned char *)st->map;
	uint64_t len = 0;
	char why[200], *text;
	yajl_val tree;
	int r;

	for (int i = 7; i >= 0; i--)
		len = len << 8 | b[i];
	if (len > st->len - 8 || len < 2 || len > 100000000 || b[8] != '{')
		return err_set(e, "%s: not a safetensors file, or cut short", path);
	if (too_deep((const char *)b + 8, len))
		return err_set(e, "%s: bad header: a comment, or brackets too deep", path);
	text = (char *)xmalloc(len + 1);
	memcpy(text, b + 8, len);
	text[len] = 0;
	tree = yajl_tree_parse(text, why, sizeof why);
	free(text);
	if (!tree || !YAJL_IS_OBJECT(tree))
		r = err_set(e, "%s: bad header: %s", path, tree ? "not an object" : why);
	else
		r = read_header(st, tree, (const char *)b + 8 + len, st->len - 8 - len, path, e);
	yajl_tree_free(tree);
	return r ? r : check_sums(st, path, e);
}

/* Its bytes.  What does not begin like one is not read through. */
static int
take_file(struct st *st, int fd, const char *path, struct err *e)
{
	unsigned char head[9];
	size_t at = 0;
	ssize_t n;

	if ((n = pread(fd, head, sizeof head, 0)) < 0)
		return err_set(e, "%s: %s", path, strerror(errno));
	if (n == (ssize_t)sizeof head && (head[8] != '{' || head[7] || head[6]))
		return err_set(e, "%s: not a safetensors file, or cut short", path);
	st->map = xmalloc(st->len);
	for (; at < st->len; at += (size_t)n)
		if ((n = pread(fd, (char *)st->map + at, st->len - at, (off_t)at)) < 0 &&
		    errno != EINTR)
			return err_set(e, "%s: %s", path, strerror(errno));
		else if (!n)
			return err_set(e, "%s: %zu bytes, and %zu while it was read: somebody "
			    "writes to it", path, st->len, at);
		else if (n < 0)
			n = 0;
	return 0;
}

struct st *
st_open(const char *path, struct err *e)
{
	struct st *st = (struct st *)xcalloc(1, sizeof *st);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat s;

	if (fd < 0 || fstat(fd, &s)) {
		err_set(e, "%s: %s", path, strerror(errno));
	} else if (!S_ISREG(s.st_mode) || s.st_size < 10) {
		err_set(e, "%s: not a safetensors file: %s", path,
		    S_ISREG(s.st_mode) ? "too short" : "not a plain file");
	} else {
		st->len = (size_t)s.st_size;
		if (!take_file(st, fd, path, e) && !parse(st, path, e)) {
			close(fd);
			return st;
		}
	}
	if (fd >= 0)
		close(fd);
	st_close(st);
	return NULL;
}

void
st_close(struct st *st)
{
	if (!st)
		return;
	for (int i = 0; i < st->nt; i++)
		free(st->t[i].name);
	for (int i = 0; i < st->nmeta; i++) {
		free(st->key[i]);
		free(st->value[i]);
	}
	free(st->t);
	free(st->key);
	free(st->value);
	free(st->map);
	free(st);
}

const struct st_tensor *
st_find(const struct st *st, const char *name)
{
	struct st_tensor key = { 0 };

	key.name = (char *)name;
	return (const struct st_tensor *)bsearch(&key, st->t, (size_t)st->nt, sizeof *st->t,
	    by_name);
}

const char *
st_meta(const struct st *st, const char *key)
{
	for (int i = 0; i < st->nmeta; i++)
		if (!strcmp(st->key[i], key))
			return st->value[i];
	return NULL;
}

double
st_get(const struct st_tensor *t, size_t i)
{
	const char *p = (const char *)t->data + i * types[t->type].size;
	union { float f; double d; int32_t i; int64_t l; } u;

	memcpy(&u, p, types[t->type].size);
	switch (t->type) {
	case ST_F32: return u.f;
	case ST_F64: return u.d;
	case ST_I32: return u.i;
	case ST_I64: return (double)u.l;
	default: return *(const unsigned char *)p;
	}
}

#define STR(s) yajl_gen_string(g, (const unsigned char *)(s), strlen(s))
/* What was given, and the checksums at their place in the order of the keys. */
static void
put_meta(yajl_gen g, const struct st_tensor *t, int nt, char *const *key, char *const *value,
    int nmeta)
{
	size_t len = 0;
	char *text = NULL, sum[SUM + 1];
	FILE *f = open_memstream(&text, &len);
	int i = 0;

	if (!f)
		die(1, "out of memory");
	for (int k = 0; k < nt; k++) {
		sum_of(&t[k], sum);
		fprintf(f, "%s %s\n", sum, t[k].name);
	}
	fclose(f);
	STR("__metadata__");
	yajl_gen_map_open(g);
	for (; i < nmeta && strcmp(key[i], sums_key) < 0; i++) {
		STR(key[i]);
		STR(value[i]);
	}
	STR(sums_key);
	STR(text);
	for (; i < nmeta; i++) {
		STR(key[i]);
		STR(value[i]);
	}
	yajl_gen_map_close(g);
	free(text);
}

/* The header as JSON: metadata first, tensors in the given (sorted) order. */
static yajl_gen
header(const struct st_tensor *t, int nt, char *const *key, char *const *value, int nmeta)
{
	yajl_gen g = yajl_gen_alloc(NULL);
	size_t at = 0;

	yajl_gen_map_open(g);
	put_meta(g, t, nt, key, value, nmeta);
	for (int i = 0; i < nt; i++) {
		size_t bytes = t[i].n * types[t[i].type].size;

		STR(t[i].name);
		yajl_gen_map_open(g);
		STR("dtype");
		STR(types[t[i].type].name);
		STR("shape");
		yajl_gen_array_open(g);
		for (int d = 0; d < t[i].ndim; d++)
			yajl_gen_integer(g, (long long)t[i].dim[d]);
		yajl_gen_array_close(g);
		STR("data_offsets");
		yajl_gen_array_open(g);
		yajl_gen_integer(g, (long long)at);
		yajl_gen_integer(g, (long long)(at += bytes));
		yajl_gen_array_close(g);
		yajl_gen_map_close(g);
	}
	yajl_gen_map_close(g);
#undef STR
	return g;
}

int
st_write(const char *path, const struct st_tensor *tensor, int nt, char *const *key,
    char *const *value, int nmeta, struct err *e)
{
	struct st_tensor *t = (struct st_tensor *)xmalloc((size_t)nt * sizeof *t);
	const unsigned char *text;
	unsigned char word[8];
	struct outfile o;
	size_t len, pad;
	yajl_gen g;

	if (out_open(&o, path, e)) {
		free(t);
		return -1;
	}
	memcpy(t, tensor, (size_t)nt * sizeof *t);
	qsort(t, (size_t)nt, sizeof *t, by_name);
	g = header(t, nt, key, value, nmeta);
	yajl_gen_get_buf(g, &text, &len);
	pad = -len % 8;
	for (int i = 0; i < 8; i++)
		word[i] = (unsigned char)((uint64_t)(len + pad) >> 8 * i);
	fwrite(word, 1, 8, o.f);
	fwrite(text, 1, len, o.f);
	fwrite("        ", 1, pad, o.f);
	for (int i = 0; i < nt; i++)
		fwrite(t[i].data, types[t[i].type].size, t[i].n, o.f);
	yajl_gen_free(g);
	free(t);
	return out_commit(&o, e);
}
