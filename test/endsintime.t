#!/bin/sh
# endsintime.t -- a run that is stopped: in time, with its status, a checkpoint, and -R after it is
# the run never stopped; whether in validation, behind a pager, suspended, or waiting for pictures.
. test/runs.sh
small_set && tools/yolo-synth -q -n 300 -s 96 -S 5 -o "$t/bigset" &&
    ./yolo-prep -q -n "$t/set/names" -o "$t/big.shard" "$t/bigset/images"
ok $? 'a small set, and a large one to validate on'
opt="-O save=4 -O steps=10"
run() { ./yolo-train -q -c "$cfg" -O threads=1 -d cpu $opt "$@" 2>"$t/err"; }
bg() { exec ./yolo-train -q -c "$cfg" -O threads=1 -d cpu "$@" 2>"$t/err"; }	# with &
whole() {	# whole DIR LIKE: are its files those of the run never stopped?
	[ -z "$(ls "$1" | grep tmp)" ] && same "$1/val.tsv" "$2/val.tsv" &&
	    same "$1/best.weights" "$2/best.weights" &&
	    same "$1/best.safetensors" "$2/best.safetensors" &&
	    same "$1/last.safetensors" "$2/last.safetensors" && {
		cut -f 1-10 "$1/log.tsv" >"$t/a"
		cut -f 1-10 "$2/log.tsv" >"$t/b"
		same "$t/a" "$t/b"
	}
}
ms() { echo $(($(date +%s%N) / 1000000)); }
await() {	# await PID COMMAND...: until it is so, or the process has ended
	p=$1; shift
	while ! "$@" 2>/dev/null && kill -0 "$p" 2>/dev/null; do sleep .01; done
}
due() { [ "$(meta "$1/last.safetensors" due)" = 1 ]; }
stop() {	# stop SIGNAL PID: its status and time
	from=$(ms); kill -"$1" "$2"; wait "$2"; status=$?; took=$(($(ms) - from))
}

# ---- in validation
for g in 1 2; do
	sigs='TERM KILL'
	[ $g = 1 ] || sigs='HUP KILL'
	run -g $g -v "$t/big.shard" -o "$t/whole$g" "$t/train.shard" >"$t/out"
	ok $? "a run never stopped (-g $g)"
	for sig in $sigs; do
		r=$t/v$g$sig
		bg $opt -g $g -v "$t/big.shard" -o "$r" "$t/train.shard" >"$t/out" &
		pid=$!
		await $pid due "$r"
		stop $sig $pid 2>"$t/out"
		case $sig in TERM) want=143;; HUP) want=129;; *) want=137;; esac
		[ $status = $want ] && [ $took -lt 2000 ] && due "$r"
		ok $? "SIG$sig in validation: status $status after $took ms, it is still due"
		./yolo-train -q -R -g $g -o "$r" >"$t/out" 2>"$t/err" && whole "$r" "$t/whole$g"
		ok $? '... and -R validates first, and is the run never stopped'
	done
done

# ---- the logs
like=$t/like
run -v "$t/val.shard" -o "$like" "$t/train.shard" >"$t/out"; ok $? 'a run never stopped'
cut_run() {	# cut_run DIR: stopped at step 8, and what belongs to it
	rm -rf "$1"
	./yolo-train -q -c "$cfg" -O threads=1 -d cpu -O save=4 -O steps=8 -v "$t/val.shard" \
	    -o "$1" "$t/train.shard" >"$t/out" 2>"$t/err"
}
resume() { ./yolo-train -q -R -O steps=10 -o "$1" >"$t/out" 2>"$t/err"; }
cut_run "$t/cut" && sed -i 2d "$t/cut/val.tsv" && resume "$t/cut" &&
    same "$t/cut/val.tsv" "$like/val.tsv"
ok $? 'a val.tsv that was cut comes from the checkpoint'
cut_run "$t/cut" && sed -i 6,7d "$t/cut/log.tsv" && cp "$t/cut/log.tsv" "$t/was"
resume "$t/cut"; [ $? = 1 ] && has 'step 8, and the row of step 5 is not there' &&
    cmp -s "$t/cut/log.tsv" "$t/was"
ok $? 'a log.tsv that was cut is refused, and stays'
rm "$t/cut/log.tsv" && resume "$t/cut" && has 'begins at step 9' &&
    grep -q '^#lost	1	8$' "$t/cut/log.tsv"
ok $? '... moved away, a new one begins and says so'
./yolo-train -q -R -O steps=11 -o "$t/cut" >"$t/out" 2>"$t/err" &&
    grep -q '^#lost' "$t/cut/log.tsv" &&
    [ "$(grep -vc '^#' "$t/cut/log.tsv")" = 3 ]
ok $? '... and goes on'
cut_run "$t/cut" && rm "$t/cut/log.tsv" && mkdir "$t/cut/log.tsv"
resume "$t/cut"; [ $? = 1 ] && has 'log.tsv: Is a directory'
ok $? 'a log.tsv that cannot be read is no log that is not there'

# ---- a first try that failed, another folder
sed 's/^classes=4/classes=2/; s/^filters=27$/filters=21/' $cfg >"$t/two.cfg"
./yolo-train -q -c "$t/two.cfg" -d cpu -v "$t/val.shard" -o "$t/try" "$t/train.shard" \
    >"$t/out" 2>"$t/err"
