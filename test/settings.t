#!/bin/sh
# Settings of yolo-train: none is passed over in silence, none means nonsense; and what -R takes.
. test/runs.sh
shard=$t/train.shard
small_set; ok $? 'a small set, drawn and packed'
refused() {	# refused STATUS PATTERN OPTION...: and nothing is trained
	status=$1 pattern=$2; shift 2
	rm -rf "$t/x"
	train -O steps=1 "$@" -o "$t/x" "$shard"
	[ $? = "$status" ] && has "$pattern" && [ ! -e "$t/x/log.tsv" ]
	ok $? "$*: refused"
}
without() {	# without PATTERN OPTION...: trained, and said to have no effect
	pattern=$1; shift
	rm -rf "$t/x"
	train -O steps=1 "$@" -o "$t/x" "$shard" && has "no effect $pattern"
	ok $? "$*: $pattern"
}

# ---- what a value must be
for v in '' 2 x 1: :2 2:1 0.5:1.5:2 nan:1 -1:1; do
	refused 1 'want 0, 1 or two sides' -O "multiscale=$v"
done
for v in '' , 0.5, ,0.5 0.5,,0.7 1.5 nan .1,.2,.3,.4,.5,.6,.7,.8,.9; do
	refused 1 'want up to 8 shares' -O policy=steps -O "drops=$v"
done
for v in '' 1,2,3 1,2,3,4,5 1,2,,4 1,2,3,4.5 1,2,3,-4 1,2,3,inf; do
	refused 1 'want none, auto or 4 whole' -O "class_counts=$v"
done
for v in lr= lr=nan lr=inf lr=-1 lr=1e999 lr=0x lr=1,5 ema=1.1 warmup=1e10 warmup=.5 \
    cutoff=4294967296 'best=AP|AP50' 'accumulate=global|mean' policy= freeze=-1 steps=0 save=1.5 \
    threads=99999999999999999999 threads=; do
	refused 2 "-O ${v%%|*}.*: want" -O "$v"
done
refused 1 'beta1 .* below 1' -O rule=adam -O momentum=1
refused 1 'beta2 .* below 1' -O rule=adamw -O beta2=1
refused 1 'want at most 2147483647' -e 1e9
sed '/^\[yolo\]/a random=1e-30' test/small.cfg >"$t/random.cfg"
cfg=$t/random.cfg; refused 1 'random.cfg:[0-9]*: random=.*want 0, 1 or a factor up to 16'
cfg=test/small.cfg
printf 'lr=0.01\n\0ema=0\n' >"$t/zero.cfg"
refused 2 'zero bytes' -O "@$t/zero.cfg"

# ---- what has no effect
cfg=test/small.cfg
without 'with -L ciou and -A mosaic: -O hue resize' -O hue=.2 -O resize=bilinear
without 'with -L ciou and -A none: -O flip scale' -A none -O flip=.5 -O scale=.1 -O resize=bilinear
without 'with -L darknet and -A darknet: -O anchor_t box_gain mosaic' -L darknet -O anchor_t=3 \
    -O box_gain=2 -O mosaic=.5
without 'with rule sgd: -O beta2' -O beta2=.9
without 'with Adam: -O nesterov' -O rule=adam -O nesterov=0
without 'with this policy and warm-up: -O lr_final' -O policy=constant -O lr_final=.1
without 'without ema: -O ema_tau' -O ema=0 -O ema_tau=10
without 'without -v: -O best rect' -O best=F1 -O rect=1
without 'without -w: -O cutoff' -O cutoff=4
without 'without -p bf16: -O emulate' -O emulate=1
train -O steps=1 -O @cfg/recipe-modern.cfg -o "$t/modern" "$shard" && ! has 'no effect'
ok $? 'a recipe file that says what happens anyway: not a word'

# ---- how long a run is: a part of a picture is rounded, and the run ends where its batches end
for e in .01 .216 .2163 .43 .433 .4325 .4432 .5 1.3 1.0811 1.08109; do
	rm -rf "$t/x"
	train -e $e -o "$t/x" "$shard"; status=$?
	want=$(awk "BEGIN { n = int(37 * $e + .5); n = n < 1 ? 1 : n; print n, int((n + 7) / 8) }")
	got=$(awk 'END { print $3, $1 }' "$t/x/log.tsv")
	[ $status = 0 ] && [ "$got" = "$want" ]; ok $? "-e $e: pictures, steps: $got"
done

# ---- what -R takes
train -O steps=4 -O save=2 -O ema=.9 -b 8 -o "$t/run" "$shard"; ok $? 'a run'
again() {	# again STATUS PATTERN OPTION...
	status=$1 pattern=$2; shift 2
	./yolo-train -q -R -O threads=1 -o "$t/run" "$@" >"$t/out" 2>"$t/err"
	[ $? = "$status" ] && has "$pattern"; ok $? "-R $*: $pattern"
}
again 1 'lr=0.5: the run was started without it' -O lr=0.5
again 1 'mosaic=.1: the run was started without it' -O mosaic=.1
again 1 'ema=.8: the run was started with ema=.9' -O ema=.8
again 1 '-p fp32: the run was started without it' -p fp32
again 0 'nothing left' -O ema=0.90 -O syncbn=0 -O threads=1 -O save=3
again 0 'nothing left' -O steps=2
head -n 1 "$t/run/run.cfg" | grep -q '^# as run by yolo-train -L ciou -b 8 -O ema=.9$'
ok $? 'run.cfg says what it does not show'
again 0 'nothing left' -c "$t/run/run.cfg"
again 0 'nothing left' -c test/small.cfg
again 0 'run was of 60 steps and is now of 10: the learning rate' -e 2 -O steps=5
again 0 'step 5' -O steps=6
! has 'run was of'; ok $? '... said once'
again 0 '2 ranks, the run had 1: each normalises' -O steps=7 -g 2 -d cpu
again 0 '1 rank, the run had 2' -O steps=8 -d cpu
train -e 1 -o "$t/cut" "$shard"
./yolo-train -q -R -o "$t/cut" -e 2 >"$t/out" 2>"$t/err"
has 'its last batch was cut, and 3 pictures'; ok $? 'an end that is moved: what was cut is said'

