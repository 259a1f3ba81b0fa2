/* scan.c -- bytes to values: a window over a file, JSON.
 *
 * The window holds at least the record being read, so a file of any size passes through a few
 * megabytes.  NULs stand behind the window; no valid text holds one, so every loop below ends at
 * the first without counting, and eight bytes may be read at once.  A record that runs into the end
 * of the window before the end of the file is simply read again after more bytes have come
 * (scan_more): readers keep what they found to themselves until a record is complete.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "score/int.h"

enum { WINDOW = 1 << 20, SLACK = SCAN_SLACK };

int
scan_open(struct scan *s, const char *path, struct err *e)
{
	memset(s, 0, sizeof *s);
	s->path = strcmp(path, "-") ? path : "stdin";
	s->fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
	if (s->fd < 0)
		return err_set(e, "%s: %s", path, strerror(errno));
	s->cap = WINDOW;
	s->buf = s->p = s->end = (char *)xmalloc(s->cap + SLACK);
	memset(s->end, 0, SLACK);
	scan_more(s);
	if (s->error) {
		err_set(e, "%s: %s", s->path, strerror(s->error));
		scan_close(s);
		return -1;
	}
	if (!strncmp(s->p, "\xef\xbb\xbf", 3))		/* a mark of UTF-8 */
		s->p += 3;
	return 0;
}

void
scan_memory(struct scan *s, const char *name, const void *bytes, size_t n)
{
	memset(s, 0, sizeof *s);
	s->path = name;
	s->fd = -1;
	s->eof = 1;
	s->cap = n;
	s->buf = s->p = (char *)xmalloc(n + SLACK);
	memcpy(s->buf, bytes, n);
	s->end = s->buf + n;
	memset(s->end, 0, SLACK);
}

void
scan_close(struct scan *s)
{
	if (s->fd > STDIN_FILENO)
		close(s->fd);
	free(s->buf);
	free(s->text);
}

static long
newlines(const char *p, const char *end)
{
	long n = 0;

	while ((p = (const char *)memchr(p, '\n', (size_t)(end - p)))) {
		n++;
		p++;
	}
	return n;
}

int
scan_more(struct scan *s)
{
	size_t keep = (size_t)(s->end - s->p), got = 0;
	ssize_t n;

	if (s->eof)
		return 0;
	s->lines += newlines(s->buf, s->p);
	memmove(s->buf, s->p, keep);
	if (keep > s->cap / 2)
		s->buf = (char *)xrealloc(s->buf, (s->cap *= 2) + SLACK);
	s->p = s->buf;
	while (keep + got < s->cap && !s->eof) {
		n = read(s->fd, s->buf + keep + got, s->cap - keep - got);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			s->eof = 1;
			s->error = n < 0 ? errno : 0;
		} else
			got += (size_t)n;
	}
	s->end = s->buf + keep + got;
	memset(s->end, 0, SLACK);
	return got > 0;
}

int
scan_fail(struct scan *s, const char *at, const char *fmt, ...)
{
	va_list ap;

	s->at = at;
	va_start(ap, fmt);
	vsnprintf(s->why, sizeof s->why, fmt, ap);
	va_end(ap);
	return -1;
}

int
scan_error(struct scan *s, struct err *e)
{
	if (s->error)
		return err_set(e, "%s: %s", s->path, strerror(s->error));
	if (s->at > s->end || s->at < s->buf)
		s->at = s->p;
	return err_set(e, "%s:%ld: %s%s", s->path, s->lines + newlines(s->buf, s->at) + 1,
	    s->at == s->end && s->eof ? "the file ends early: " : "", s->why);
}

/* After a failed record: 1 when more bytes have come and it should be read again from s->p. */
static int
scan_again(struct scan *s)
{
	return s->at >= s->end && scan_more(s);
}

/* What the file is instead of text, with the failure in s; 0: it may be text, or, unless bytes are
 * looked at, something binary that is not known here. */
