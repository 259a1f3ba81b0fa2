/* sync_auth.c -- who knows the run's token: HMAC-SHA256 (RFC 2104, FIPS 180-4) of a challenge.
 *
 * The token itself never crosses the network.  A few hundred bytes a run are worth no library. */
#include <stdint.h>
#include <string.h>

#include "sync/int.h"

enum { BLOCK = 64 };

static const uint32_t k[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2
};

struct sha { uint32_t h[8]; uint64_t len; unsigned char block[BLOCK]; };

static uint32_t
turn(uint32_t x, int n)
{
	return x >> n | x << (32 - n);
}

static void
mix(uint32_t h[8], const unsigned char *p)
{
	uint32_t w[64], s[8];

	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
		    (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
	for (int i = 16; i < 64; i++)
		w[i] = w[i - 16] + w[i - 7] +
		    (turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3) +
		    (turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10);
	memcpy(s, h, sizeof s);
	for (int i = 0; i < 64; i++) {
		uint32_t a = s[0], e = s[4];
		uint32_t t = s[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) +
		    ((e & s[5]) ^ (~e & s[6])) + k[i] + w[i];
		uint32_t u = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) +
		    ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));

		memmove(s + 1, s, 7 * sizeof *s);
		s[4] += t;
		s[0] = t + u;
	}
	for (int i = 0; i < 8; i++)
		h[i] += s[i];
}

static void
begin(struct sha *s)
{
	static const uint32_t h[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
		0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

	memcpy(s->h, h, sizeof h);
	s->len = 0;
}

static void
feed(struct sha *s, const void *text, size_t n)
{
	const unsigned char *p = (const unsigned char *)text;

	while (n--) {
		s->block[s->len++ % BLOCK] = *p++;
		if (s->len % BLOCK == 0)
			mix(s->h, s->block);
	}
}

static void
finish(struct sha *s, unsigned char out[AUTH_MAC])
{
	uint64_t bits = s->len * 8;
	unsigned char c = 0x80, end[8];

	do {
		feed(s, &c, 1);
		c = 0;
	} while (s->len % BLOCK != BLOCK - 8);
	for (int i = 0; i < 8; i++)
		end[i] = (unsigned char)(bits >> (56 - 8 * i));
	feed(s, end, 8);
	for (int i = 0; i < AUTH_MAC; i++)
		out[i] = (unsigned char)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}

void
auth_mac(const char *token, const void *text, size_t n, unsigned char mac[AUTH_MAC])
{
	unsigned char key[BLOCK] = { 0 }, pad[BLOCK];
	struct sha s;

	begin(&s);
	if (strlen(token) > BLOCK) {
		feed(&s, token, strlen(token));
		finish(&s, key);
	} else
		memcpy(key, token, strlen(token));
	for (int i = 0; i < BLOCK; i++)
		pad[i] = key[i] ^ 0x36;
	begin(&s);
	feed(&s, pad, BLOCK);
	feed(&s, text, n);
	finish(&s, mac);
	for (int i = 0; i < BLOCK; i++)
		pad[i] = key[i] ^ 0x5c;
	begin(&s);
	feed(&s, pad, BLOCK);
	feed(&s, mac, AUTH_MAC);
	finish(&s, mac);
}

/* In a time that does not depend on where they differ. */
int
auth_same(const unsigned char *a, const unsigned char *b)
{
	unsigned char d = 0;

	for (int i = 0; i < AUTH_MAC; i++)
		d |= a[i] ^ b[i];
	return !d;
}
