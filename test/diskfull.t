#!/bin/sh
# diskfull.t -- disks that fill up at every point of what the programs write: one clear line, exit
# 1, nothing half written, an earlier checkpoint as it was.  A small tmpfs where mounting is
# allowed, else a limit on the size of a file; and /dev/full as stdout.
. test/tap.sh
trap 'umount "$t/d" 2>/dev/null; rm -rf "$t"' EXIT
mkdir "$t/d"
[ -z "$NO_TMPFS" ] && mount -t tmpfs -o size=16k none "$t/d" 2>/dev/null && tmpfs=yes
disk() {	# disk KB: an empty one of that size
	kb=$1
	umount "$t/d" 2>/dev/null
	rm -rf "$t/d"
	mkdir "$t/d"
	[ -z "$tmpfs" ] || mount -t tmpfs -o "size=${kb}k" none "$t/d"
}
on() {		# on COMMAND...: run it on the disk
	said=$(
		[ -n "$tmpfs" ] || { trap '' XFSZ; ulimit -f $((kb * 2)); }
		exec "$@" 2>&1 >/dev/null
	)
	status=$?
	echo "$said" | grep -v "$remarks" >"$t/err"
}
clean() {	# it failed as it should, and left nothing but $1 (a pattern of names)
	[ $status = 1 ] && [ "$(grep -c . "$t/err")" = 1 ] && grep -q "$full" "$t/err" &&
	    [ -z "$(find "$t/d" -type f | sed 's|.*/||' | grep -v "^\(${1:-nothing}\)\$")" ] &&
	    return 0
	{ echo "status $status, left:"; ls -lR "$t/d"; } >"$t/why"
	return 1
}
remarks=': resuming\|: not used with'
full='No space left\|File too large'
sweep() {	# sweep NAME FIRST STEP LAST COMMAND...: disks from small to large
	name=$1 kb=$2 step=$3 last=$4 failed=0 bad=
	shift 4
	while [ -z "$bad" ] && [ "$kb" -le "$last" ]; do
		disk "$kb"
		on "$@"
		[ $status = 0 ] && break
		failed=$((failed + 1))
		clean "$left" || bad=1
		kb=$((kb + step))
	done
	[ -z "$bad" ] && [ $status = 0 ] && [ $failed -ge 1 ]
	ok $? "$name: $failed disks too small, $kb KB enough"
}

tools/yolo-synth -q -n 24 -s 96 -S 3 -o "$t/set" &&
    ./yolo-prep -q -n "$t/set/names" -o "$t/set.shard" "$t/set/images" &&
    ./yolo-train -q -c test/small.cfg -d cpu -O threads=1 -O steps=4 -O save=2 -o "$t/run" \
    "$t/set.shard" >"$t/out" 2>"$t/err" &&
    ./yolo-train -q -c test/small.cfg -d cpu -O threads=1 -O steps=2 -O save=2 -o "$t/half" \
    "$t/set.shard" >"$t/out" 2>"$t/err" && ls "$t/set/images/"*.jpg >"$t/list"
ok $? 'a set and a short run'
detect="./yolo-detect -q -d cpu -O threads=1 -t 0 -w $t/run/last.safetensors"
$detect "$t/set.shard" >"$t/det.tsv" 2>"$t/err"
big=$(stat -c %s "$t/run/last.safetensors")
echo "# $([ -n "$tmpfs" ] && echo tmpfs || echo 'limit on files'), checkpoint of $big bytes"

sweep 'yolo-prep' 4 12 300 ./yolo-prep -q -j 1 -n "$t/set/names" -o "$t/d/a.shard" "$t/set/images"
sweep 'yolo-prep -Z' 4 12 400 \
    ./yolo-prep -q -j 1 -Z 64K -n "$t/set/names" -o "$t/d/a.shard" "$t/set/images"
./yolo-prep -C "$t/d/a-00000-of-"* >"$t/out" 2>"$t/err"
ok $? 'the set is whole'
sweep 'yolo-prep -x' 4 24 600 ./yolo-prep -q -x "$t/d/x" "$t/set.shard"
left='[0-9]*\.\(jpg\|txt\)' sweep 'yolo-synth' 4 24 600 \
    tools/yolo-synth -q -n 24 -s 96 -S 3 -o "$t/d/s"
cmp -s "$t/d/s/images/000023.jpg" "$t/set/images/000023.jpg"
ok $? 'the drawn set is whole'
left=
sweep 'yolo-detect -o' 4 150 2000 $detect -o "$t/d/det.tsv" "$t/set.shard"
cmp -s "$t/d/det.tsv" "$t/det.tsv"
ok $? 'its detections are whole'
sweep 'yolo-detect -f coco' 4 200 2000 $detect -f coco -o "$t/d/det.json" "$t/set.shard"
left='00.*\.txt' sweep 'yolo-detect -f yolo' 4 150 2000 \
    $detect -f yolo -o "$t/d/yolo" "$t/set.shard"
