#!/bin/sh
# Training as a user runs it: resume after a kill, ranks, signals, refusals.
. test/runs.sh
train() { ./yolo-train -q -c test/small.cfg -O threads=1 -v "$t/val.shard" "$@" 2>"$t/err"; }

tools/yolo-synth -q -n 37 -s 96 -S 3 -o "$t/set" &&
    tools/yolo-synth -q -n 12 -s 96 -S 4 -o "$t/valset" &&
./yolo-prep -q -n "$t/set/names" -o "$t/train.shard" "$t/set/images" &&
./yolo-prep -q -n "$t/set/names" -o "$t/val.shard" "$t/valset/images"
ok $? 'a small set, drawn and packed'

# Run until the log has shown step $3, then kill the whole group at once.
killed_run() {	# killed_run DIR RANKS STEP JOBS
	setsid sh -c 'echo $$; exec "$@"' x \
	    ./yolo-train -q -c test/small.cfg -O threads=1 -O steps=40 \
	    -O save=5 -g "$2" -j "$4" -d cpu -v "$t/val.shard" -o "$1" "$t/train.shard" 2>"$t/err" |
	    { read -r pid
	    while read -r step rest; do [ "$step" = "$3" ] && kill -9 -"$pid"; done; }
}
untimed() { cut -f 1-10 "$1"; }		# img_s, wait_ms and mem_mb are of the machine

for g in 1 2; do
	train -O steps=40 -O save=5 -g $g -d cpu -o "$t/whole$g" "$t/train.shard" >/dev/null
	ok $? "40 steps on $g rank(s)"
	for j in 1 8; do
		r=$t/cut$g$j
		killed_run "$r" $g 17 $j
		train -R -o "$r" -j $j -g $g -d cpu >/dev/null
		status=$?
		at=$(sed -n 's/.*resuming .* at step \([0-9]*\)$/\1/p' "$t/err")
		case $status$at in 015|020|025|030|035) true;; *) false;; esac	# mostly 15
		ok $? "killed after step 17, resumed at '$at' (-g $g -j $j)"
		cmp "$t/whole$g/last.safetensors" "$r/last.safetensors" >"$t/err" 2>&1
		ok $? "last.safetensors as if never stopped (-g $g -j $j)"
		cmp "$t/whole$g/best.weights" "$r/best.weights" >"$t/err" 2>&1
		ok $? "best.weights likewise (-g $g -j $j)"
		cmp "$t/whole$g/val.tsv" "$r/val.tsv" >"$t/err" 2>&1
		ok $? "val.tsv likewise (-g $g -j $j)"
		untimed "$t/whole$g/log.tsv" >"$t/a"; untimed "$r/log.tsv" >"$t/b"
		cmp "$t/a" "$t/b" >"$t/err" 2>&1
		ok $? "log.tsv likewise but for its timings (-g $g -j $j)"
	done
done

./yolo-detect -q -O eval=1 -O threads=1 -c "$t/whole1/run.cfg" -w "$t/whole1/best.weights" \
    "$t/val.shard" >"$t/det" 2>"$t/err" &&
./yolo-eval -q -m coco -t "$t/val.shard" "$t/det" >"$t/metrics" 2>"$t/err"
want=$(awk -F '\t' '!/^#/ { if ($3 > best || NR == 2) { best = $3 } } END { printf "%.9g", best }' \
    "$t/whole1/val.tsv")
got=$(awk -F '\t' '$2 == "-" && $3 == "AP" { printf "%.9g", $4 }' "$t/metrics")
[ "$want" = "$got" ]; ok $? "val.tsv's AP is that of yolo-detect | yolo-eval ($want, $got)"

