#!/bin/sh
# Recipes as a user runs them: when a run ends, what is its best, accumulation, skipped steps.
. test/runs.sh
shard=$t/train.shard
small_set; ok $? 'a small set, drawn and packed'

# ---- patience: with nothing learned, the first validation stays the best
still="-O lr=0 -O bn_momentum=0 -O patience=3 -v $t/val.shard"
for g in 1 2; do
	train $still -g $g -o "$t/still$g" "$shard"
	[ $? = 0 ] && has 'AP no better for 3 validations'
	ok $? "patience=3 ends the run and says so (-g $g)"
	[ "$(steps "$t/still$g/val.tsv")" = '5 10 14 19 ' ]; ok $? '... after four epochs'
	[ "$(meta "$t/still$g/last.safetensors" best_step)" = 5 ]; ok $? '... the first is the best'
done
train $still -O steps=12 -o "$t/cut" "$shard"; train -R -O steps=60 -o "$t/cut"
equal "$t/still1/last.safetensors" "$t/cut/last.safetensors" &&
    [ "$(steps "$t/cut/val.tsv")" = '5 10 14 19 ' ]
ok $? 'interrupted and resumed it ends at the same step'
train -R -o "$t/still1"; [ $? = 0 ] && has 'nothing left'; ok $? '-R finds nothing left to do'
train -R -O patience=0 -O steps=21 -o "$t/still1"
[ "$(steps "$t/still1/log.tsv" | wc -w)" = 21 ]; ok $? '... but goes on without patience'
train -O patience=2 -O steps=1 -o "$t/x" "$shard"; has 'no effect without -v: -O patience'
ok $? 'patience without -v is named'

# ---- best by a chosen figure
for m in F1:17 AP50:4; do
	by=${m%:*}
	train -O best=$by -O steps=40 -v "$t/val.shard" -o "$t/by$by" "$shard"
	want=$(awk -F '\t' -v c=${m#*:} '!/^#/ && (NR == 2 || $c > b) { b = $c; s = $1 }
	    END { print s, b }' "$t/by$by/val.tsv")
	last=$t/by$by/last.safetensors
	got="$(meta "$last" best_step) $(meta "$last" best)"
	[ "${want% *}" = "${got% *}" ] && awk "BEGIN { d = ${want#* } - ${got#* }
	    exit !(d < 1e-8 && d > -1e-8) }"
	ok $? "best=$by: step and figure $want (kept: $got)"
done

# ---- accumulation
train -b 4 -O nominal=16 -O steps=6 -o "$t/nominal" "$shard"
cfg=$t/sub8.cfg
sed 's/^subdivisions=.*/subdivisions=8/' test/small.cfg >"$cfg"
train -b 16 -O steps=6 -o "$t/sub8" "$shard"
cfg=test/small.cfg
equal "$t/nominal/last.safetensors" "$t/sub8/last.safetensors"
ok $? '-b 4 -O nominal=16 is batch 16 in 4 times as many parts'
[ "$(sed -n 2p "$t/nominal/log.tsv" | cut -f 3)" = 16 ]
ok $? '... and the log counts 16 pictures a step'

# ---- a setting and the cfg's key are one: smoothing, focal loss, class weights
same_as() {	# same_as LOSS KEY SETTING
	sed "/^\\[yolo\\]/a $2" test/small.cfg >"$t/key.cfg"
	cfg=$t/key.cfg
	rm -rf "$t/key" "$t/set1" "$t/none"
	train -L $1 -O steps=3 -o "$t/key" "$shard"
	cfg=test/small.cfg
	train -L $1 -O steps=3 -O "$3" -o "$t/set1" "$shard"
	train -L $1 -O steps=3 -o "$t/none" "$shard"
	! equal "$t/none/last.safetensors" "$t/set1/last.safetensors" &&
	    equal "$t/key/last.safetensors" "$t/set1/last.safetensors"
	ok $? "$1: $2 in the cfg is -O $3, and does something"
}
for l in ciou ultralytics-archive darknet-iou; do
	same_as $l label_smooth_eps=.2 label_smooth=.2
	same_as $l focal_loss=1 focal=2
	same_as $l counters_per_class=40,10,5,2 class_counts=40,10,5,2
done

# ---- steps that are not finite
huge='-O clip=0 -O nan_stop=3 -O steps=30'
train -O lr=1e30 -O warmup=0 $huge -o "$t/nan" "$shard"
[ $? = 1 ] && has '3 steps in a row were not finite'
ok $? 'nan_stop=3 ends a run that is not finite'
[ "$(grep -c 'the update is skipped' "$t/err")" = 3 ] && has 'skipped, 3 so far'
ok $? '... three were skipped, and counted'
has 'its pictures: .*images/.*and [0-9]* more'; ok $? '... their pictures named'
has 'has the weights of step 1;'; ok $? '... what can be saved is, and said'
train -R -O steps=4 -o "$t/nan"; has 'resuming .* at step 4'; ok $? '... and loads'
train -O lr=1e38 -O warmup=0 $huge -O save=1 -o "$t/inf" "$shard"
[ $? = 1 ] && has 'the weights are not finite' && [ ! -e "$t/inf/last.safetensors" ]
ok $? 'weights that are not finite are not saved'
train -O lr=1e30 -O warmup=8 $huge -O save=1 -g 2 -o "$t/nan2" "$shard"
[ $? = 1 ] && has 'not finite'; ok $? 'two ranks end together'
echo "1..$n"
