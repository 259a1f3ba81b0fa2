#!/bin/sh
# Multi-scale: sizes by (seed, step) alone, whatever the ranks, the threads and the interruptions.
. test/runs.sh
distinct() { sizes "$1" | sort -u | wc -l; }
distinct_in() { sizes "$1" | sed -n "$2p" | sort -u | wc -l; }
differ() {	# differ A B: the largest relative difference of the losses of two runs
	paste "$1/log.tsv" "$2/log.tsv" | awk -F '\t' '!/^#/ {
		d = $6 / $19 - 1; d = d < 0 ? -d : d; m = d > m ? d : m }
		END { printf "%.2g", m < 9 ? m : 9 }'
}
below() { awk "BEGIN { exit !($1 < $2) }"; }
shard=$t/train.shard
random=$t/random.cfg			# the same with random=1 in its heads
sed '/^\[yolo\]/a random=1' $cfg >"$random"
small_set; ok $? 'a small set, drawn and packed'

range='-O multiscale=64:160 -O save=5'
train $range -O steps=40 -j 1 -o "$t/one" "$shard"; ok $? '64:160 on one rank'
[ "$(distinct "$t/one")" = 4 ]; ok $? "four sizes: $(sizes "$t/one" | sort -u | tr '\n' ' ')"
train $range -O steps=40 -j 8 -o "$t/jobs" "$shard"
same "$t/one/last.safetensors" "$t/jobs/last.safetensors"
ok $? '8 loader threads: the same checkpoint'

train $range -O steps=17 -o "$t/cut" "$shard"
train -O steps=40 -R -j 8 -o "$t/cut"
same "$t/one/last.safetensors" "$t/cut/last.safetensors"
ok $? 'cut at step 17 and resumed: the same checkpoint'
cut -f 1-10 "$t/one/log.tsv" >"$t/a"; cut -f 1-10 "$t/cut/log.tsv" >"$t/b"
same "$t/a" "$t/b"; ok $? '... and the same log, but for its timings'

# Ranks add in another order: equal up to rounding.
cfg=$t/smooth.cfg
smooth 2 >"$cfg"
for g in 1 2 3; do
	train -O multiscale=64:160 -O syncbn=1 -O steps=12 -g $g -j 8 -o "$t/g$g" "$shard"
	ok $? "$g rank(s), syncbn"
done
for g in 2 3; do
	sizes "$t/g1" >"$t/a"; sizes "$t/g$g" >"$t/b"
	same "$t/a" "$t/b"; ok $? "$g ranks: the same sizes"
	d=$(differ "$t/g1" "$t/g$g")
	below "$d" 1e-6; ok $? "$g ranks: the same losses but for rounding ($d)"
done

cfg=$random
train -L darknet-iou -e 40 -O steps=30 -o "$t/alexey" "$shard"; ok $? 'random=1 with darknet-iou'
[ "$(sizes "$t/alexey" | head -n 10 | sort -u)" = 160x160 ]
ok $? '... ten batches of the largest size'
[ "$(distinct_in "$t/alexey" 11,20)" = 1 ] && [ "$(distinct_in "$t/alexey" 21,30)" = 1 ] &&
    [ "$(distinct "$t/alexey")" -gt 1 ]
ok $? '... then another size every ten'
train -L darknet -O steps=1 -o "$t/pjreddie" "$shard"; [ "$(sizes "$t/pjreddie")" = 608x608 ]
ok $? 'random=1 with darknet: 608 at the end of a run'
train -O steps=12 -e 5 -o "$t/v5" "$shard"; [ "$(distinct "$t/v5")" -gt 2 ]
ok $? 'random=1 with ciou: another size every batch'
train -O multiscale=0 -O steps=3 -o "$t/off" "$shard"
[ "$(sizes "$t/off" | sort -u)" = 96x96 ]; ok $? 'multiscale=0: the size of the cfg'

cfg=test/small.cfg
plan() { train "$@" -O plan=1 -o "$t/plan" "$shard"; grep -E '^(activations|loader)' "$t/out"; }
plan -O multiscale=64:160 >"$t/a"; plan -s 160 >"$t/b"
[ -s "$t/a" ] && same "$t/a" "$t/b"; ok $? 'the plan is for the largest size'
train -O multiscale=100:120 -o "$t/x" "$shard"; [ $? = 1 ] && has 'no multiple of 32'
ok $? 'a range without a size is refused'
train -O multiscale=big -o "$t/x" "$shard"; [ $? = 1 ] && has 'want 0, 1 or two sides'
ok $? 'nonsense is refused'
echo "1..$n"
