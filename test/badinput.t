#!/bin/sh
# badinput.t -- every program with every input missing, empty, random bytes, a folder, some text,
# zeros or cut at two thirds: status 1 or 2, a line that names it, nothing else than remarks and the
# verdict, and no output.
t=$(mktemp -d) || exit 1
trap 'rm -rf "$t"' EXIT
n=0 bad=
ok() {
	n=$((n + 1))
	if [ -z "$bad" ]; then echo "ok $n - $1"; return; fi
	echo "not ok $n - $1"
	printf '%b' "$bad" | sed 's/^/# /'
}
tools/yolo-synth -q -n 6 -s 96 -S 3 -o "$t/set" &&
    ./yolo-prep -q -n "$t/set/names" -o "$t/good.shard" "$t/set/images" &&
    ./yolo-prep -q -x "$t/coco" -f coco "$t/good.shard" &&
    ./yolo-train -q -c test/small.cfg -d cpu -O threads=1 -O steps=1 -o "$t/run" "$t/good.shard" \
    >"$t/log" 2>"$t/err" || { echo "not ok 1 - a small set and run"; exit 1; }
detect="./yolo-detect -q -d cpu -t 0 -O max_det=5 -O threads=1"
train="./yolo-train -q -d cpu -O threads=1 -O steps=1"
$detect -w "$t/run/last.safetensors" "$t/good.shard" >"$t/good.tsv"
$detect -f coco -w "$t/run/last.safetensors" "$t/good.shard" >"$t/dets.json"
cp "$t/run/best.weights" "$t/good.weights"
cp "$t/run/last.safetensors" "$t/good.safetensors"
cp test/small.cfg "$t/good.cfg"
cp "$t/set/images/000000.jpg" "$t/good.jpg"
cp "$t/set/names" "$t/good.names"
cp "$t/coco/instances.json" "$t/good.json"
./yolo-prep -q -x "$t/voc" -f voc "$t/good.shard"
cp "$t/voc/Annotations/000000.xml" "$t/good.xml"
ls "$t/set/images/"*.jpg >"$t/good.txt"
printf 'train: %s\nnames: [a, b, c, d]\n' "$t/good.txt" >"$t/good.yaml"
printf 'classes=4\ntrain=%s\n' "$t/good.txt" >"$t/good.data"

try() {		# try COMMAND...: refused, $it named, no output
	rm -rf "$t/out"
	timeout 60 "$@" >"$t/log" 2>"$t/err"
	status=$?
	why=
	[ $status = 1 ] || [ $status = 2 ] || why=" status $status"
	left=$(find "$t/out" -type f 2>/dev/null | grep -v 'train.shard$\|val.shard$' | tr '\n' ' ')
	[ -z "$left" ] || why="$why left $left"
	grep -q "$(basename "$it")" "$t/err" || why="$why not named"
	[ "$(grep -vc "$remarks" "$t/err")" -le 1 ] || why="$why more than a line"
	[ -z "$why" ] || bad="$bad$(echo "$*" | sed "s|$t/||g"):$why\\n"
}
remarks=': not used\|note: \|: resuming'
remarks=$remarks'\|nothing written$\|nothing to pack$\|pictures of the truth cannot be used$'
spoil() {	# spoil KIND FILE: $it
	it=$t/$1-$2
	rm -rf "$it"
	case $1 in
	empty) : >"$it";;
	random) head -c 3000 "$t/good.jpg" | tail -c 2500 | tr '\0-\377' '\1-\377\0' >"$it";;
	folder) mkdir "$it";;
	text) echo 'hello, I am not what you want' >"$it";;
	zeros) head -c 5000 /dev/zero >"$it";;
	cut) head -c $(($(stat -c %s "$t/$2") * 2 / 3)) "$t/$2" >"$it";;
	esac
}
for kind in missing empty random folder text zeros cut; do
	bad=
	spoil $kind good.cfg
	try $train -c "$it" -o "$t/out" "$t/good.shard"
	try $detect -c "$it" -w "$t/good.weights" -o "$t/out" "$t/good.jpg"
	[ $kind = cut ] || try ./yolo-bench ops -c "$it"
	ok "$kind cfg"

	bad=
	for f in good.weights good.safetensors; do
		spoil $kind $f
		try $train -c "$t/good.cfg" -w "$it" -o "$t/out" "$t/good.shard"
		try $detect -c "$t/good.cfg" -w "$it" -o "$t/out" "$t/good.jpg"
	done
	rm -rf "$t/again"
	cp -r "$t/run" "$t/again"
	rm "$t/again/last.safetensors"
	[ $kind = missing ] || cp -r "$it" "$t/again/last.safetensors"
	it=last.safetensors
	try ./yolo-train -q -R -O steps=2 -o "$t/again"
	ok "$kind weights"

	bad=
	spoil $kind good.shard
	try $train -c "$t/good.cfg" -o "$t/out" "$it"
	try $train -c "$t/good.cfg" -o "$t/out" -v "$it" "$t/good.shard"
	try ./yolo-prep -q -o "$t/out" "$it"
	try ./yolo-prep -t "$it"
	try ./yolo-prep -C "$it"
	try ./yolo-prep -q -x "$t/out" "$it"
	try ./yolo-eval -q -o "$t/out" -t "$it" "$t/good.tsv"
	try ./yolo-bench step -q -d cpu -O n=1 -O warmup=0 -c "$t/good.cfg" "$it"
	ok "$kind shard"

	bad=
	spoil $kind good.jpg
	try $detect -w "$t/good.safetensors" -f yolo -o "$t/out" "$it"
	if [ $kind != missing ] && [ $kind != folder ]; then
		rm -rf "$t/spoilt"
		cp -r "$t/set" "$t/spoilt"
		cp "$it" "$t/spoilt/images/000001.jpg"
		it=000001.jpg
		try ./yolo-prep -q -o "$t/out" "$t/spoilt/images"
	fi
	ok "$kind picture"

	bad=
	for f in good.json good.xml good.txt good.yaml good.data; do
		spoil $kind $f
		[ $kind$f = cutgood.data ] || [ $kind$f = cutgood.txt ] ||
		    try ./yolo-prep -q -o "$t/out" "$it"
	done
	for f in good.json; do
		spoil $kind $f
		try $train -c "$t/good.cfg" -o "$t/out" "$it"
		try ./yolo-eval -q -o "$t/out" -t "$it" "$t/good.tsv"
		try $detect -f coco -O ids="$it" -w "$t/good.safetensors" -o "$t/out" "$t/good.jpg"
	done
	ok "$kind truth"

	bad=
	for f in good.tsv dets.json; do
		spoil $kind $f
		[ $kind = empty ] || [ $kind$f = cutgood.tsv ] || {
			try ./yolo-eval -q -o "$t/out" -t "$t/good.shard" "$it"
			try ./yolo-eval -q -o "$t/out" -D "$it" -t "$t/good.shard" "$t/good.tsv"
		}
	done
	ok "$kind detections"

	bad=
	spoil $kind good.names
	if [ $kind != text ] && [ $kind != cut ]; then	# these are names, if too few
		try ./yolo-prep -q -n "$it" -o "$t/out" "$t/set/images"
		try ./yolo-eval -q -n "$it" -o "$t/out" -t "$t/good.shard" "$t/good.tsv"
	fi
	try $detect -n "$it" -w "$t/good.safetensors" -o "$t/out" "$t/good.jpg"
	ok "$kind names"
