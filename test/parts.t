#!/bin/sh
# Parts of a step (subdivisions), ranks and short batches: the same pictures, the same numbers.
. test/runs.sh
differ() {	# differ A B: the largest relative difference of the losses of two runs of 9 steps
	paste "$1/log.tsv" "$2/log.tsv" | awk -F '\t' '!/^#/ {
		n++; d = $6 / $19 - 1; d = d < 0 ? -d : d; m = d > m ? d : m }
		END { printf "%.2g", n == 9 && m < 9 ? m : 9 }'
}
below() { awk "BEGIN { exit !($1 < $2) }"; }
shard=$t/odd.shard
tools/yolo-synth -q -n 33 -s 96 -S 3 -o "$t/set" &&
    ./yolo-prep -q -n "$t/set/names" -o "$shard" "$t/set/images"
ok $? '33 pictures: two epochs of batches of 8 end with one of 2'

# Ranks add in another order: equal up to rounding.  The last batch has fewer pictures than parts or
# ranks.
for parts in 1 2 4 8; do
	cfg=$t/smooth$parts.cfg
	smooth $parts >"$cfg"
	train -e 2 -O syncbn=1 -o "$t/p$parts.1" "$shard"; ok $? "$parts part(s), 1 rank"
	for g in 2 3 4; do
		train -e 2 -O syncbn=1 -g $g -j 8 -o "$t/p$parts.$g" "$shard"
		d=$(differ "$t/p$parts.1" "$t/p$parts.$g")
		below "$d" 1e-6; ok $? "... $g ranks with syncbn: the same but for rounding ($d)"
	done
	train -e 2 -g 3 -o "$t/q$parts" "$shard" && [ "$(steps "$t/q$parts/log.tsv" | wc -w)" = 9 ]
	ok $? '... 3 ranks, each with statistics of its own: to the end'
done
d=$(differ "$t/p1.1" "$t/p4.1"); below 1e-3 "$d"; ok $? "parts do make a difference ($d)"

cfg=$t/smooth4.cfg
for mode in mean sum; do
	train -e 2 -O accumulate=$mode -o "$t/$mode" "$shard"
	ok $? "accumulate=$mode: a short batch too"
done
train -b 2 -g 4 -O steps=3 -O syncbn=1 -o "$t/few" "$shard"
ok $? 'more ranks than pictures, syncbn'
train -b 2 -g 4 -O steps=3 -o "$t/fewer" "$shard"; ok $? 'more ranks than pictures'

train -e 2 -g 3 -O save=1 -O steps=5 -o "$t/cut" "$shard"
train -R -O steps=9 -g 3 -o "$t/cut"
train -e 2 -g 3 -o "$t/whole" "$shard"
equal "$t/cut/last.safetensors" "$t/whole/last.safetensors"
ok $? '4 parts, 3 ranks, cut at step 5 and resumed: the same tensors'
echo "1..$n"
