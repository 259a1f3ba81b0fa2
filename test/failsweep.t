#!/usr/bin/perl
# failsweep.t -- yolo-prep -x and packing, with the n-th call of each kind that fails, n = 1, 2
# and so on: the same output, or a status that is not 0, a message, and nothing left under its name.
use strict;
use warnings;
use File::Temp qw(tempdir);
use Test::More;

my $dir = tempdir(CLEANUP => 1);

sub put {
	open my $f, '>', $_[0] or die "$_[0]: $!";
	print $f $_[1];
	close $f or die;
}

# FN=function N=number of the call that fails; COUNT: how many there were, at the end.
put("$dir/fail.c", <<'C');
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
static int seen;
static int
hit(const char *fn, int why)
{
	const char *want = getenv("FN");

	if (!want || strcmp(want, fn) || __atomic_add_fetch(&seen, 1, __ATOMIC_SEQ_CST) !=
	    atoi(getenv("N")))
		return 0;
	if (access(getenv("COUNT"), F_OK))
		fclose(((FILE *(*)(const char *, const char *))dlsym(RTLD_NEXT, "fopen"))(
		    getenv("COUNT"), "w"));
	errno = why;
	return 1;
}
#define REAL(type, name, args) type (*real) args = (type (*) args)dlsym(RTLD_NEXT, name)
#define FAILS(type, name, params, args, why, ret, also) \
	type name params { REAL(type, #name, params); \
		if (hit(#name, why)) { also; errno = why; return ret; } return real args; }
FAILS(size_t, fread, (void *p, size_t s, size_t n, FILE *f), (p, s, n, f), EIO, 0, f->_flags |= 32)
FAILS(size_t, fwrite, (const void *p, size_t s, size_t n, FILE *f), (p, s, n, f), ENOSPC, 0,
    f->_flags |= 32)
FAILS(int, fclose, (FILE *f), (f), EIO, EOF, real(f))
FAILS(int, fsync, (int fd), (fd), EIO, -1, )
FAILS(int, mkdir, (const char *p, mode_t m), (p, m), EIO, -1, )
FAILS(int, rename, (const char *a, const char *b), (a, b), EIO, -1, )
FAILS(FILE *, fopen, (const char *p, const char *m), (p, m), EMFILE, NULL, )
FAILS(ssize_t, pread, (int fd, void *p, size_t n, off_t at), (fd, p, n, at), EIO, -1, )
int
open(const char *p, int flags, ...)
{
	REAL(int, "open", (const char *, int, mode_t));
	mode_t mode = 0;
	va_list ap;

	va_start(ap, flags);
	if (flags & O_CREAT)
		mode = va_arg(ap, mode_t);
	va_end(ap);
	return hit("open", EMFILE) ? -1 : real(p, flags, mode);
}
C
if (system("cc -shared -fPIC -o $dir/fail.so $dir/fail.c -ldl 2>$dir/cc")) {
	plan skip_all => 'the shim cannot be made here';
}
plan skip_all => 'a sanitizer wants to be loaded first' if `nm ./yolo-prep` =~ /__asan_init/;
system("tools/yolo-synth -q -n 2 -s 32 -o $dir/set && ./yolo-prep -q -n $dir/set/names " .
    "-o $dir/t.shard $dir/set/images") && die;

sub run {
	my ($fn, $n, $cmd) = @_;
	unlink "$dir/hit";
	system("rm -rf $dir/out");
	local %ENV = (%ENV, FN => $fn, N => $n, COUNT => "$dir/hit", LD_PRELOAD => "$dir/fail.so");
	my $status = system("$cmd >$dir/said 2>&1") >> 8;
	delete $ENV{LD_PRELOAD};
	my $made = `cd $dir; find out out.* -type f 2>/dev/null | sort | xargs -r md5sum`;
	return ($status, $made, -e "$dir/hit");
}

my %cmd = (map({ +"-x $_" => "./yolo-prep -q -x $dir/out -f $_ $dir/t.shard" } qw(yolo coco voc)),
    'packing' => "./yolo-prep -q -j 1 -n $dir/set/names -o $dir/out $dir/set/images");
for my $what (sort keys %cmd) {
	my (undef, $good) = run('none', 1, $cmd{$what});
	my ($tries, @bad) = (0);
	for my $fn (qw(fread fwrite fclose fsync mkdir rename fopen pread open)) {
		for (my $n = 1; $n < 200; $n++) {
			my ($status, $made, $hit) = run($fn, $n, $cmd{$what});
			last if !$hit;
			$tries++;
			push @bad, "$fn $n: status $status"
			    if $status ? $status != 1 || $made ne '' || !-s "$dir/said" :
			    $made ne $good;
		}
	}
	ok(!@bad && $good && $tries > 20, "$what: $tries calls that fail") or diag(join "\n", @bad);
}
done_testing();
