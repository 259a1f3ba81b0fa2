/* shard.h -- records: pictures with their boxes in one checksummed file.
 *
 * Needs base, image and labels.  Promises: two packings of one input are equal files, a cut or
 * changed one is refused.  man/yolo-shard.5 is the format. */
#ifndef SHARD_PART_H
#define SHARD_PART_H

#include "base/base.h"
#include "image/image.h"
#include "labels/labels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- shard.c: the packed format ------------------------------------------------------------ */

enum codec { CODEC_JPEG, CODEC_PNG, CODEC_OTHER, CODEC_RAW };
enum { REC_TURN = 16 };			/* in orientation: it is to be applied */
struct record {
	int64_t id;			/* COCO image id, -1 where there is none */
	int w, h;			/* of the picture that its boxes are on */
	int orientation;		/* EXIF's, 0 where none is said; REC_TURN */
	enum codec codec;
	const char *name;
	const struct box *box;
	int nbox;
	const unsigned char *bytes;	/* the image file's own bytes */
	size_t nbytes;
};
struct shard;			/* one file, or a whole numbered set */
/* The footer is checked: O(1).  Any piece of a set, or a link to one, opens the whole set. */
struct shard *shard_open(const char *path, struct err *);
/* Does path[n] name a set of which a piece stands before it?  Then it adds nothing. */
int shard_again(char *const *path, int n);
void shard_close(struct shard *);
int shard_is(const char *path);		/* by its first bytes; it may be damaged */
long shard_count(const struct shard *);
int shard_classes(const struct shard *, char ***name, int64_t **id);	/* number; borrowed */
/* Record n: labels and name borrowed from the shard; image bytes read into *buf (grown, *cap
 * bytes) and verified.  Safe from several threads with buffers of their own. */
int shard_read(struct shard *, long n, struct record *, unsigned char **buf, size_t *cap,
    struct err *);
int shard_labels(struct shard *, long n, struct record *, struct err *);	/* no image bytes */
int shard_check(const char *path, long *records, struct err *);	/* every checksum */
/* How many pictures of b are in a too, byte for byte; what cannot be read is not. */
long shard_overlap(struct shard *a, struct shard *b);
const char *shard_uuid(const struct shard *);	/* 32 hex digits */
const char *shard_path(const struct shard *, long n);	/* the file that holds record n */
/* Path "-": a stream on stdout.  options: text kept in the file (what changed the bytes). */
struct shard_writer;
struct shard_writer *shard_create(const char *path, char *const *class_name,
    const int64_t *class_id, int nclass, const char *options, struct err *);
void shard_limit(struct shard_writer *, uint64_t bytes);	/* a numbered set of such files */
int shard_add(struct shard_writer *, const struct record *, struct err *);
int shard_finish(struct shard_writer *, struct err *);	/* writes the tail; frees, also on -1 */
void shard_discard(struct shard_writer *);
/* One record after the other, from a pipe or a file; needs no tail. */
struct shard_stream;
struct shard_stream *stream_open(FILE *, const char *name, struct err *);	/* f stays open */
int stream_classes(const struct shard_stream *, char ***name, int64_t **id);
/* 1: a record, borrowed until the next call; 0: the END record, all complete; -1 */
int stream_next(struct shard_stream *, struct record *, struct err *);
uint64_t stream_at(const struct shard_stream *);	/* offset of the record last read */
uint64_t stream_end(const struct shard_stream *);	/* offset behind it */
void stream_uuid(const struct shard_stream *, unsigned char uuid[16]);
void stream_close(struct shard_stream *);

/* The picture of a record: decoded, and turned where it says so. */
int record_decode(const struct record *, struct image *, struct err *);

/* shardcodec.c: the structures on disk (man/yolo-shard.5), for the shard*.c files. */
enum { SHARD_HEAD = 4096, SHARD_REC = 80, SHARD_BOX = 64, SHARD_ENTRY = 64, SHARD_FOOT = 128,
	SHARD_ALIGN = 64 };
enum rec_kind { REC_META = 1, REC_IMAGE = 2, REC_END = 3 };
struct shard_head { int stream; unsigned char uuid[16]; };
struct shard_rec {		/* the prefix of a record */
	enum rec_kind kind;
	uint64_t sum, payload;		/* XXH3-64 of the payload, its length */
	int64_t id;
	int w, h, codec, orientation;
	unsigned name_len, nbox;
};
struct shard_entry {		/* a record in the index */
	uint64_t offset, length, sum, box, name;	/* length: prefix and payload */
	int64_t id;
	unsigned nbox, name_len;
	int w, h, codec, orientation;
};
struct shard_foot {
	uint64_t length, records, nbox, index, boxes, names, index_sum, boxes_sum, names_sum;
	unsigned member, last;		/* number of this file in a set; is it the last? */
	unsigned char uuid[16], prev[16];
};
uint64_t shard_image_at(uint64_t name_len, uint64_t nbox);	/* within a record */
void shard_put_head(unsigned char *, const struct shard_head *);
int shard_get_head(const unsigned char *, struct shard_head *, struct err *);
void shard_put_rec(unsigned char *, const struct shard_rec *);
int shard_get_rec(const unsigned char *, struct shard_rec *, struct err *);
void shard_put_box(unsigned char *, const struct box *);
void shard_get_box(const unsigned char *, struct box *);
/* NULL, or why it is none: not finite, a negative side. */
const char *shard_box_bad(const struct box *);
void shard_put_entry(unsigned char *, const struct shard_entry *);
void shard_get_entry(const unsigned char *, struct shard_entry *);
void shard_put_foot(unsigned char *, const struct shard_foot *);
int shard_get_foot(const unsigned char *, struct shard_foot *, struct err *);
unsigned char *shard_put_meta(char *const *name, const int64_t *id, int n, const char *options,
    size_t *len);
int shard_get_meta(const unsigned char *, size_t len, char ***name, int64_t **id, int *n,
    struct err *);

/* ---- pack.c, unpack.c: yolo-prep's two halves ---------------------------------------------- */

struct pack_opts {
	const char *out, *names, *split;	/* split: as in struct dataset */
	char *const *in;		/* anything labels_read takes, and shards; "-" stdin */
	int nin, nul;			/* nul: the list on stdin ends its names with NUL */
	int w, h, quality;		/* recode to fit w x h, 0: as it is; quality 0: 90 */
	int threads, salvage;	/* salvage: take what is whole of a damaged shard or stream */
	int stored;			/* EXIF's orientation is not applied */
	long max_bad;			/* -1: labels without limit, pictures none */
	uint64_t limit;			/* bytes of a piece, 0: one file */
	label_report *report;
	void *arg;
	volatile int *stop;		/* set by a signal */
};
struct pack_result { long pictures, boxes, refused, notes, bad; int classes;
	long untrained; };		/* of the boxes: crowds and difficult ones */
struct pack_job {			/* one picture on its way */
	struct record rec;
	struct box *box;
	unsigned char *bytes;
	size_t cap;
	char *bad, *note;		/* why it is left out; remarks, one a line */
	size_t note_len, note_cap;
	int packed;			/* out of a shard: its record says whether it is turned */
	int done;
};
/* 0 packed; -1 failed, nothing written. */
int pack_run(const struct pack_opts *, struct pack_result *, struct err *);
/* Pictures byte for byte and labels as yolo, coco or voc, into a new or empty folder. */
int unpack_run(const char *dir, const char *format, char *const *shard, int n, long *pictures,
    volatile int *stop, struct err *);

#ifdef __cplusplus
}
#endif
#endif
