#!/bin/sh
# run.sh [HARNESS.c ...] -- fuzz every parser: FUZZ_TIME seconds each (60).  A crash is kept as
# test/fuzz/crash-*; FUZZ_KEEP=1 also keeps inputs that reach new code in test/fuzz/corpus.  Of each
# it says the inputs tried, and the edges of the code linked with it that they reached.
# Needs clang with libFuzzer.  From the repository root: make fuzz
time=${FUZZ_TIME:-60}
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
command -v clang >/dev/null || { echo "fuzz: no clang here; apt-get install clang" >&2; exit 1; }
flags="-std=c11 -D_GNU_SOURCE -O1 -g -fsanitize=fuzzer-no-link,address,undefined
	-fno-sanitize-recover=undefined -w -I. -I/usr/include/stb"
libs="-ljpeg -lxxhash -lz -lyajl -lexpat -lyaml -lgomp -lm -lpthread"
# All that reads; the linker takes what a harness needs.
for f in *parse.c eval*.c base/*.c image/*.c model/*.c labels/*.c loss/*.c shard/*.c eval/*.c \
    score/*.c train/trainset.c train/transfer.c; do
	clang $flags -c "$f" -o "$out/$(basename "$f" .c).o" || exit 1
done
ar rcs "$out/read.a" "$out"/*.o
bad=0
for h in ${*:-test/fuzz/*.c}; do
	name=$(basename "$h" .c)
	clang $flags -fsanitize=fuzzer "$h" "$out/read.a" $libs -o "$out/$name" || exit 1
	mkdir -p "test/fuzz/corpus/$name" "$out/new-$name"
	"$out/$name" -max_total_time="$time" -timeout=20 -rss_limit_mb=2048 -max_len=65536 \
	    -artifact_prefix="$PWD/test/fuzz/crash-$name-" "$out/new-$name" \
	    "$PWD/test/fuzz/corpus/$name" 2>"$out/log" || { bad=1; tail -n 40 "$out/log" >&2; }
	echo "fuzz: $name: $(sed -n 's/^Done \([0-9]*\) runs.*/\1/p' "$out/log") inputs," \
	    "$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$out/log" | tail -n 1) of" \
	    "$(sed -n 's/.*Loaded .* (\([0-9]*\) inline 8-bit counters).*/\1/p' "$out/log") edges"
	[ -z "$FUZZ_KEEP" ] ||
	    "$out/$name" -merge=1 "$PWD/test/fuzz/corpus/$name" "$out/new-$name" 2>/dev/null
done
exit $bad