# ---- best weights are there, whatever ended the run
train -O steps=3 -o "$t/short" "$shard" && [ -s "$t/short/best.weights" ]
ok $? 'no validation: the last weights are the best, also before an epoch is over'
./yolo-train -c test/small.cfg -O threads=1 -d cpu -O steps=3 -v "$t/val.shard" -o "$t/early" \
    "$shard" >"$t/out" 2>"$t/err"
has 'done: .*/last.safetensors' && ! has 'best.weights'
ok $? 'no validation yet: the last line names weights that are there'
mkdir "$t/blank"
cp "$t/valset/images/"*.jpg "$t/blank" 2>/dev/null || cp "$t/valset/images/"* "$t/blank"
./yolo-prep -q -n "$t/set/names" -o "$t/blank.shard" "$t/blank" 2>"$t/err"
./yolo-train -q -c test/small.cfg -O threads=1 -d cpu -e 1 -v "$t/blank.shard" -o "$t/none" \
    "$shard" >"$t/out" 2>"$t/err"
[ $? = 1 ] && has "no box to validate with" && [ ! -e "$t/none/best.weights" ]
ok $? 'a validation that can define no figure fails before the first step'

# ---- a launcher's ranks share the processors of the host, unless it has bound them
for r in 0 1; do
	RANK=$r WORLD_SIZE=2 TORCHELASTIC_RUN_ID=$$ ./yolo-train -q -d cpu -c test/small.cfg \
	    -O steps=2 -o "$t/joined" "$shard" >"$t/out$r" 2>"$t/err$r" &
done
wait
./yolo-train -q -d cpu -c test/small.cfg -O steps=1 -o "$t/alone" "$shard" >"$t/out" 2>"$t/err"
want=$(meta "$t/alone/last.safetensors" threads)		# as many as it may use
[ "$OMP_NUM_THREADS" ] || [ "$(nproc)" -lt "$(nproc --all)" ] ||
    want=$((want / 2 > 0 ? want / 2 : 1))
[ "$(meta "$t/joined/last.safetensors" threads)" = "$want" ] &&
    [ "$(meta "$t/joined/last.safetensors" ranks)" = 2 ]
ok $? "two ranks of a launcher: $want compute thread(s) each"

# ---- a checkpoint that loads
odd=$(printf '%s/w\351.weights' "$t")
cp "$t/short/best.weights" "$odd"
train -w "$odd" -O steps=2 -o "$t/odd" "$shard" && ./yolo-train -q -R -O steps=3 -O threads=1 \
    -o "$t/odd" >"$t/out" 2>"$t/err" && [ "$(steps "$t/odd/log.tsv")" = '1 2 3 ' ]
ok $? 'a name that is not UTF-8: the run goes on'
cp "$odd" "$t/a
b"
detect() {
	./yolo-detect -q -O threads=1 -d cpu -t .01 -c "$t/short/run.cfg" -w "$1" "$t/val.shard"
}
detect "$t/short/best.weights" >"$t/a" 2>"$t/err"
cat "$t/short/best.weights" | detect /dev/stdin >"$t/b" 2>"$t/err"
[ -s "$t/a" ] && same "$t/a" "$t/b"; ok $? 'yolo-detect takes weights from a pipe'
detect - <"$t/short/best.weights" >"$t/b" 2>"$t/err"
same "$t/a" "$t/b"; ok $? '... and from standard input'
cat "$t/short/last.safetensors" | detect /dev/stdin >"$t/b" 2>"$t/err"
[ $? = 1 ] && has 'from a plain file only'; ok $? '... but no safetensors, and says so'
mkfifo "$t/pipe"
refused 1 'want a plain file' -w "$t/pipe"
refused 2 'one line is wanted' -w "$t/a
b"
perl -e 'local $/; open F, "<:raw", shift; $_ = <F>; my $n = unpack "Q<", $_;
    my $h = substr $_, 8, $n; my $d = substr $_, 8 + $n; my ($head, $data, $at) = ("", "", 0);
    my ($meta) = $h =~ /("__metadata__":\{.*?\}),/;
    my $type = q("dtype":"F32","shape":);
    while ($h =~ /"(layer[^"]*)":\{$type(\[[^]]*\]),"data_offsets":\[(\d+),(\d+)\]/g) {
	my $l = $4 - $3;
	$head .= sprintf ",\"%s\":{$type%s,\"data_offsets\":[%d,%d]}", $1, $2, $at, $at + $l;
	$data .= substr $d, $3, $l; $at += $l }
    $h = "{$meta$head}"; $h .= " " while length($h) % 8;
    open O, ">:raw", shift; print O pack("Q<", length $h), $h, $data' \
    "$t/short/last.safetensors" "$t/bare" && mv "$t/bare" "$t/short/last.safetensors"
./yolo-train -q -R -O steps=5 -O threads=1 -o "$t/short" >"$t/out" 2>"$t/err"
[ $? = 1 ] && has 'momentum and averages'; ok $? 'a checkpoint without momentum is not gone on with'
echo "1..$n"