left='det.tsv\|00.*\.jpg' sweep 'yolo-detect -x' 4 40 2000 \
    $detect -O max_det=3 -x "$t/d/x" -o "$t/d/det.tsv" "$t/set.shard"
left=
for out in "-o $t/d/e" "-o $t/e -O pr=$t/d/pr" "-o $t/e -O worst=$t/d/worst"; do
	disk 4
	[ -z "$tmpfs" ] || head -c 4096 /dev/zero >"$t/d/fill"
	kb=0
	on ./yolo-eval -q $out -t "$t/set.shard" "$t/det.tsv"
	clean fill
	ok $? "yolo-eval $(echo "$out" | sed "s|$t/||g")"
done

# A new run: whatever it leaves can be read; what is there of a log is whole rows.
kb=16 failed=0 bad=
left='\(train.shard\|run.cfg\|log.tsv\|val.tsv\|best.weights\|\(last\|last-1\|best\).safetensors\)'
while [ -z "$bad" ] && [ $kb -lt 2000 ]; do
	disk $kb
	on ./yolo-train -q -c test/small.cfg -d cpu -O threads=1 -O steps=4 -O save=2 \
	    -o "$t/d/run" "$t/set.shard"
	[ $status = 0 ] && break
	failed=$((failed + 1))
	clean "$left" || bad=1
	for f in last best; do
		[ ! -e "$t/d/run/$f.safetensors" ] ||
		    $detect -w "$t/d/run/$f.safetensors" "$t/set.shard" >"$t/out" 2>"$t/why" ||
		    bad=2
	done
	for f in log val; do
		[ ! -s "$t/d/run/$f.tsv" ] || [ -z "$(tail -c 1 "$t/d/run/$f.tsv")" ] || bad=3
	done
	kb=$((kb + 60))
done
[ -z "$bad" ] && [ $status = 0 ] && [ $failed -ge 3 ]
ok $? "yolo-train: $failed disks too small, $kb KB enough $bad"
cmp -s "$t/d/run/last.safetensors" "$t/run/last.safetensors"
ok $? 'and ends with the checkpoint of a run with room'

# A run that goes on: the earlier checkpoint stays, and serves when there is room again.
room=$((big * 4 / 1024 + 200)) bad= failed=0
for more in 0 4 8 16 40 80; do
	disk $room
	cp -r "$t/half" "$t/d/run"
	free=$(df -k --output=avail "$t/d" | tail -n 1)
	[ -z "$tmpfs" ] || head -c $(((free - more) * 1024)) /dev/zero >"$t/d/fill"
	kb=$((more + 1))
	on ./yolo-train -q -R -d cpu -O steps=4 -o "$t/d/run"
	[ $status = 0 ] && break
	failed=$((failed + 1))
	clean "$left\|fill" || bad=1
	cmp -s "$t/half/last.safetensors" "$t/d/run/last.safetensors" || bad=2
	rm -f "$t/d/fill"
	kb=4000
	on ./yolo-train -q -R -d cpu -O steps=4 -o "$t/d/run"
	cmp -s "$t/run/last.safetensors" "$t/d/run/last.safetensors" || bad=3
	cut -f 1-10 "$t/run/log.tsv" >"$t/want"
	cut -f 1-10 "$t/d/run/log.tsv" | cmp -s - "$t/want" || bad=4
done
[ -z "$bad" ] && [ $failed -ge 3 ]
ok $? "yolo-train -R: $failed disks too small, the checkpoint stays, then serves $bad"

if [ -e /dev/full ]; then
	for c in "./yolo-prep -q -o - $t/set/images" "./yolo-prep -t $t/set.shard" \
	    "./yolo-prep -C $t/set.shard" "$detect $t/set.shard" "$detect -f coco $t/set.shard" \
	    "$detect -f json $t/set.shard" "./yolo-eval -q -t $t/set.shard $t/det.tsv" \
	    "./yolo-bench ops -c test/small.cfg" "./yolo-detect -O help" \
	    "./yolo-train -q -c test/small.cfg -d cpu -O plan=1 -o $t/plan $t/set.shard" \
	    "./yolo-train -q -c test/small.cfg -d cpu -O steps=2 -o $t/full $t/set.shard"
	do
		said=$($c 2>&1 >/dev/full)
		status=$?
		echo "$said" | grep -v "$remarks" >"$t/err"
		[ $status = 1 ] && [ "$(grep -c . "$t/err")" = 1 ] && grep -q "$full" "$t/err"
		ok $? "/dev/full: $(echo "$c" | sed "s|$t/||g")"
		rm -rf "$t/plan" "$t/full"
	done
fi
plan
