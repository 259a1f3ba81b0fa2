/* int.h -- a reading of labels under way, for the readers of each kind. */
#ifndef LABELS_INT_H
#define LABELS_INT_H

#include "labels/labels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- for labels.c and label*.c ------------------------------------------------------------- */

struct text { char *buf, *p, *end; int line, nul; };	/* nul: lines end in NUL, not newline */
int text_open(struct text *, const char *path, struct err *);	/* -1 also for UTF-16 and binary */
int text_plain(struct text *, const char *path, struct err *);	/* the same of a plain file */
char *text_line(struct text *);		/* NULL at the end; ends of line \n, \r\n, \r */
void label_map(struct labels *, const char *from, char *const *name, int n); /* its own names */
/* -1: refused, 0 fine, 1 clipped to w x h (0: size unknown, no clipping); why: what to report */
int label_check_box(struct box *, int w, int h, const char **why);
int label_yolo(struct labels *, struct item *, const char *path, struct err *);	/* one file */
void label_picture(struct labels *, const char *name, const char *path, const char *from);
int label_list(struct labels *, const char *path);
int label_folder(struct labels *, const char *path);
int label_data(struct labels *, const char *path, const char *split);
int label_yaml(struct labels *, const char *path, const char *split);
int label_coco(struct labels *, const char *path, const char *dir);
struct coco_id { int64_t v; char *s; };	/* s NULL: the number v */
struct coco_image { struct coco_id id; char *file; int w, h, item; };
struct coco_category { struct coco_id id; char *name; int cls; };
struct coco_annotation {
	struct coco_id image, category;
	double box[4], area;
	int64_t id;
	int nbox, polygon, crowd, difficult, line;	/* nbox: of bbox, -1 not all numbers */
};
struct coco_file {
	struct coco_image *image;
	struct coco_category *category;
	struct coco_annotation *ann;
	size_t nimage, ncategory, nann;
	int seen_images, seen_annotations, seen_categories;
};
int coco_parse(struct labels *, const char *path, FILE *, struct coco_file *);
int label_voc(struct labels *, const char *path);	/* folder, split file or one .xml */
void label_one_based(struct labels *, const char *input);

#ifdef __cplusplus
}
#endif
#endif
