#!/bin/sh
# A new run begins with weights of another number of classes: heads anew, all else loaded.
. test/runs.sh
shard=$t/train.shard
small_set; ok $? 'a small set, drawn and packed'
still='-O lr=0 -O bn_momentum=0 -O ema=0 -O steps=1'	# a step that changes nothing
seven=$t/seven.cfg
sed 's/^classes=4/classes=7/; s/^filters=27/filters=36/' test/small.cfg >"$seven"

cfg=$seven; train -O ema=0 -O steps=5 -S 7 -o "$t/seven" "$shard"; ok $? 'a run of 7 classes'
cfg=test/small.cfg
train $still -o "$t/fresh" "$shard"
for from in best.weights best.safetensors; do
	train $still -w "$t/seven/$from" -o "$t/to-$from" "$shard"
	[ $? = 0 ] && has "$from: 7 classes, the cfg has 4: its heads (layers .*) start anew"
	ok $? "$from: that its heads start anew is said, in one line"
	[ "$(grep -c 'start anew' "$t/err")" = 1 ]
	ok $? "... once"
	heads=$(sed -n 's/.*heads (layers \([0-9]*\), \([0-9]*\)).*/\1 \2/p' "$t/err")
	bad= seen=0
	for i in $(seq 0 30); do
		tensors "$t/to-$from/last.safetensors" "layer.$i." >"$t/x"
		[ -s "$t/x" ] || continue
		seen=$((seen + 1))
		case " $heads " in *" $i "*) other=$t/fresh;; *) other=$t/seven;; esac
		equal "$t/to-$from/last.safetensors" "$other/last.safetensors" "layer.$i." ||
		    bad="$bad $i"
	done
	[ -z "$bad" ] && [ $seen -gt 5 ]
	ok $? "... heads are as initialised, the other $seen layers but 2 as in the file$bad"
done
sed 's/^mask=3,4,5/mask=4/; s/^mask=0,1,2/mask=1/; s/^filters=27/filters=9/' test/small.cfg \
    >"$t/one.cfg"
cfg=$t/one.cfg; train -O steps=2 -o "$t/one" "$shard"; ok $? 'a run of one anchor a head'
cfg=test/small.cfg
train $still -w "$t/one/last.safetensors" -o "$t/to-three" "$shard"
[ $? = 0 ] && has 'other anchors than the cfg.s: its heads (layers [0-9]*, [0-9]*) start anew'
ok $? 'another number of anchors in two heads: both start anew'
train $still -w "$t/fresh/last.safetensors" -o "$t/again" "$shard"
! has 'start anew' && equal "$t/again/last.safetensors" "$t/fresh/last.safetensors"
ok $? 'the same number of classes: everything is loaded'
sed 's/^filters=16/filters=12/' test/small.cfg >"$t/other.cfg"
cfg=$t/other.cfg; train $still -w "$t/seven/best.weights" -o "$t/bad" "$shard"
[ $? = 1 ]; ok $? 'weights of another net are refused'
cfg=test/small.cfg

# An average is what was validated: it is what a new run begins with, from either file.
train -O steps=5 -o "$t/avg" "$shard"
train -O steps=3 -w "$t/avg/best.weights" -o "$t/w1" "$shard"
train -O steps=3 -w "$t/avg/best.safetensors" -o "$t/w2" "$shard"
equal "$t/w1/last.safetensors" "$t/w2/last.safetensors"
ok $? 'best.weights and best.safetensors begin the same run'

# ---- frozen layers and recipes, as a user gives them
train -O freeze=4 -O steps=6 -w "$t/avg/best.weights" -o "$t/frozen" "$shard"
train -O freeze=4 -O steps=1 -O lr=0 -w "$t/avg/best.weights" -o "$t/ice" "$shard"
bad=
for i in 0 1 2 3; do
	for p in layer ema.layer momentum.layer; do
		tensors "$t/ice/last.safetensors" "$p.$i." >"$t/x"
		[ ! -s "$t/x" ] || equal "$t/ice/last.safetensors" "$t/frozen/last.safetensors" \
		    "$p.$i." || bad="$bad $p.$i"
	done
done
[ -z "$bad" ]; ok $? "freeze=4: four layers keep every bit$bad"
! equal "$t/ice/last.safetensors" "$t/frozen/last.safetensors"; ok $? '... the others learn'
train -O freeze=99 -o "$t/bad" "$shard"; [ $? = 1 ] && has 'nothing is left to train'
ok $? 'freeze=99 is refused'
train -O steps=6 -o "$t/plain" "$shard"
train -O @cfg/recipe-modern.cfg -O steps=6 -o "$t/modern" "$shard"
equal "$t/plain/last.safetensors" "$t/modern/last.safetensors"
ok $? '-O @cfg/recipe-modern.cfg gives the checkpoint of no option'
for r in darknet ultralytics-2019; do
	train -O @cfg/recipe-$r.cfg -O steps=4 -v "$t/val.shard" -o "$t/$r" "$shard"
	ok $? "-O @cfg/recipe-$r.cfg trains"
	[ "$(meta "$t/$r/last.safetensors" loss)" = $r ]; ok $? "... with its loss"
done
train -O class_counts=auto -O label_smooth=.1 -O focal=1.5 -O steps=4 -o "$t/more" "$shard"
[ $? = 0 ] && ! equal "$t/more/last.safetensors" "$t/plain/last.safetensors"
ok $? 'class weights, smoothing and focal loss with ciou'
train -L ultralytics-2019 -O focal=2 -o "$t/bad" "$shard"
[ $? = 1 ] && has 'has no such thing'; ok $? '... are refused where the loss has none'
train -O class_counts=1,2 -o "$t/bad" "$shard"; [ $? = 1 ] && has '4 whole numbers'
ok $? '... and so are counts for other classes'
echo "1..$n"
