/* order.c -- which record sample t of a run is, and which rank computes it.
 *
 * The order is arithmetic: record permutation(seed, t / N)(t mod N), computed on the spot, so that
 * there is nothing to save, to shuffle or to share between ranks. */
#include "loader/loader.h"

static uint64_t
mix(uint64_t x)			/* every bit of x matters to every bit of the result */
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* A Feistel network permutes the numbers of `bits` bits; what falls outside 0..n-1 is sent through
 * again until it falls inside, which keeps it a permutation.  Never fewer than six bits: small
 * networks know too few permutations. */
long
loader_record(uint64_t seed, long n, long t)
{
	uint64_t key = mix(seed + mix(0x9e3779b97f4a7c15u * (uint64_t)(t / n + 1)));
	uint64_t x = (uint64_t)(t % n);
	int bits = 6, low, high;

	while (bits < 62 && (uint64_t)1 << bits < (uint64_t)n)
		bits++;
	low = bits / 2;
	high = bits - low;
	do {
		uint64_t l = x >> low, r = x & (((uint64_t)1 << low) - 1);

		for (int round = 0; round < 8; round += 2) {	/* the halves take turns */
			l ^= mix(key + r * 0xd1342543de82ef95u + (uint64_t)round) &
			     (((uint64_t)1 << high) - 1);
			r ^= mix(key + l * 0xd1342543de82ef95u + (uint64_t)round + 1) &
			    (((uint64_t)1 << low) - 1);
		}
		x = l << low | r;
	} while (x >= (uint64_t)n);
	return (long)x;
}

void
order_share(int n, int parts, int part, int ranks, int rank, int *from, int *to)
{
	long a = (long)n * part / parts, m = (long)n * (part + 1) / parts - a;
	long each = m / ranks, more = m % ranks, turn = (rank + ranks - a % ranks) % ranks;

	*from = (int)(a + turn * each + (turn < more ? turn : more));
	*to = *from + (int)each + (turn < more);
}

int
order_images(int n, int parts, int ranks, int rank)
{
	int sum = 0, from, to;

	for (int p = 0; p < (parts > 1 ? parts : 1); p++) {
		order_share(n, parts > 1 ? parts : 1, p, ranks, rank, &from, &to);
		sum += to - from;
	}
	return sum;
}

int
order_image(int n, int parts, int ranks, int rank, int i)
{
	int from = 0, to;

	for (int p = 0; p < (parts > 1 ? parts : 1); p++) {
		order_share(n, parts > 1 ? parts : 1, p, ranks, rank, &from, &to);
		if (i < to - from)
			return from + i;
		i -= to - from;
	}
	return n;
}
