#!/bin/sh
# prep.t -- yolo-prep as it is used: in, out, statuses, reports, pipes, signals.
shared=$PWD/../shared/data
[ -d "$shared" ] || { echo "1..0 # SKIP no ../shared"; exit 0; }
. test/prep.sh
data=$shared/datasets
cd "$data" || exit 1

status 0 "$prep" -O split=all -o "$t/bccd.shard" bccd
ok "VOC folder" $?
grep -q 'BloodImage_00338.xml:158: .*zero' "$t/err" &&
    grep -q 'BloodImage_00343.xml:50: .*zero' "$t/err"
ok "both boxes of no width are named, file and line" $?
[ "$(grep -c ': object' "$t/err")" = 2 ]; ok "and no other" $?
status 0 "$prep" -q -j 1 -O split=all -o "$t/again.shard" bccd &&
    cmp -s "$t/bccd.shard" "$t/again.shard"
ok "two packs with other threads are equal files" $?
status 0 "$prep" -C "$t/bccd.shard"; ok "check" $?
"$prep" -t "$t/bccd.shard" |
    awk -F '\t' 'NR > 1 { n++; b += $10 } END { exit !(n == 364 && b == 4886) }'
ok "the table has 364 records, 4886 boxes" $?
status 1 "$prep" -m 1 -O split=all -o "$t/no.shard" bccd && [ ! -e "$t/no.shard" ]
ok "-m 1 refuses two" $?
status 0 "$prep" -m 2 -O split=all -o "$t/no.shard" bccd; ok "-m 2 does not" $?
rm -f "$t/no.shard"

status 0 "$prep" -q -n nuclei/nuclei.names -o "$t/list.shard" nuclei/train.txt; ok "YOLO list" $?
sed 's|^|nuclei/|' nuclei/train.txt | "$prep" -q -o "$t/in.shard"; ok "list on stdin" $?
find nuclei/images/train -name '*.png' -print0 | sort -z | "$prep" -q -0 -o "$t/nul.shard" -
ok "names that end in NUL" $?
mkfifo "$t/fifo"
sed 's|^|nuclei/|' nuclei/train.txt >"$t/fifo" &
status 0 "$prep" -q -o "$t/fifo.shard" "$t/fifo" && cmp -s "$t/fifo.shard" "$t/in.shard"
ok "a list from a named pipe" $?
status 0 "$prep" -q -o "$t/coco.shard" nuclei/instances_train.json:nuclei/images/train; ok "COCO" $?
for s in list in nul coco; do
	"$prep" -t "$t/$s.shard" |
	    awk -F '\t' 'NR > 1 { sub(".*/", "", $3); print $3, $5, $9, $10 }' |
	    sort >"$t/$s.tab"
done
cmp -s "$t/list.tab" "$t/in.tab" && cmp -s "$t/list.tab" "$t/nul.tab" &&
    cmp -s "$t/list.tab" "$t/coco.tab"
ok "all four say the same" $?

status 0 "$prep" -q -o "$t/cc.shard" coco-cc/instances_val2017_cc.json:coco-cc/images/val2017
ok "COCO with crowds" $?
for f in coco yolo voc; do
	status 0 "$prep" -q -x "$t/$f" -f $f "$t/cc.shard"; ok "unpack as $f" $?
done
bad=0
for i in coco-cc/images/val2017/*.jpg; do
	b=${i##*/}
	cmp -s "$i" "$t/coco/images/$b" && cmp -s "$i" "$t/yolo/images/$b" &&
	    cmp -s "$i" "$t/voc/JPEGImages/$b" || bad=1
done
ok "pictures byte for byte" $bad
"$prep" -q -o "$t/back.shard" "$t/coco/instances.json"
cmp -s "$t/back.shard" "$t/cc.shard"; ok "packed again from COCO: the same file" $?
"$prep" -q -n "$t/voc/names" -o "$t/v.shard" "$t/voc" &&
    "$prep" -q -n "$t/yolo/names" -o "$t/y.shard" "$t/yolo/list.txt"
a=$("$prep" -t "$t/v.shard" | cut -f 5- | sort | cksum)
b=$("$prep" -t "$t/y.shard" | cut -f 5- | sort | cksum)
[ "$a" = "$b" ]; ok "VOC and YOLO agree" $?
status 1 "$prep" -x "$t/coco" "$t/cc.shard" && grep -q empty "$t/err"; ok "a full folder is kept" $?

status 0 "$prep" -q -O split=all -Z 2M -o "$t/set.shard" bccd &&
    [ -e "$t/set-00003-of-00004.shard" ]
