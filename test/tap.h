/* tap.h -- what a test in C says: a line of TAP for each thing seen, the plan at the end. */
#ifndef TAP_H
#define TAP_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static int tap_count, tap_failed;

/* One line, with the name as printf makes it; is it good? */
__attribute__((format(printf, 2, 3)))
static inline int
okf(int good, const char *fmt, ...)
{
	va_list ap;

	printf("%sok %d - ", good ? "" : "not ", ++tap_count);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
	tap_failed += !good;
	return good;
}

static inline int
ok(int good, const char *what)
{
	return okf(good, "%s", what);
}

static inline void
skip(const char *what, const char *why)
{
	printf("ok %d - %s # SKIP %s\n", ++tap_count, what, why);
}

static inline void
skip_all(const char *why)			/* ends the program */
{
	printf("1..0 # SKIP %s\n", why);
	exit(0);
}

static inline int
done(void)			/* the plan; main returns what this does */
{
	printf("1..%d\n", tap_count);
	return tap_failed > 0;
}

#endif