train -o "$t/whole1" "$t/train.shard" >/dev/null; [ $? = 1 ] && has 'holds a run'
ok $? 'a folder that holds a run is refused'
train -R -o "$t/whole1" -b 4 >/dev/null; [ $? = 1 ] && has '-b 4'
ok $? '-R with another batch is refused'
sed 's/filters=16/filters=12/' test/small.cfg >"$t/other.cfg"
train -R -o "$t/whole1" -c "$t/other.cfg" >/dev/null; [ $? = 1 ] && has 'other.cfg: the run was'
ok $? '-R with another cfg is refused'
train -R -o "$t/whole1" -w "$t/whole1/best.weights" >/dev/null; [ $? = 1 ] && has '-w .*without'
ok $? '-R with weights that the run did not begin with is refused'
train -R -o "$t/whole1" "$t/valset/images" >/dev/null; [ $? = 1 ] && has 'not the data'
ok $? '-R with other pictures is refused'
./yolo-train -q -R -v "$t/train.shard" -o "$t/whole1" >/dev/null 2>"$t/err"
[ $? = 1 ] && has 'not the data'; ok $? '-R with other pictures to validate on is refused'
mv "$t/train.shard" "$t/moved.shard"
./yolo-train -q -R -o "$t/whole1" >/dev/null 2>"$t/err"; [ $? = 1 ] && has 'train.shard: No such'
ok $? '-R names data that is gone'
train -R -n "$t/set/names" -o "$t/whole1" "$t/set/images" >/dev/null
[ $? = 1 ] && has '-n .*without'
ok $? '-R with names that were not given is refused'
train -R -o "$t/whole1" "$t/moved.shard" >/dev/null && has 'nothing left'
ok $? '-R takes the same data from another place, the same cfg and the same validation set'
mv "$t/moved.shard" "$t/train.shard"
ls "$t/whole1" | grep -q again; [ $? = 1 ]; ok $? 'and leaves nothing behind'
train -R -o "$t/nothing" >/dev/null; [ $? = 1 ] && has 'no last.safetensors'
ok $? '-R without a checkpoint is refused'
train -O nonsense=1 -o "$t/x" "$t/train.shard" >/dev/null; [ $? = 2 ] && has 'unknown setting'
ok $? 'an unknown setting is a usage error'
train -L nonsense -o "$t/x" "$t/train.shard" >/dev/null; [ $? = 1 ] && has 'want ciou'
ok $? 'an unknown loss is named'
train -o "$t/y" "$t/missing.shard" >/dev/null; [ $? = 1 ] && has 'missing.shard'
ok $? 'missing data is named'
head -c 5000 "$t/train.shard" >"$t/cut.shard"
train -o "$t/z" "$t/cut.shard" >/dev/null; [ $? = 1 ] && has 'cut.shard'
ok $? 'a cut shard is named'
[ ! -e "$t/z/last.safetensors" ]; ok $? '... and nothing was written'
train -O lr=1e30 -O clip=0 -O nan_stop=3 -O warmup=0 -O steps=30 -o "$t/nan" "$t/train.shard" \
    >/dev/null
[ $? = 1 ] && has 'not finite'; ok $? 'a run that is not finite stops and says so'

./yolo-train -q -c test/small.cfg -O threads=1 -o "$t/term" "$t/train.shard" >"$t/log" 2>"$t/err" &
pid=$!
while ! grep -q '^5	' "$t/log" 2>/dev/null && kill -0 $pid 2>/dev/null; do sleep .02; done
kill -TERM $pid; wait $pid
[ $? = 143 ] && [ -e "$t/term/last.safetensors" ]; ok $? 'SIGTERM: a checkpoint, and status 143'
./yolo-train -q -R -O steps=20 -o "$t/term" >/dev/null 2>"$t/err"
ok $? '... from which the run goes on'
./yolo-train -q -c test/small.cfg -O threads=1 -o "$t/hup" "$t/train.shard" >"$t/log" 2>"$t/err" &
pid=$!
while ! grep -q '^3	' "$t/log" 2>/dev/null && kill -0 $pid 2>/dev/null; do sleep .02; done
kill -HUP $pid; wait $pid
[ $? = 129 ] && [ -e "$t/hup/last.safetensors" ]; ok $? 'SIGHUP: a checkpoint, and status 129'
echo "1..$n"