int
scan_no_text(struct scan *s, int bytes)
{
	static const struct { const char *magic; int n; const char *what; } known[] = {
		{ "\x1f\x8b", 2, "compressed by gzip: want zcat FILE |" },
		{ "\x28\xb5\x2f\xfd", 4, "compressed by zstd: want zstdcat FILE |" },
		{ "\xfd" "7zXZ", 5, "compressed by xz: want xzcat FILE |" },
		{ "BZh", 3, "compressed by bzip2: want bzcat FILE |" },
		{ "PK\3\4", 4, "a zip archive: want unzip -p FILE |" },
		{ "\xff\xfe", 2, "UTF-16: want UTF-8" }, { "\xfe\xff", 2, "UTF-16: want UTF-8" },
		{ "\x89PNG", 4, "a picture" }, { "\xff\xd8\xff", 3, "a picture" },
	};

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (s->end - s->p >= known[i].n &&
		    !memcmp(s->p, known[i].magic, (size_t)known[i].n))
			return scan_fail(s, s->p, "the file is %s", known[i].what);
	for (const char *p = s->p; bytes && p < s->end && p < s->p + 512; p++)
		if ((unsigned char)*p < ' ' && !strchr("\t\n\r\f", *p))
			return scan_fail(s, s->p, "neither JSON nor text: byte %d at %ld", *p,
			    (long)(p - s->p));
		else if (!*p)
			return scan_fail(s, s->p, "neither JSON nor text: a NUL byte at %ld",
			    (long)(p - s->p));
	return 0;
}

/* ---- JSON ---- */

static inline void
blank(struct scan *s)
{
	while (*s->p == ' ' || *s->p == '\n' || *s->p == '\t' || *s->p == '\r')
		s->p++;
}

/* The next character that is not blank, not consumed. */
char
scan_peek(struct scan *s)
{
	blank(s);
	return *s->p;
}

int
scan_want(struct scan *s, char c)
{
	blank(s);
	if (*s->p != c)
		return scan_fail(s, s->p, "want '%c'", c);
	s->p++;
	return 0;
}

/* After an element: 1 more follow, 0 the closing bracket was taken, -1. */
int
scan_next(struct scan *s, char close)
{
	blank(s);
	if (*s->p == ',') {
		s->p++;
		return 1;
	}
	if (*s->p == close) {
		s->p++;
		return 0;
	}
	return scan_fail(s, s->p, "want ',' or '%c'", close);
}

int
scan_number(struct scan *s, double *v)
{
	const char *p;

	blank(s);
	p = s->p;
	if (*p == '+' || scan_decimal(&p, v))
		return scan_fail(s, s->p + strspn(s->p, "-+.eE0123456789NaInfity"),
		    !strncmp(s->p, "NaN", 3) || strspn(s->p, "-Infity") > 2 ?
		    "a number is NaN or infinite, want a finite one" : "want a number");
	if (!__builtin_isfinite(*v))
		return scan_fail(s, s->p, "a number is too large for a double");
	if (p == s->end && !s->eof)
		return scan_fail(s, s->end, "want more");
	s->p = (char *)p;
	return 0;
}

int
scan_whole(struct scan *s, int64_t *v)
{
	const char *at, *why;
	double d;

	blank(s);
	at = s->p;
	if (scan_number(s, &d))
		return -1;
	why = num_id(at, (size_t)(s->p - at), d, v);
	return why ? scan_fail(s, at, "%s", why) : 0;
}

static unsigned
hex4(const char *p)
{
	unsigned v = 0;

	for (int i = 0; i < 4; i++) {
		unsigned c = (unsigned char)p[i], d = c - '0' < 10 ? c - '0' : (c | 32) - 'a' < 6 ?
		    (c | 32) - 'a' + 10 : 16;

		if (d > 15)
			return 0x10000;
		v = v * 16 + d;
	}
	return v;
}

