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
/* Has the item this box already?  seen: empty before the item's first. */
int label_again(struct keys *seen, const struct item *, const struct box *);
void label_classes_moved(struct dataset *);	/* their places changed: the index begins anew */
int label_twins(const struct item *);	/* boxes that repeat another, class and all */
/* Names as Windows writes them: with backslashes, or from a drive.  Turned: with slashes, without
 * the drive; free().  Shorter: without its first folder, NULL: there is none left. */
int label_windows(const char *name);
char *label_turned(const char *name);
const char *label_shorter(const char *name);
int label_yolo(struct labels *, struct item *, const char *path, struct err *);	/* one file */
void label_picture(struct labels *, const char *name, const char *path, const char *from);
int label_list(struct labels *, const char *path);
int label_folder(struct labels *, const char *path);
int label_data(struct labels *, const char *path, const char *split);
int label_yaml(struct labels *, const char *path, const char *split);
/* Has it that part, is it there?  -1: it cannot be read. */
int label_yaml_leads(const char *path, const char *split, struct err *);
/* One part of a folder that holds several; split NULL: all.  1: it is none of that kind. */
int label_root(struct labels *, const char *path, const char *split);
int label_is_coco(const char *path, struct err *);	/* -1: it cannot be read */
void label_pose(struct labels *, const char *input);	/* over a whole input: what lines are */
/* The key beside a label file (classes.txt and the like) becomes the map of its numbers. */
void label_key(struct labels *, const char *label);
void label_keys_close(struct labels *);
/* dir: where the pictures lie; near: where they may lie too, if not beside the file. */
int label_coco(struct labels *, const char *path, const char *dir, const char *near);
/* Labels of other kinds than YOLO's for a folder's pictures, none of which has one of that kind.
 * all: the files below it.  1: read; 0: there are none; -1 */
int label_beside(struct labels *, const char *path, const struct label_files *all);
/* Items from `from` on have no box: -1 if annotations of theirs lie there. */
int label_overlooked(struct labels *, const char *path, int from, const struct label_files *all);
struct coco_id { int64_t v, word; };	/* word: the v-th of the file's words, else the number v */
struct coco_image { struct coco_id id; char *file; int w, h, item, line; };
struct coco_category { struct coco_id id; char *name; int cls; };
enum box_from { BOX_GIVEN, BOX_OF_POLYGON, BOX_OF_RUNS };
struct coco_annotation {
	struct coco_id image, category;
	double box[4], area;
	int64_t id;
	int nbox, crowd, difficult, line;	/* nbox: of bbox, -1 not all numbers */
	enum box_from from;
	int rle_w, rle_h;		/* of the run lengths that the box is from */
	const char *why;		/* it has none */
};
struct coco_file {
	struct coco_image *image;
	struct coco_category *category;
	struct coco_annotation *ann;
	size_t nimage, ncategory, nann;
	struct keys word;		/* ids that are no numbers of 64 bits */
	int seen_images, seen_annotations, seen_categories;
};
int coco_parse(struct labels *, const char *path, FILE *, struct coco_file *);
int label_voc(struct labels *, const char *path);	/* folder, split file or one .xml */
int label_voc_root(const char *path);	/* has its folder Annotations any xml? */
void label_voc_files(struct labels *, const struct label_files *xml);
void label_one_based(struct labels *, const char *input);

#ifdef __cplusplus
}
#endif
#endif
