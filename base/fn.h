/* fn.h -- small functions that kernels and host code share: activations and their slopes, IoU, a
 * counter-based generator, numbers as they are stored.
 *
 * In a .cu file dev.h comes first and says what DEVICE means; plain C files get static inline. */
#ifndef FN_H
#define FN_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/base.h"

#ifndef DEVICE
#define DEVICE static inline
#endif

/* bfloat16: the upper half of a float, to the nearest, ties to even; a NaN stays one. */
DEVICE uint16_t
fn_bf16(float x)
{
	uint32_t u;

	memcpy(&u, &x, sizeof u);
	return (uint16_t)(x != x ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16);
}

DEVICE float
fn_float(uint16_t half)
{
	uint32_t u = (uint32_t)half << 16;
	float x;

	memcpy(&x, &u, sizeof x);
	return x;
}

/* e^x to 1 ulp, written so that a CPU's compiler makes vectors of it: x = n ln 2 + r, Taylor's
 * series for r up to ln 2 / 2, and 2^n in two factors, so that both ends of the range come out. */
DEVICE float
fn_exp(float x)
{
#if defined(__CUDA_ARCH__) || !defined(FP_FAST_FMAF)
	return expf(x);
#else
	float c = x > 89 ? 89 : x < -104 ? -104 : x, n = rintf(c * 1.44269504f), p, f, g;
	float r = fmaf(n, -1.42860682e-6f, fmaf(n, -.693145752f, c));
	int32_t i = (int32_t)n, j = i / 2;
	uint32_t a = (uint32_t)(j + 127) << 23, b = (uint32_t)(i - j + 127) << 23;

	p = fmaf(1.f / 5040, r, 1.f / 720);
	p = fmaf(p, r, 1.f / 120);
	p = fmaf(p, r, 1.f / 24);
	p = fmaf(p, r, 1.f / 6);
	p = fmaf(p, r, .5f);
	p = fmaf(p, r, 1);
	p = fmaf(p, r, 1);
	memcpy(&f, &a, sizeof f);
	memcpy(&g, &b, sizeof g);
	return p * f * g;
#endif
}

DEVICE float
fn_logistic(float x)
{
	return 1 / (1 + fn_exp(-x));
}

/* A detection head's box along an axis: its centre in a row of cells, s the logistic of its entry,
 * k scale_x_y; its side, x the raw entry, or with new_coords (square) its logistic. */
DEVICE float
fn_centre(float k, float s, int cell, float size)
{
	return (k * s - (k - 1) / 2 + (float)cell) * size;
}

DEVICE float
fn_side(int square, float x, float anchor)
{
	return (square ? 4 * x * x : expf(x)) * anchor;
}

/* tanh(ln(1 + e^x)) = (q^2 + 2q) / (q^2 + 2q + 2), q = e^x; beyond 20 it is 1 to the last bit. */
DEVICE float
fn_tanh_softplus(float x)
{
	float q = fn_exp(x > 20 ? 20 : x), s = q * (q + 2);

	return s / (s + 2);
}

DEVICE float
fn_act(enum act a, float x)
{
	switch (a) {
	case ACT_LEAKY: return x > 0 ? x : .1f * x;
	case ACT_LOGISTIC: return fn_logistic(x);
	case ACT_RELU: return x > 0 ? x : 0;
	case ACT_MISH: return x * fn_tanh_softplus(x);
	case ACT_SWISH: return x * fn_logistic(x);
	default: return x;
	}
}

/* The slope at x (the value before the activation).  leaky at 0: 0.1; relu at 0: 0. */
DEVICE float
fn_slope(enum act a, float x)
{
	float s, t;

	switch (a) {
	case ACT_LEAKY: return x > 0 ? 1 : .1f;
	case ACT_LOGISTIC: s = fn_logistic(x); return s * (1 - s);
	case ACT_RELU: return x > 0 ? 1 : 0;
	case ACT_MISH: t = fn_tanh_softplus(x); return t + x * fn_logistic(x) * (1 - t * t);
	case ACT_SWISH: s = fn_logistic(x); return s + x * s * (1 - s);
	default: return 1;
	}
}

/* A loop once for each activation, a constant in it: so that the compiler sees no switch. */
#define ONE_ACT(a, value, ...) \
	if ((a) == (value)) { \
		const enum act act = (value); \
		__VA_ARGS__ \
	}
#define BY_ACT(a, ...) do { \
	ONE_ACT(a, ACT_LINEAR, __VA_ARGS__) else ONE_ACT(a, ACT_LEAKY, __VA_ARGS__) \
	else ONE_ACT(a, ACT_RELU, __VA_ARGS__) else ONE_ACT(a, ACT_MISH, __VA_ARGS__) \
	else ONE_ACT(a, ACT_SWISH, __VA_ARGS__) else ONE_ACT(a, ACT_LOGISTIC, __VA_ARGS__) \
	} while (0)

/* A loop again with v's usual value known, as the constant V: no division by 1, no inner loop. */
#define BY_USUAL(V, v, usual, ...) do { \
	if ((v) == (usual)) { \
		enum { V = (usual) }; \
		__VA_ARGS__ \
	} else { \
		const int V = (v); \
		__VA_ARGS__ \
	} \
	} while (0)

/* Philox 4x32-10 (Salmon, Moraes, Dror, Shaw 2011): four words from a key and a counter, the same
 * on every machine; nothing to save, nothing to seed. */
DEVICE void
fn_philox(uint64_t key, uint64_t hi, uint64_t lo, uint32_t out[4])
{
	uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
	uint32_t a = (uint32_t)lo, b = (uint32_t)(lo >> 32), c = (uint32_t)hi,
	    d = (uint32_t)(hi >> 32);

	for (int r = 0; r < 10; r++) {
		uint64_t p = (uint64_t)0xD2511F53u * a, q = (uint64_t)0xCD9E8D57u * c;

		a = (uint32_t)(q >> 32) ^ b ^ k0;
		b = (uint32_t)q;
		c = (uint32_t)(p >> 32) ^ d ^ k1;
		d = (uint32_t)p;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	out[0] = a;
	out[1] = b;
	out[2] = c;
	out[3] = d;
}

/* A word as a float in [0, 1): 24 bits. */
DEVICE float
fn_unit(uint32_t word)
{
	return (word >> 8) * (1.f / 16777216);
}

/* Intersection over union of boxes given by centre and size; 0 where the union is 0. */
DEVICE float
fn_iou(float x1, float y1, float w1, float h1, float x2, float y2, float w2, float h2)
{
	float w = fminf(x1 + w1 / 2, x2 + w2 / 2) - fmaxf(x1 - w1 / 2, x2 - w2 / 2);
	float h = fminf(y1 + h1 / 2, y2 + h2 / 2) - fmaxf(y1 - h1 / 2, y2 - h2 / 2);
	float inter = w > 0 && h > 0 ? w * h : 0, uni = w1 * h1 + w2 * h2 - inter;

	return uni > 0 ? inter / uni : 0;
}

#ifdef DEV_H
/* Numbers as they are stored (dev.h). */
DEVICE float
load(const void *x, int i)
{
#ifdef BF16
	return fn_float(((const uint16_t *)x)[i]);
#else
	return ((const float *)x)[i];
#endif
}

DEVICE void
store(void *x, int i, float v)
{
#ifdef BF16
	((uint16_t *)x)[i] = fn_bf16(v);
#else
	((float *)x)[i] = v;
#endif
}

DEVICE void *
item(const void *x, size_t i)
{
	return (STORED *)x + i;
}
#endif

#endif