static char *
utf8(char *o, unsigned u)
{
	if (u < 0x80)
		*o++ = (char)u;
	else if (u < 0x800) {
		*o++ = (char)(0xc0 | u >> 6);
		*o++ = (char)(0x80 | (u & 63));
	} else {
		if (u < 0x10000)
			*o++ = (char)(0xe0 | u >> 12);
		else {
			*o++ = (char)(0xf0 | u >> 18);
			*o++ = (char)(0x80 | (u >> 12 & 63));
		}
		*o++ = (char)(0x80 | (u >> 6 & 63));
		*o++ = (char)(0x80 | (u & 63));
	}
	return o;
}

/* One escape at p (behind the backslash) into *o; NULL: not a valid one. */
static const char *
escape(const char *p, char **o)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *k = *p ? strchr(from, *p) : NULL;
	unsigned u, low;

	if (k) {
		*(*o)++ = to[k - from];
		return p + 1;
	}
	if (*p != 'u' || (u = hex4(p + 1)) > 0xffff || !u)
		return NULL;
	p += 5;
	if (u - 0xd800 < 0x400 && p[0] == '\\' && p[1] == 'u' &&
	    (low = hex4(p + 2)) - 0xdc00 < 0x400) {
		u = 0x10000 + ((u - 0xd800) << 10) + (low - 0xdc00);
		p += 6;
	}
	*o = utf8(*o, u);
	return p;
}

/* A string, decoded, NUL-terminated.  It lies in the window or, with escapes, behind *text, which
 * grows; valid until the next call with the same text or the next scan_more. */
int
scan_string(struct scan *s, const char **out, size_t *len)
{
	char *p, *o;
	const char *q;

	blank(s);
	if (*s->p != '"')
		return scan_fail(s, s->p, "want a string");
	for (p = s->p + 1; *p != '"' && *p != '\\' && (unsigned char)*p >= 32;)
		p++;
	if (*p == '"') {
		*out = s->p + 1;
		*len = (size_t)(p - s->p - 1);
		s->p = p + 1;
		return 0;
	}
	for (; *p != '"'; p++)
		if ((unsigned char)*p < 32 || (*p == '\\' && !*++p))
			return scan_fail(s, p, "want the closing '\"' of a string");
	if ((size_t)(p - s->p) + SLACK > s->textcap)
		s->text = (char *)xrealloc(s->text, s->textcap = 2 * (size_t)(p - s->p) + SLACK);
	for (q = s->p + 1, o = s->text; q < p;)
		if (*q != '\\')
			*o++ = *q++;
		else if (!(q = escape(q + 1, &o)) || q > p)
			return scan_fail(s, s->p, "want a valid escape in a string; are "
			    "backslashes not doubled, as darknet writes them on Windows?");
	memset(o, 0, SLACK);
	*out = s->text;
	*len = (size_t)(o - s->text);
	s->p = p + 1;
	return 0;
}

int
scan_copy(struct scan *s, char **out)
{
	const char *text;
	size_t n;

	if (scan_string(s, &text, &n))
		return -1;
	free(*out);
	*out = (char *)memcpy(xcalloc(n + 1, 1), text, n);
	return 0;
}

int
scan_box(struct scan *s, double *v)
{
	if (scan_want(s, '['))
		return -1;
	for (int i = 0; i < 4; i++)
		if (scan_number(s, v + i) || scan_want(s, i < 3 ? ',' : ']'))
			return -1;
	return 0;
}

/* Over one value of any kind, without recursion: depth is counted, brackets of either kind. */
int
scan_skip(struct scan *s)
{
	int depth = 0;
	char *p;

	blank(s);
	for (p = s->p;; p++) {
		if (*p == '"') {
			for (p++; *p != '"'; p++)
				if (!*p || (*p == '\\' && !*++p))
					return scan_fail(s, p, "want the closing '\"' of a string");
		} else if (*p == '[' || *p == '{')
			depth++;
		else if (!*p || (!depth && strchr(",]} \t\r\n", *p)))
			break;
		else if ((*p == ']' || *p == '}') && !--depth) {
			p++;
			break;
		}
		if (*p == '"' && !depth) {
			p++;
			break;
		}
	}
	if (depth || p == s->p || (p == s->end && !s->eof))
		return scan_fail(s, p, "want a value");
	s->p = p;
	return 0;
}

