#!/bin/sh
# run.sh -- fuzz every parser: FUZZ_TIME seconds each (60).  A crash is kept as
# test/fuzz/crash-*; FUZZ_KEEP=1 also keeps inputs that reach new code in test/fuzz/corpus.
# Needs clang with libFuzzer.  From the repository root: make fuzz
time=${FUZZ_TIME:-60}
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
command -v clang >/dev/null || { echo "fuzz: no clang here; apt-get install clang" >&2; exit 1; }
flags="-std=c11 -D_GNU_SOURCE -O1 -g -fsanitize=fuzzer-no-link,address,undefined
	-fno-sanitize-recover=undefined -w -I. -I/usr/include/stb"
libs="-ljpeg -lxxhash -lz -lyajl -lexpat -lyaml -lgomp -lm -lpthread"
bad=0
for h in ${*:-test/fuzz/*.c}; do
	name=$(basename "$h" .c)
	# the modules a harness needs stand in its comment behind "modules:", else the data path's
	mods=$(awk '/modules:/ { on = 1; sub(/.*modules:/, "") }
	    on { end = index($0, "*/"); sub(/\*\/.*/, ""); sub(/^ \*/, ""); print
		if (end) exit }' "$h" | tr '\n' ' ')
	: "${mods:=util keys opt image imagehead jpeg stb resize labels labelyolo labellist \
labelyaml labelvoc labelcoco cocoparse shard shardcodec shardstream shardwrite}"
	for m in $mods; do
		[ -e "$out/$m.o" ] && continue
		clang $flags -c "$(ls "$m.c" */"$m.c" 2>/dev/null)" -o "$out/$m.o" || exit 1
	done
	clang $flags -fsanitize=fuzzer "$h" $(printf "$out/%s.o " $mods) $libs \
	    -o "$out/$name" || exit 1
	mkdir -p "test/fuzz/corpus/$name" "$out/new-$name"
	"$out/$name" -max_total_time="$time" -timeout=20 -rss_limit_mb=2048 -max_len=65536 \
	    -artifact_prefix="$PWD/test/fuzz/crash-$name-" "$out/new-$name" \
	    "$PWD/test/fuzz/corpus/$name" 2>"$out/log" || { bad=1; tail -n 40 "$out/log" >&2; }
	echo "fuzz: $name: $(grep -c . "$out/log") lines, $(tail -n 1 "$out/log")"
	[ -z "$FUZZ_KEEP" ] ||
	    "$out/$name" -merge=1 "$PWD/test/fuzz/corpus/$name" "$out/new-$name" 2>/dev/null
done
exit $bad
