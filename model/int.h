/* int.h -- what the reader of a cfg and those of weights share among themselves. */
#ifndef MODEL_INT_H
#define MODEL_INT_H

#include "model/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- cfglex.c, cfgkeys.c: for cfgparse.c --------------------------------------------------- */

void cfg_note(struct cfg *, int line, const char *text, const char *arg);
/* Reading a section's keys; the first error is kept in e and bad is set. */
struct cfg_reader { struct cfg *c; struct cfg_section *s; struct err *e; int bad; };
struct cfg_key *cfg_get(struct cfg_reader *, const char *name);
int cfg_line(const struct cfg_reader *, const char *key);	/* the key's, else the section's */
int cfg_bad(struct cfg_reader *, const char *key, const char *fmt, ...) PRINTF(3, 4);
long cfg_int(struct cfg_reader *, const char *name, long otherwise, long lo, long hi);
double cfg_num(struct cfg_reader *, const char *name, double otherwise, double lo, double hi);
int cfg_word(struct cfg_reader *, const char *name, int otherwise, const char *const *words);
/* Numbers with commas between, *out fresh memory; how many, 0 where the key is not there. */
int cfg_list(struct cfg_reader *, const char *name, double **out, int max, int whole);
/* What is known by name (cfgkeys.c). */
int cfg_section_type(const struct cfg *, const struct cfg_section *, enum layer_type *,
    struct err *);
int cfg_leftover(struct cfg_reader *, const char *section);	/* keys that nobody read */
int cfg_knows(const char *section, const char *key);

#ifdef __cplusplus
}
#endif
#endif