/* One value, and what follows it unless close is 0; *more as scan_next says. */
static int
element(struct scan *s, scan_elem *elem, void *arg, char close, int *more)
{
	size_t at;

	if (s->end - s->p < 4096)
		scan_more(s);
	at = (size_t)(s->p - s->buf);
	while (elem(s, arg) || (close && (*more = scan_next(s, close)) < 0)) {
		s->p = s->buf + at;
		if (s->fatal || !scan_again(s))
			return -1;
		at = 0;
	}
	return 0;
}

int
scan_array(struct scan *s, scan_elem *elem, void *arg)
{
	int more = 1;

	while (!scan_peek(s) && scan_more(s))
		;
	if (scan_want(s, '['))
		return -1;
	if (s->end - s->p < 4096)
		scan_more(s);
	if (scan_peek(s) == ']') {
		s->p++;
		return 0;
	}
	while (more)
		if (element(s, elem, arg, ']', &more))
			return -1;
	return 0;
}

int
scan_values(struct scan *s, scan_elem *elem, void *arg)
{
	while (scan_peek(s) || (scan_more(s) && scan_peek(s)))
		if (element(s, elem, arg, 0, NULL))
			return -1;
	return 0;
}

static int
key_of(struct scan *s, const char **k, size_t *n)
{
	return scan_string(s, k, n) || scan_want(s, ':') ? -1 : 0;
}

int
scan_object(struct scan *s, scan_field *field, void *arg)
{
	const char *k;
	size_t n;
	int more = 1;

	if (scan_want(s, '{'))
		return -1;
	if (scan_peek(s) == '}') {
		s->p++;
		return 0;
	}
	while (more) {
		if (key_of(s, &k, &n))
			return -1;
		if (k == s->text || n >= 64)	/* may be overwritten: no key of ours */
			k = "", n = 0;
		if (field(s, arg, k, n) || (more = scan_next(s, '}')) < 0)
			return -1;
	}
	return 0;
}

int
scan_members(struct scan *s, scan_field *field, void *arg)
{
	const char *k;
	size_t n, at;
	int more = 1, r;

	if (scan_want(s, '{'))
		return -1;
	while (more) {
		scan_more(s);
		at = (size_t)(s->p - s->buf);
		if (key_of(s, &k, &n))
			return -1;
		for (r = field(s, arg, k, n); r > 0 && scan_skip(s); at = 0) {
			s->p = s->buf + at;
			if (!scan_again(s) || key_of(s, &k, &n))
				return -1;
		}
		if (r < 0 || (more = scan_next(s, '}')) < 0)
			return -1;
	}
	return 0;
}

/* Decimals to the nearest double, always, at the pace of the file.
 *
 * Digits are taken eight bytes at a time: a word tells how many of its bytes are digits, and three
 * multiplications make them a number, without a branch that depends on how many there are.  Up to
 * 19 digits and 10^+-22: one exact operation where the digits fit 53 bits (Clinger), else a
 * 128-by-64 bit division whose remainder decides the rounding.  The rest goes the slow road of
 * strtod. */

