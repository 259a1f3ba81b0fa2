/* evalnum.c -- decimals to the nearest double, always, at the pace of the file.
 *
 * Digits are taken eight bytes at a time: a word tells how many of its bytes are digits, and three
 * multiplications make them a number, without a branch that depends on how many there are.  Up to
 * 19 digits and 10^+-22: one exact operation where the digits fit 53 bits (Clinger), else a
 * 128-by-64 bit division whose remainder decides the rounding.  The rest goes the slow road of
 * strtod. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "yolo.h"

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
