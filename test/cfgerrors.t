#!/bin/sh
# Mistakes in a cfg, as the programs tell them: the file, the line, the value that would be right.
. test/tap.sh
cat >"$t/a.cfg" <<!
[net]
width=64
height=64
channels=3
batch=2
max_batches=4
policy=steps
steps=2,3
scales=.1,.1

[convolutional]
filters=8
stride=8
size=8
activation=leaky

[convolutional]
filters=14
activation=linear

[yolo]
mask=0,1
anchors=8,8, 20,20
classes=2
num=2
!
ops() {		# ops SED-SCRIPT WANT: the changed cfg is refused with one line that holds this
	sed "$1" "$t/a.cfg" >"$t/b.cfg"
	./yolo-bench ops -c "$t/b.cfg" >"$t/out" 2>"$t/err"
	[ $? = 1 ] && [ ! -s "$t/out" ] && [ "$(wc -l <"$t/err")" = 1 ] &&
		grep -qF "yolo-bench: $t/b.cfg:$2" "$t/err"
	ok $? "$2"
}
./yolo-bench ops -c "$t/a.cfg" >"$t/out" 2>"$t/err"; ok $? "the cfg without a mistake"
ops '12s/filters/filter/' "12: unknown key 'filter' in [convolutional]; do you mean filters?"
ops '5s/batch/Batch/' "5: unknown key 'Batch' in [net]; do you mean batch?"
ops '15s/$/\nclasses=2/' "16: unknown key 'classes' in [convolutional]; it belongs in [yolo]"
ops '18s/14/21/' '18: filters=21 before [yolo]: want filters=14, 2 anchors x (2 classes + 5)'
ops '24s/2/3/' '18: filters=14 before [yolo]: want filters=16, 2 anchors x (3 classes + 5)'
ops '22s/0,1/0,1,2/' '22: mask 2: num=2, so there are anchors 0 to 1'
ops '16s/$/[route]\nlayers=5\n/' '17: layers: 5 is layer 5, and this is layer 1: want one before it'
ops '16s/$/[shortcut]\nfrom=-2\n/' '17: from: -2 is layer -1, and this is layer 1'
ops '2s/64/60/' "2: width=60 is not a multiple of 8, the net's stride; 56 or 64 would be"
ops '3s/64/100/' "3: height=100 is not a multiple of 8, the net's stride; 96 or 104 would be"
ops '8s/,3//' '9: 1 steps but 2 scales: want one scale for each step'
ops '9d' '8: 2 steps but 0 scales: want one scale for each step'
ops '17s/convolutional/convolution/' \
    '17: unknown section [convolution]; do you mean [convolutional]?'
ops '12s/8/eight/' '12: filters=eight: want a whole number from 1 to 1048576'
ops '15s/leaky/leeky/' '15: activation=leeky: want linear, leaky, logistic, relu, mish or swish'
ops '5s/$/\nsubdivisions=4/' '6: subdivisions=4 does not divide batch=2'

# A key given twice is darknet's habit, not an error: the first counts, and it is said.
sed '5s/$/\nbatch=6/' "$t/a.cfg" >"$t/b.cfg"
./yolo-bench ops -c "$t/b.cfg" >"$t/out" 2>"$t/err"
[ "$(cat "$t/err")" = "yolo-bench: $t/b.cfg:6: given twice, the first counts: batch" ]
ok $? "a key given twice: which counts"

# Classes against names, and against the data.
printf 'a\nb\nc\n' >"$t/three"; printf 'a\nb\n' >"$t/two"; echo a >"$t/one"
floats=$(./yolo-bench ops -c "$t/a.cfg" | awk -F '\t' '$1 == "total" { print $7 }')
head -c $((16 + 4 * floats)) /dev/zero >"$t/a.weights"
printf 'P5 8 8 255\n%064d' 0 >"$t/1.pgm"; echo '0 .5 .5 .5 .5' >"$t/1.txt"
./yolo-detect -q -c "$t/a.cfg" -w "$t/a.weights" -n "$t/two" "$t/1.pgm" >"$t/out" 2>"$t/err"
ok $? "as many names as classes"
./yolo-detect -q -c "$t/a.cfg" -w "$t/a.weights" -n "$t/three" "$t/1.pgm" >"$t/out" 2>"$t/err"
[ $? = 1 ] && grep -qF "$t/a.cfg:21: classes=2, but $t/three has 3 names" "$t/err"
ok $? "yolo-detect: names that are too many"
train() {	# train NAMES
	rm -rf "$t/run" "$t/set"; mkdir "$t/set"; cp "$t/1.pgm" "$t/1.txt" "$t/set"
	./yolo-prep -q -n "$1" -o "$t/d.shard" "$t/set" 2>"$t/err" &&
		./yolo-train -q -c "$t/a.cfg" -o "$t/run" -O threads=1 -O steps=1 "$t/d.shard" \
			>"$t/out" 2>"$t/err"
}
train "$t/three"
[ $? = 1 ] && grep -qF "$t/a.cfg:21: classes=2, but the data has 3: set classes=3 and filters=16" \
	"$t/err"
ok $? "yolo-train: data of more classes: line, classes and filters"
train "$t/two" && [ ! -s "$t/err" ]; ok $? "yolo-train: as many"
train "$t/one"; sed -i 's/classes=2/classes=3/; s/filters=14/filters=16/' "$t/a.cfg"
./yolo-train -c "$t/a.cfg" -o "$t/run2" -O threads=1 -O steps=1 "$t/d.shard" >"$t/out" 2>"$t/err"
grep -qF "$t/a.cfg:21: classes=3, but the data has 1: the others are learned as absent" "$t/err"
ok $? "yolo-train: data of fewer classes"
plan