static const double ten[] = { 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12,
	1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
static const uint64_t power[] = { 1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000 };

/* The digits at p, at most eight: their number, and the value.  Bytes in the order of a
 * little-endian word: the first digit is the lowest byte, and what precedes it becomes zeros. */
static inline int
digits8(const char *p, uint64_t *v)
{
	uint64_t w, odd;
	int n;

	memcpy(&w, p, sizeof w);
	w ^= 0x3030303030303030u;	/* a digit is now 0..9 */
	odd = ((w + 0x7676767676767676u) | w) & 0x8080808080808080u;
	n = odd ? __builtin_ctzll(odd) >> 3 : 8;
	w = n ? w << (64 - 8 * n) : 0;
	w = w * 10 + (w >> 8);		/* pairs, in every other byte */
	*v = ((w & 0xff000000ffu) * (100 + ((uint64_t)1000000 << 32)) +
		 ((w >> 16 & 0xff000000ffu) * (1 + ((uint64_t)10000 << 32)))) >>
	     32;
	return n;
}

/* m / 10^k, 0 < k < 20, correctly rounded: q = m 2^s / 10^k with 64 or 63 significant bits; what
 * is below the 53rd bit and the remainder decide. */
static double
divide_exact(uint64_t m, int k)
{
	uint64_t d = 1, q, rest, half;
	int shift, drop;
	unsigned __int128 num, r;

	for (int i = 0; i < k; i++)
		d *= 10;
	int zm = __builtin_clzll(m), zd = __builtin_clzll(d);

	shift = 63 + zm - zd; /* quotient of normalised m by normalised d, in (2^62, 2^64) */
	num = (unsigned __int128)(m << zm) << 63;
	d <<= zd;
	q = (uint64_t)(num / d);
	r = num % d;
	drop = 64 - __builtin_clzll(q) - 53;
	half = (uint64_t)1 << (drop - 1);
	rest = q & (2 * half - 1);
	q >>= drop;
	if (rest > half || (rest == half && (r || (q & 1))))
		q++;
	return __builtin_ldexp((double)q, drop - shift);
}

static double
slow_number(const char *from, const char *to)
{
	char small[64], *s = (size_t)(to - from) < sizeof small ? small : (char *)xmalloc(
	    (size_t)(to - from) + 1);
	double v;

	memcpy(s, from, (size_t)(to - from));
	s[to - from] = 0;
	if (num_real(s, -HUGE_VAL, HUGE_VAL, &v))
		v = HUGE_VAL;
	if (s != small)
		free(s);
	return v;
}

/* Digits at p into *m; more than 19 overflow it, but are counted. */
static inline int
digits(const char *p, uint64_t *m)
{
	uint64_t v;
	int n = digits8(p, &v), k = n;

	*m = *m * power[n] + v;
	while (k == 8) {
		k = digits8(p + n, &v);
		*m = *m * power[k] + v;
		n += k;
	}
	return n;
}

/* An exponent at p (behind the e) into *ex; its length, 0: none. */
static int
exponent(const char *p, int *ex)
{
	const char *q = p + (*p == '-' || *p == '+');
	int e10 = 0;

	if ((unsigned)(*q - '0') >= 10)
		return 0;
	for (; (unsigned)(*q - '0') < 10; q++)
		if (e10 < 100000)
			e10 = e10 * 10 + (*q - '0');
	*ex += *p == '-' ? -e10 : e10;
	return (int)(q - p);
}

/* A decimal at *pp; moves *pp behind it.  0, or -1 where there is none.  What overflows becomes an
 * infinity, which callers refuse.  SCAN_SLACK bytes behind the text must be readable. */
int
scan_decimal(const char **pp, double *v)
{
	const char *p = *pp, *from = p;
	uint64_t m = 0;
	int neg = *p == '-', n, ex = 0, k;

	p += neg || *p == '+';
	n = digits(p, &m);
	p += n;
	if (*p == '.') {
		k = digits(p + 1, &m);
		p += 1 + k;
		n += k;
		ex = -k;
	}
	if (!n)
		return -1;
	if ((*p | 32) == 'e') {
		if (!(k = exponent(p + 1, &ex)))
			return -1;
		p += 1 + k;
	}
	*pp = p;
	if (n > 19)			/* perhaps only leading zeros, but rare */
		*v = slow_number(from, p);
	else if (m <= (uint64_t)1 << 53 && ex >= -22 && ex <= 22) {
		double d = ex < 0 ? (double)m / ten[-ex] : (double)m * ten[ex];

		*v = neg ? -d : d;
	} else if (!m)
		*v = neg ? -0. : 0;
	else if (ex < 0 && ex > -20)
		*v = neg ? -divide_exact(m, -ex) : divide_exact(m, -ex);
	else
		*v = slow_number(from, p);
	return 0;
}
