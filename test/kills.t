#!/bin/sh
# kills.t -- SIGKILL at random moments: what is there under its name is whole, and a run that was
# killed any number of times ends like one that never was.  KILLS=50 for more of them.
. test/tap.sh
kills=${KILLS:-8}
seed=$(date +%N | sed 's/^0*//')
echo "# seed $seed"
below() {	# below N: a random number, in $draw
	seed=$(((seed * 1103515245 + 12345) % 2147483648))
	draw=$((seed / 1000 % ($1 + 1)))
}
ms() { echo $(($(date +%s%N) / 1000000)); }
killed() {	# killed MS COMMAND...: it and its children, after a random time of at most so long
	below "$1"; shift
	setsid "$@" >/dev/null 2>"$t/err" &
	pid=$!
	sleep "$(printf '%d.%03d' $((draw / 1000)) $((draw % 1000)))"
	{ kill -9 -$pid || kill -9 $pid; wait $pid; } 2>/dev/null	# no group yet: just begun
}
tools/yolo-synth -q -n 60 -s 128 -S 3 -o "$t/set" &&
    tools/yolo-synth -q -n 9 -s 96 -S 4 -o "$t/val" &&
    ./yolo-prep -q -n "$t/set/names" -o "$t/old.shard" "$t/val/images"
from=$(ms)
./yolo-prep -q -j 2 -s 100 -n "$t/set/names" -o "$t/new.shard" "$t/set/images"
took=$(($(ms) - from))
ok $? 'a set'
bad=0 old=0 new=0
for i in $(seq "$kills"); do
	cp "$t/old.shard" "$t/out.shard"
	killed $((took * 2)) \
	    ./yolo-prep -q -j 2 -s 100 -n "$t/set/names" -o "$t/out.shard" "$t/set/images"
	if cmp -s "$t/out.shard" "$t/old.shard"; then old=$((old + 1))
	elif cmp -s "$t/out.shard" "$t/new.shard"; then new=$((new + 1))
	else bad=$((bad + 1)); fi
done
[ $bad = 0 ]; ok $? "yolo-prep killed $kills times: $old times the old shard, $new the new one"
bad=0
for i in $(seq "$kills"); do
	killed $((took / 4)) ./yolo-prep -q -x "$t/x" "$t/new.shard"
	[ ! -e "$t/x" ] || [ "$(find "$t/x/images" -name '*.jpg' | wc -l)" = 60 ] || {
		bad=$((bad + 1))
		echo "# after $draw ms: $(find "$t/x" | sed "s|$t/||" | tail -n 70 | tr '\n' ' ')"
	}
	rm -rf "$t"/x*
done
[ $bad = 0 ]; ok $? "yolo-prep -x killed $kills times: a whole folder or none"
rm -f "$t"/*.tmp.*

train="./yolo-train -q -c test/small.cfg -d cpu -O threads=1 -O steps=24 -O save=2"
from=$(ms)
$train -v "$t/old.shard" -o "$t/whole" "$t/new.shard" >"$t/log" 2>"$t/err"
took=$(($(ms) - from))
ok $? 'a run'
for ranks in 1 2; do
	whole=$t/whole
	[ $ranks = 1 ] || {
		whole=$t/whole2
		$train -g 2 -v "$t/old.shard" -o "$whole" "$t/new.shard" >"$t/log" 2>"$t/err"
	}
	rm -rf "$t/run"
	bad=0 resumed=0
	for i in $(seq "$kills"); do
		if [ -e "$t/run/last.safetensors" ]; then
			resumed=$((resumed + 1))
			killed $((took / 2)) ./yolo-train -q -R -g $ranks -o "$t/run"
		else
			killed "$took" $train -g $ranks -v "$t/old.shard" -o "$t/run" "$t/new.shard"
		fi
		for f in last best; do
			[ ! -e "$t/run/$f.safetensors" ] ||
			    ./yolo-detect -q -d cpu -O threads=1 -w "$t/run/$f.safetensors" \
			    "$t/set/images/000000.jpg" >"$t/log" 2>"$t/err" || bad=$((bad + 1))
		done
	done
	[ $bad = 0 ]
	ok $? "yolo-train -g $ranks killed $kills times, resumed $resumed: all files whole"
	if [ -e "$t/run/last.safetensors" ]
	then ./yolo-train -q -R -g $ranks -o "$t/run" >"$t/log" 2>"$t/err"
	else $train -g $ranks -v "$t/old.shard" -o "$t/run" "$t/new.shard" >"$t/log" 2>"$t/err"
	fi
	[ $? = 0 ] && cmp "$t/run/last.safetensors" "$whole/last.safetensors" >>"$t/err" &&
	    cmp "$t/run/best.weights" "$whole/best.weights" >>"$t/err" &&
	    cmp "$t/run/val.tsv" "$whole/val.tsv" >>"$t/err"
	ok $? 'at the end it is the run never stopped'
	cut -f 1-10 "$whole/log.tsv" >"$t/want"
	cut -f 1-10 "$t/run/log.tsv" | cmp -s - "$t/want"; ok $? 'and so is its log'
	[ -z "$(ls "$t/run" | grep tmp)" ]; ok $? 'and nothing half written lies about'
done
plan
