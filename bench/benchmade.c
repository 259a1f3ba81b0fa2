/* benchmade.c -- data made up for a bench: a batch, a shard of pictures. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/int.h"
#include "image/image.h"
#include "loader/loader.h"
#include "shard/shard.h"

size_t
made_batch(struct batch *b, int n, int w, int h, int c, int per)
{
	size_t floats = (size_t)n * (size_t)w * (size_t)h * (size_t)c;
	uint32_t x = 1;

	*b = (struct batch){ .n = n, .n_global = n, .w = w, .h = h };
	b->x = (float *)xmalloc(floats * sizeof(float));
	for (size_t i = 0; i < floats; i++)
		b->x[i] = (float)((x = x * 1664525 + 1013904223) >> 8) / 16777216;
	b->truth = (struct truth *)xcalloc((size_t)(n * per) + 1, sizeof(struct truth));
	for (int i = 0; i < n * per; i++) {
		struct truth t = { (float)(i / per), 0, .1f + .8f * (float)(i % per) / (float)per,
			.1f + .8f * (float)(i * 7 % per) / (float)per, .1f, .15f };

		b->truth[b->ntruth++] = t;
	}
	return floats * sizeof(float);
}

/* Slopes, edges and noise: a JPEG of some 60 KB, as photographs of this size have. */
static void
paint(struct image *im, uint32_t seed)
{
	uint32_t x = seed * 2654435761u + 1;

	for (int i = 0; i < im->h; i++)
		for (int k = 0; k < im->w; k++) {
			int edge = ((unsigned)(k + (int)seed * 31) / 53 ^ (unsigned)i / 47) & 1;

			x = x * 1664525 + 1013904223;
			for (int c = 0; c < 3; c++)
				im->px[(i * im->w + k) * 3 + c] =
				    (unsigned char)(40 + edge * 80 + (k * (c + 1) + i) % 640 / 8 +
						    (int)(x >> 27));
		}
}

char *
made_shard(int n, struct err *e)
{
	const char *tmp = getenv("TMPDIR");
	char *path = xasprintf("%s/yolo-bench.XXXXXX", tmp ? tmp : "/tmp");
	char *names[] = { (char *)"a", (char *)"b" };
	int64_t ids[] = { 0, 1 };
	int fd = mkstemp(path), bad = 0;
	struct shard_writer *w;

	if (fd < 0) {
		err_set(e, "%s: %s", path, strerror(errno));
		free(path);
		return NULL;
	}
	close(fd);
	w = shard_create(path, names, ids, 2, "", e);
	for (int i = 0; w && i < n && !bad; i++) {
		struct image im = image_new(640, 480);
		struct box box[2];
		struct record r = {
			.id = i, .w = im.w, .h = im.h, .codec = CODEC_JPEG, .box = box, .nbox = 2
		};
		unsigned char *bytes = NULL;
		char name[32];

		memset(box, 0, sizeof box);
		for (int k = 0; k < 2; k++) {
			box[k].x = 50 + 200 * k;
			box[k].y = 60 + i % 100;
			box[k].w = box[k].h = 120;
			box[k].cls = k;
		}
		snprintf(name, sizeof name, "%06d.jpg", i);
		r.name = name;
		paint(&im, (uint32_t)i);
		bad = image_jpeg(&im, 90, &bytes, &r.nbytes, e);
		r.bytes = bytes;
		bad = bad || shard_add(w, &r, e) ? -1 : 0;
		free(bytes);
		image_free(&im);
	}
	if (w && bad)
		shard_discard(w);
	if (w && !bad && !shard_finish(w, e))
		return path;
	unlink(path);
	free(path);
	return NULL;
}
