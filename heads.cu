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
yolo_k(int rows, int anchors, int classes, float scale_xy, int new_coords, const float *x, float *y)
{
	EACH2 (r, rows, i, anchors * (5 + classes)) {
		int at = r * anchors * (5 + classes) + i, e = i % (5 + classes);
		float v = new_coords || e == 2 || e == 3 ? x[at] : fn_logistic(x[at]);

		y[at] = e < 2 ? scale_xy * v - (scale_xy - 1) / 2 : v;
	}
}

KERNEL
region_k(int rows, int anchors, int classes, int softmax, const float *x, float *y)
{
	EACH2 (r, rows, a, anchors) {
		const float *u = x + (r * anchors + a) * (5 + classes);
		float *v = y + (r * anchors + a) * (5 + classes), most = u[5], sum = 0;

		for (int i = 0; i < 5; i++)
			v[i] = i == 2 || i == 3 ? u[i] : fn_logistic(u[i]);
		for (int i = 6; softmax && i < 5 + classes; i++)
			most = u[i] > most ? u[i] : most;
		for (int i = 5; i < 5 + classes; i++) {
			v[i] = softmax ? fn_exp(u[i] - most) : fn_logistic(u[i]);
			sum += v[i];
		}
		for (int i = 5; softmax && i < 5 + classes; i++)
			v[i] /= sum;
	}
}

void
BACKEND(head_yolo)(struct dev *d, int rows, int anchors, int classes, float scale_xy,
    int new_coords, const float *x, float *y)
{
	RUN(d, yolo_k, rows * anchors * (5 + classes), rows, anchors, classes, scale_xy, new_coords,
	    x, y);
}

void
BACKEND(head_region)(struct dev *d, int rows, int anchors, int classes, int softmax,
    const float *x, float *y)
{
	RUN(d, region_k, rows * anchors, rows, anchors, classes, softmax, x, y);
}
