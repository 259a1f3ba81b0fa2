#!/bin/sh
# Validation in the middle of a run: names that come twice, classes in another order.
. test/runs.sh
shard=$t/train.shard
small_set; ok $? 'a small set, drawn and packed'
ap() { cut -f 3-18 "$1/val.tsv"; }
./yolo-prep -q -o "$t/twice.shard" "$t/val.shard" "$t/val.shard" 2>"$t/err"
(cd "$t/valset/images" && ls "$PWD"/* "$PWD"/*3.*) >"$t/list" &&
    ./yolo-prep -q -n "$t/set/names" -o "$t/some.shard" "$t/list" 2>"$t/err"
ok $? 'the same pictures twice, and some of them twice'
train -O lr=.02 -A none -e 40 -o "$t/run" "$shard"; ok $? 'a run'
still='-O lr=0 -O bn_momentum=0 -O ema=0 -e 1'		# its weights, validated
train $still -w "$t/run/best.weights" -v "$t/val.shard" -o "$t/once" "$shard"
train $still -w "$t/run/best.weights" -v "$t/twice.shard" -o "$t/twice" "$shard"
ap "$t/once" >"$t/a"; ap "$t/twice" >"$t/b"
same "$t/a" "$t/b" && grep -q '^0\.0[1-9]' "$t/a"
ok $? "every picture twice: the figures of one ($(sed 1d "$t/a" | cut -f 1-2 | tr '\t' ' '))"
train $still -w "$t/run/best.weights" -v "$t/some.shard" -o "$t/some" "$shard"
ok $? 'some twice: the run goes to its end'
ap "$t/some" >"$t/b"; ! same "$t/a" "$t/b"; ok $? '... with figures of its own'

sed '1!G;h;$!d' "$t/set/names" >"$t/names.other"
./yolo-prep -q -n "$t/names.other" -o "$t/other.shard" "$t/valset/images"
train -O steps=1 -v "$t/other.shard" -o "$t/x" "$shard"
[ $? = 1 ] && has "its class 0 is '.*same list of names" && [ ! -e "$t/x/log.tsv" ]
ok $? 'classes in another order are refused'
{ cat "$t/set/names"; echo more; } >"$t/names.more"
./yolo-prep -q -n "$t/names.more" -o "$t/more.shard" "$t/valset/images"
train -O steps=1 -v "$t/more.shard" -o "$t/x" "$shard" && has 'never found'
ok $? 'classes that the training data lacks are told'

# Two classes of one name: numbers tell them apart, in validation as in yolo-eval.
sed '2s/.*/'"$(head -1 "$t/set/names")"'/' "$t/set/names" >"$t/names.same"
for s in set valset; do
	./yolo-prep -q -n "$t/names.same" -o "$t/$s.same" "$t/$s/images" 2>>"$t/err"
done
train $still -w "$t/run/best.weights" -v "$t/valset.same" -o "$t/same" "$t/set.same"
ap "$t/same" >"$t/b"; same "$t/a" "$t/b"; ok $? 'two classes of one name: the figures of before'
./yolo-detect -q -O eval=1 -n "$t/names.same" -c "$t/same/run.cfg" -w "$t/same/best.weights" \
    -o "$t/same.tsv" "$t/valset.same" && ./yolo-eval -q -m coco -t "$t/valset.same" \
    "$t/same.tsv" >"$t/rows" 2>"$t/err"
scored=$(sed -n 's/^coco	-	AP	//p' "$t/rows" | cut -c 1-8)
[ "$scored" = "$(sed -n 2p "$t/b" | cut -c 1-8)" ]
ok $? "and of yolo-eval, by name and number ($scored)"
echo "1..$n"