[ $? = 1 ] && [ -e "$t/try/val.shard" ] && run -O steps=6 -o "$t/try" "$t/train.shard" >"$t/out" &&
    resume "$t/try" && [ "$(grep -vc '^#' "$t/try/val.tsv")" = 0 ]
ok $? 'val.shard of a first try that failed is not taken for one'
cut_run "$t/here" && mv "$t/here" "$t/there" && resume "$t/there" && whole "$t/there" "$like"
ok $? 'a folder that was moved goes on'

# ---- the checkpoint before
cut_run "$t/two" && [ "$(meta "$t/two/last-1.safetensors" step)" = 5 ]
ok $? 'the checkpoint before the last is kept'
cut_run "$t/one" && ln -f "$t/one/last.safetensors" "$t/one/last-1.safetensors" &&
    resume "$t/one" && [ -z "$(ls "$t/one" | grep tmp)" ]
ok $? 'a run that was killed between the two names of one file leaves none over'
printf 'xxxxxxxx' | dd of="$t/two/last.safetensors" bs=1 seek=9000 conv=notrunc 2>/dev/null
resume "$t/two"; [ $? = 1 ] && has 'to go on from step .*: mv .*/last-1.safetensors'
ok $? 'a damaged one is refused, with the command that takes the one before'
cmd=$(sed -n 's/.*checkpoint before: //p' "$t/err")
$cmd && resume "$t/two" && whole "$t/two" "$like"; ok $? '... and that goes on to the same end'

# ---- SIGUSR1
for g in 1 2; do
	bg -g $g -e 100000 -o "$t/usr$g" "$t/train.shard" >"$t/out" &
	pid=$!
	await $pid grep -q '^2	' "$t/out"
	rm -f "$t/usr$g"/last*; kill -USR1 $pid
	await $pid [ -e "$t/usr$g/last.safetensors" ]
	before=$(wc -l <"$t/out")
	await $pid eval '[ $(wc -l <"$t/out") -gt $((before + 3)) ]'
	stop TERM $pid
	[ $status = 143 ]; ok $? "SIGUSR1: a checkpoint, and the run goes on (-g $g)"
done

# ---- a pager
mkfifo "$t/pipe"
sleep 30 <"$t/pipe" &
pager=$!
bg -e 100000 -O save=100000 -o "$t/paged" "$t/train.shard" >"$t/pipe" &
pid=$!
await $pid [ -e "$t/paged/log.tsv" ]
size=-1
while kill -0 $pid && [ "$(wc -l <"$t/paged/log.tsv")" != "$size" ]; do
	size=$(wc -l <"$t/paged/log.tsv"); sleep .3
done
stop TERM $pid; kill $pager
[ $status = 143 ] && [ $took -lt 2000 ] && [ "$(meta "$t/paged/last.safetensors" step)" -gt 50 ]
ok $? "a standard output that blocks: $status after $took ms, with a checkpoint"

# ---- suspended: as a whole, and one rank alone
bg() { exec setsid ./yolo-train -q -c "$cfg" -O threads=1 -d cpu "$@" 2>"$t/err"; }
bg -g 2 -e 100000 -O stall=1 -o "$t/sus" "$t/train.shard" >"$t/out" &
pid=$!
await $pid [ -e "$t/sus/last.safetensors" ]
kill -STOP -$pid; sleep 2.5; kill -CONT -$pid
lines=$(wc -l <"$t/out")
await $pid eval '[ $(wc -l <"$t/out") -gt $((lines + 20)) ]'
stop TERM $pid
[ $status = 143 ] && ! has stalled; ok $? "a run that was suspended as a whole goes on: $status"
bg -g 2 -e 100000 -O stall=1 -o "$t/sus1" "$t/train.shard" >"$t/out" &
pid=$!
await $pid [ -e "$t/sus1/last.safetensors" ]
rank=$(cut -d ' ' -f 2 "/proc/$pid/task/$pid/children")
kill -STOP $rank; wait $pid
[ $? = 1 ] && has "rank 1 stalled for 1 s: .* on $(uname -n); after step .* step .*sus1/last.s"
ok $? 'a rank that is suspended alone: who, where, how far, and what -R goes on from'

# ---- memory
(ulimit -v 1000000; run -s 416 -b 4000 -o "$t/large" "$t/train.shard" >"$t/out")
[ $? = 1 ] && has 'the run needs .* at batch 4000, .*ulimit -v.*the largest batch that fits is -b'
ok $? 'a batch that is too large for memory is told before the first step'
fits=$(sed -n 's/.*largest batch that fits is -b \([0-9]*\).*/\1/p' "$t/err")
(ulimit -v 1000000; run -s 416 -O steps=1 -b "$fits" -o "$t/fits" "$t/train.shard" >"$t/out")
ok $? "... with the largest that does, $fits, and that does"

# ---- steps that are of no effect
run -O lr=1e30 -O clip=0 -O warmup=0 -O steps=4 -o "$t/nan" "$t/train.shard" >"$t/out"
[ $? = 1 ] && has 'no effect'; ok $? 'a run whose steps are all not finite has not succeeded'
plan
