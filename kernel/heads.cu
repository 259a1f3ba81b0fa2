/* heads.cu -- what the raw values of a detection head say, for decoding: yolo and region of
 * struct layer_ops.
 *
 * A row is a cell: for each anchor x y w h objectness and the classes. */
#include "yolo.h"
#include "dev.h"
#include "fn.h"

/* Logistic but for w h; x y then stretched about 1/2.  new_coords: raw values are probabilities
 * already. */
KERNEL
yolo_k(int rows, int anchors, int classes, float scale_xy, int new_coords, const void *x, void *y)
{
	EACH2 (r, rows, i, anchors * (5 + classes)) {
		int to = r * anchors * (5 + classes) + i, e = i % (5 + classes);
		float u = load(x, to), v = new_coords || e == 2 || e == 3 ? u : fn_logistic(u);

		store(y, to, e < 2 ? scale_xy * v - (scale_xy - 1) / 2 : v);
	}
}

KERNEL
region_k(int rows, int anchors, int classes, int softmax, const void *x, void *y)
{
	EACH2 (r, rows, a, anchors) {
		const void *u = item(x, (r * anchors + a) * (5 + classes));
		void *v = item(y, (r * anchors + a) * (5 + classes));
		float most = load(u, 5), sum = 0;

		for (int i = 0; i < 5; i++)
			store(v, i, i == 2 || i == 3 ? load(u, i) : fn_logistic(load(u, i)));
		for (int i = 6; softmax && i < 5 + classes; i++)
			most = load(u, i) > most ? load(u, i) : most;
		for (int i = 5; softmax && i < 5 + classes; i++)
			sum += fn_exp(load(u, i) - most);
		for (int i = 5; i < 5 + classes; i++) {
			float p = load(u, i);

			store(v, i, softmax ? fn_exp(p - most) / sum : fn_logistic(p));
		}
	}
}

void
BACKEND(head_yolo)(struct dev *d, int rows, int anchors, int classes, float scale_xy,
    int new_coords, const void *x, void *y)
{
	RUN(d, yolo_k, rows * anchors * (5 + classes), rows, anchors, classes, scale_xy, new_coords,
	    x, y);
}

void
BACKEND(head_region)(struct dev *d, int rows, int anchors, int classes, int softmax,
    const void *x, void *y)
{
	RUN(d, region_k, rows * anchors, rows, anchors, classes, softmax, x, y);
}
