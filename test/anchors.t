#!/bin/sh
# yolo-anchors: known answers, the letterbox, masks, what is refused.
. test/tap.sh
grey() {	# grey FILE W H: a picture
	{ printf 'P5\n%d %d\n255\n' "$2" "$3"; head -c $(($2 * $3)) /dev/zero; } >"$1"
}

# 100x100 pictures with boxes of three sizes, and one of 200x100, which a letterbox halves.
mkdir "$t/a"
for i in 1 2 3 4 5; do
	grey "$t/a/$i.pgm" 100 100
	printf '0 .5 .5 .1 .2\n0 .4 .5 .3 .3\n0 .5 .6 .6 .4\n' >"$t/a/$i.txt"
done
grey "$t/a/6.pgm" 200 100
printf '0 .5 .5 .1 .4\n0 .5 .5 .3 .6\n' >"$t/a/6.txt"
echo thing >"$t/names"
./yolo-prep -q -n "$t/names" -o "$t/a.shard" "$t/a" 2>"$t/err" || cat "$t/err"
run() { tools/yolo-anchors -q "$@" >"$t/out" 2>"$t/err"; }

run -k 3 -s 100 "$t/a.shard"; ok $? "three sizes"
grep -qx 'anchors=10,20, 30,30, 60,40' "$t/out"; ok $? "they are the anchors, by area"
grep -q '^# average IoU 1.00000 with these' "$t/out"; ok $? "average IoU 1"
grep -qx '# 17 boxes of 6 pictures in a letterbox of 100x100' "$t/out"; ok $? "all boxes count"
run -k 3 -s 200x100 "$t/a.shard"
grep -q '^anchors=10,20, ' "$t/out" && grep -q 'letterbox of 200x100' "$t/out"
ok $? "sides that differ"
run -k 3 -s 400 "$t/a.shard"
grep -qx 'anchors=40,80, 120,120, 240,160' "$t/out"; ok $? "pixels of the network's input"

# One anchor: the mean, 31.76x29.41, has 0.51720; a start at 30x30 is better, and is kept.
# 30x30 with six boxes of 10x20, six of 30x30 and five of 60x40: (6 2/9 + 6 + 5 3/8) / 17
run -k 1 -s 100 "$t/a.shard"
grep -qx 'anchors=30,30' "$t/out"; ok $? "one anchor: the best state counts"
grep -q '^# average IoU 0.54167 with these' "$t/out"; ok $? "its average IoU"

# The cfg's heads: masks by stride, the average before.
run -c cfg/yolov3-tiny.cfg -s 416 -k 3 "$t/a.shard"; ok $? "with a cfg"
coarse=$(grep -n '^\[yolo\]' cfg/yolov3-tiny.cfg | sed -n '1s/:.*//p')
fine=$(grep -n '^\[yolo\]' cfg/yolov3-tiny.cfg | sed -n '2s/:.*//p')
sed -n '/^# cfg/,/^mask/p' "$t/out" | head -n 4 >"$t/heads"
cat >"$t/want" <<!
# cfg/yolov3-tiny.cfg:$fine: [yolo], stride 16; the convolution before it: filters=170
mask=0,1
# cfg/yolov3-tiny.cfg:$coarse: [yolo], stride 32; the convolution before it: filters=85
mask=2
!
cmp -s "$t/heads" "$t/want"; ok $? "each head's line, filters and mask"
before=$(sed -n 's/# average IoU \([0-9.]*\) with the 6 anchors of.*/\1/p' "$t/out")
[ -n "$before" ] && awk -v b="$before" 'BEGIN { exit !(b > .3 && b < .99) }'
ok $? "the average IoU before ($before)"
# Put into a cfg, the lines load, and are found again as the ones before.
anchors=$(grep ^anchors "$t/out")
awk -v a="$anchors" '/^anchors/ { print a; next } /^num/ { print "num=3"; next }
	/^mask/ { print "mask=" (++m == 1 ? "2" : "0,1"); next }
	/^filters *= *255/ { print "filters=" (++f == 1 ? 85 : 170); next } { print }' \
	cfg/yolov3-tiny.cfg >"$t/new.cfg"
run -c "$t/new.cfg" "$t/a.shard"
grep -q '^# average IoU 1.00000 with the 3 anchors of' "$t/out" && grep -qx "$anchors" "$t/out"
ok $? "a cfg with these lines has them"

# Boxes of many sizes: one seed one answer, threads change nothing, more starts are never worse.
mkdir "$t/b"
awk -v d="$t/b" 'BEGIN { srand(3); for (i = 0; i < 20; i++) for (j = 0; j < 10; j++) {
	w = .02 + .5 * rand() ^ 3; h = .02 + .5 * rand() ^ 3
	printf "0 .5 .5 %.4f %.4f\n", w, h >(d "/" i ".txt") } }'
for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do grey "$t/b/$i.pgm" 64 48; done
./yolo-prep -q -n "$t/names" -o "$t/b.shard" "$t/b" 2>"$t/err" || cat "$t/err"
run -O threads=1 "$t/b.shard"; mv "$t/out" "$t/one"
run -O threads=3 "$t/b.shard"; cmp -s "$t/out" "$t/one"
ok $? "the same bytes on any number of threads"
iou() { sed -n 's/# average IoU \([0-9.]*\) with these.*/\1/p' "$1"; }
a=$(iou "$t/one")
run -O starts=1 "$t/b.shard"; b=$(iou "$t/out")
run -O starts=40 "$t/b.shard"; c=$(iou "$t/out")
awk -v a="$a" -v b="$b" -v c="$c" 'BEGIN { exit !(b <= a && a <= c && b > .5) }'
ok $? "1, 10, 40 starts: $b $a $c"
run -S 1 -O starts=1 "$t/b.shard"; ! cmp -s "$t/out" "$t/one"; ok $? "another seed"
run "$t/a.shard" "$t/b.shard" -k 9; grep -q '^# 217 boxes of 26 pictures' "$t/out"
ok $? "two shards"

# What is refused.
run -k 4 -s 100 "$t/a.shard"
[ $? = 1 ] && grep -q '4 anchors of boxes of 3 different sizes: -k 3 at most' "$t/err"
ok $? "fewer sizes than anchors"
run -k 1 -c cfg/yolov3-tiny.cfg "$t/a.shard"
[ $? = 1 ] && grep -q 'the cfg has 2 heads' "$t/err"; ok $? "fewer anchors than heads"
run -c cfg/yolov3-tiny.cfg -s 100 "$t/a.shard"
[ $? = 1 ] && grep -q 'not a multiple of 32' "$t/err"; ok $? "a side that does not fit"
run "$t/names"; [ $? = 1 ] && [ -s "$t/err" ] && [ ! -s "$t/out" ]; ok $? "not a shard"
run; [ $? = 2 ]; ok $? "no operand"
run -k 0 "$t/a.shard"; [ $? = 2 ]; ok $? "-k 0"
for k in $(tools/yolo-anchors -O help | sed 1d | cut -f 1); do
	grep -q "^\.It Cm $k\b" man/yolo-anchors.1; ok $? "setting $k is in the page"
done
plan