ok "a set" $?
"$prep" -q -o "$t/one.shard" "$t/set-00002-of-00004.shard" && cmp -s "$t/one.shard" "$t/bccd.shard"
ok "a set packed into one file is that file" $?
"$prep" -q -O split=all -o - bccd 2>"$t/err" | "$prep" -q -o "$t/pipe.shard" - &&
    cmp -s "$t/pipe.shard" "$t/bccd.shard"
ok "through a pipe: the same file" $?
head -c 3000000 "$t/bccd.shard" >"$t/cut.shard"
status 1 "$prep" -C "$t/cut.shard" && grep -q 'cut' "$t/err"; ok "a cut shard is refused" $?
status 1 "$prep" -q -o "$t/no.shard" - <"$t/cut.shard" && [ ! -e "$t/no.shard" ]
ok "a cut pipe too" $?
status 0 "$prep" -O salvage=1 -o "$t/sal.shard" "$t/cut.shard" &&
    "$prep" -C "$t/sal.shard" >"$t/out"
ok "its whole records can be saved" $?

status 1 "$prep" -o "$t/no.shard" "$shared/images/nasty" && [ ! -e "$t/no.shard" ]
ok "a picture that cannot be decoded: no shard" $?
[ "$(grep -v note: "$t/err" | grep -c 'images/nasty/')" = 33 ]; ok "each of the 33 is named" $?
status 0 "$prep" -q -m 33 -l "$t/report.tsv" -o "$t/nasty.shard" "$shared/images/nasty"
ok "-m 33 leaves them out" $?
[ "$(grep -c '^picture' "$t/report.tsv")" = 33 ] && [ ! -s "$t/err" ]; ok "and -l has them" $?
status 1 "$prep" -q -o "$t/no.shard" "$shared/nasty-labels/coco/25-image-not-on-disk.json" &&
    grep -q 'gone.png' "$t/err"; ok "a missing picture is named" $?
status 0 "$prep" -o "$t/w.shard" "$shared/nasty-labels/coco/16-wrong-size.json" &&
    grep -q 'says\|say ' "$t/err"; ok "a wrong size is noted" $?
status 0 "$prep" -o "$t/w.shard" "$shared/nasty-labels/coco/21-bbox-corners.json" &&
    grep -q 'corners' "$t/err"; ok "corners for sizes are noted" $?
status 0 "$prep" -q -s 200 -Q 80 -o "$t/small.shard" bccd &&
    [ "$("$prep" -t "$t/small.shard" | awk -F '\t' 'NR > 1 { print $5 "x" $6 }' | sort -u)" = \
	200x150 ]
ok "-s recodes to fit" $?

mkdir "$t/twice"
cp nuclei/images/val/*.png "$t/twice"
one=$(ls "$t/twice" | head -n 1)
two=$(ls "$t/twice" | sed -n 2p)
cp "$t/twice/$one" "$t/twice/y.png"
cp "$t/twice/$two" "$t/twice/z.png"
echo '0 .5 .5 .2 .2' >"$t/twice/z.txt"
status 0 "$prep" -o "$t/twice.shard" "$t/twice" &&
    [ "$(grep -c "the same picture" "$t/err")" = 2 ] &&
    grep -q "twice/y.png: the same picture as .*/$one\$" "$t/err" &&
    grep -q "twice/z.png: the same picture as .*/$two, with other labels\$" "$t/err"
ok "a picture that is there twice is noted, and whether its labels differ" $?

status 2 "$prep" bccd; ok "no output: usage" $?
status 2 "$prep" -s 0 -o x y; ok "a bad side: usage" $?
status 0 "$prep" -h && [ -s "$t/out" ]; ok "-h" $?
status 0 "$prep" -V && [ -s "$t/out" ]; ok "-V" $?
status 1 "$prep" -o "$t/no.shard" /no/such; ok "an input that is not there" $?
status 1 "$prep" -q -o "$t/no.shard" "$t/cc.shard" "$t/bccd.shard" -n nuclei/nuclei.names
ok "classes that are not among the names" $?
if [ -e /dev/full ]; then
	"$prep" -q -o - nuclei/train.txt >/dev/full 2>"$t/err"; [ $? = 1 ]; ok "a full disk" $?
fi
"$prep" -q -j 1 -o "$t/kill.shard" bccd bccd bccd bccd bccd bccd bccd bccd 2>"$t/err" &
pid=$!
while [ -z "$(ls "$t" | grep '^kill')" ] && kill -0 $pid 2>/dev/null; do :; done
kill -TERM $pid; wait $pid
[ $? = 143 ] && [ -z "$(ls "$t" | grep '^kill')" ]; ok "SIGTERM: status 143 and no file" $?
echo "1..$n"