done

# Labels: one line each, with file and line; the others are packed.
bad=
for l in 'x 0.5 0.5 0.1 0.1' '0 0.5 0.5 0.1' '0 nan 0.5 0.1 0.1' '9 0.5 0.5 0.1 0.1' \
    '0 0.5 0.5 -1 0.1' '0 0.5 0.5 0 0.1' '0 5 5 0.1 0.1' '-1 0.5 0.5 0.1 0.1'; do
	rm -rf "$t/spoilt" "$t/out"
	cp -r "$t/set" "$t/spoilt"
	printf '0 0.5 0.5 0.2 0.2\n%s\n' "$l" >"$t/spoilt/labels/000001.txt"
	./yolo-prep -n "$t/set/names" -o "$t/out" "$t/spoilt/images" 2>"$t/err"
	status=$?
	[ $status = 0 ] && [ "$(grep -c '000001.txt:2: ' "$t/err")" = 1 ] &&
	    grep -q '1 labels refused' "$t/err" || bad="$bad'$l': status $status\\n"
done
ok 'labels that cannot be'

# Options and keys that nobody knows.
it=nonsense
for p in ./yolo-train ./yolo-prep ./yolo-detect ./yolo-eval tools/yolo-synth './yolo-bench step'
do
	bad=
	$p --nonsense </dev/null >"$t/log" 2>"$t/err"
	[ $? = 2 ] && grep -q 'nonsense\|invalid option' "$t/err" && [ ! -s "$t/log" ] ||
	    bad="--nonsense\\n"
	case $p in *synth) ;; *)
		$p -O nonsense=1 </dev/null >"$t/log" 2>"$t/err"
		[ $? = 2 ] && [ "$(grep -c nonsense "$t/err")" = 1 ] && [ ! -s "$t/log" ] ||
		    bad="$bad-O nonsense=1\\n";;
	esac
	ok "$p: unknown options and settings are usage errors"
done
bad=
sed 's/^filters=8/filter=8/' test/small.cfg >"$t/key.cfg"
it=key.cfg
try $train -c "$t/key.cfg" -o "$t/out" "$t/good.shard"
grep -q "key.cfg:[0-9]*: unknown key 'filter'.*filters" "$t/err" || bad="$bad no line, no advice\\n"
ok 'an unknown key of a cfg'
echo "1..$n"
