/* t-order.c -- the order of samples: a permutation of the records for every epoch. */
#include <stdlib.h>

#include "yolo.h"
#include "test/tap.h"

static int
permutes(long n, uint64_t seed, long epoch)
{
	unsigned char *seen = (unsigned char *)xcalloc((size_t)n, 1);
	int good = 1;

	for (long i = 0; i < n && good; i++) {
		long r = loader_record(seed, n, epoch * n + i);

		good = r >= 0 && r < n && !seen[r];
		if (good)
			seen[r] = 1;
	}
	free(seen);
	return good;
}

/* Every image of a batch is one rank's, whatever is cut; who has the most has not much more. */
static int
shares(int n, int parts, int ranks, int *spread)
{
	int seen[64] = { 0 }, good = 1, least = n, most = 0;

	for (int r = 0; r < ranks; r++) {
		int have = order_images(n, parts, ranks, r);

		least = have < least ? have : least;
		most = have > most ? have : most;
		for (int i = 0; i < have; i++) {
			int k = order_image(n, parts, ranks, r, i);

			good &= k >= 0 && k < n && !seen[k]++;
		}
		good &= order_image(n, parts, ranks, r, have) == n;
	}
	for (int i = 0; i < n; i++)
		good &= seen[i] == 1;
	*spread = most - least > *spread ? most - least : *spread;
	return good;
}

static void
share(void)
{
	int good = 1, same = 1, one = 0, spread = 0, a, b, c, d;

	for (int n = 1; n <= 64; n++)
		for (int ranks = 1; ranks <= 9; ranks++) {
			good &= shares(n, 0, ranks, &one);
			for (int parts = 2; parts <= 17; parts++) {
				good &= shares(n, parts, ranks, &spread);
				for (int p = 0; p < parts; p++) {
					order_share(n, parts, p, 1, 0, &a, &b);
					for (int r = 0; r < ranks; r++) {
						order_share(n, parts, p, ranks, r, &c, &d);
						same &= c >= a && d <= b && d - c <= (b - a +
						    ranks - 1) / ranks;
					}
				}
			}
		}
	ok(good, "parts and ranks: each image of a batch once");
	ok(same, "a part is the same images whatever the ranks, shared out evenly");
	ok(one == 1 && spread == 1, "and over all parts the ranks differ by one image at most");
}

int
main(void)
{
	enum { SMALL = 5, EPOCHS = 12000 };
	static int at[SMALL][SMALL], next[SMALL][SMALL];
	long big = (long)1 << 40, fixed = 0;
	int good = 1, even = 1;

	for (long n = 1; n <= 200; n++)
		for (long e = 0; e < 3; e++)
			good &= permutes(n, 42, e);
	ok(good, "1 to 200 records: each once an epoch");
	ok(permutes(118287, 7, 0) && permutes(118287, 7, 1) && permutes(131072, 0, 5),
	    "118,287 and 131,072 records likewise");
	for (long e = 0; e < EPOCHS; e++)
		for (int i = 0; i < SMALL; i++) {
			long r = loader_record(1, SMALL, e * SMALL + i);

			at[i][r]++;
			if (i)
				next[loader_record(1, SMALL, e * SMALL + i - 1)][r]++;
		}
	for (int i = 0; i < SMALL; i++)		/* 2400 each, sd 44; neighbours 2400 too */
		for (int k = 0; k < SMALL; k++)
			even &=
			    abs(at[i][k] - 2400) < 220 && (i == k || abs(next[i][k] - 2400) < 220);
	ok(even, "every record is as often at every place and behind every other");
	good = 1;
	for (long i = 0; i < 2000; i++) {
		long r = loader_record(9, big - 7, i);

		good &= r >= 0 && r < big - 7;
		fixed += labs(r - i) < big / 1000;
	}
	ok(good && fixed < 20, "a million million records: in range and far apart");
	good = 0;
	for (long i = 0; i < 1000; i++)
		good += loader_record(1, 1000, i) == loader_record(2, 1000, i) ||
		    loader_record(1, 1000, i) == loader_record(1, 1000, i + 1000);
	ok(good < 20, "another seed or epoch is another order");
	share();
	return done();
}
