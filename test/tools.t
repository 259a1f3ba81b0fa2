#!/bin/sh
# The scripts in tools/, and what "make install" puts down: run from any folder; what is not theirs
# stays.
. test/tap.sh
here=$PWD

mkdir "$t/mine"
echo work >"$t/mine/thesis"
(cd "$t" && "$here/tools/demo" mine) >"$t/out" 2>&1
[ $? = 1 ] && grep -q '^demo: .*name another folder' "$t/out" && [ -s "$t/mine/thesis" ]
ok $? "demo: a folder that holds something else stays"
mkdir "$t/mine/run"
echo log >"$t/mine/train.log"
echo work >"$t/mine/run/thesis"
(cd "$t" && "$here/tools/demo" mine) >"$t/out" 2>&1
[ $? = 1 ] && grep -q 'name another folder' "$t/out" && [ -s "$t/mine/run/thesis" ]
ok $? "demo: a run of another's stays"
(cd "$t" && "$here/tools/demo" -h) >"$t/out" 2>&1
[ $? = 2 ] && grep -q '^usage: tools/demo' "$t/out"; ok $? "demo: usage"
for s in losses plot 'cfg-table -h'; do
	(cd "$t" && eval "\"$here/tools/\"$s") >"$t/out" 2>&1
	[ $? = 2 ] && grep -q '^usage: tools/' "$t/out"; ok $? "$s: usage"
done
(cd "$t" && "$here/tools/cfg-table" cfg/demo.cfg) >"$t/out" 2>&1
grep -q '^cfg/demo.cfg	160x160	22	202362	809468	' "$t/out"
ok $? "cfg-table from another folder"

# "make install" of this tree as it is: nothing is built, and what was built stays good.
p=$t/image/opt/y
put() { make -s -o programs -o config.mk "$1" DESTDIR="$t/image" PREFIX=/opt/y >"$t/out" 2>&1; }
cp -p .kind "$t/kind"
put install; ok $? "make install DESTDIR PREFIX"
cp -p "$t/kind" .kind
(cd "$t" && "$p/bin/yolo-bench" ops -c cfg/nuclei.cfg) | grep -q '^total	nuclei.cfg'
ok $? "a stock cfg is found by its name"
tools/yolo-synth -q -n 12 -s 64 -o "$t/set" &&
	./yolo-prep -q -n "$t/set/names" -o "$t/set.shard" "$t/set/images" &&
	(cd "$t" && "$p/bin/yolo-train" -q -c cfg/demo.cfg -O @cfg/recipe-modern.cfg -b 4 -s 64 \
	    -O threads=1 -O steps=1 -o run set.shard >log 2>err && [ -s run/last.safetensors ])
ok $? "a recipe is found too"
(cd "$t" && "$p/bin/yolo-anchors" -c cfg/demo.cfg set.shard) | grep -q '^anchors='
ok $? "and by yolo-anchors"
(cd "$t" && "$p/bin/yolo-train" -o none) >"$t/out" 2>&1
[ $? = 1 ] && grep -q 'nothing to train on.*make' "$t/out" && [ ! -e "$t/none" ]
ok $? "no operand, no drawn set: says what to do"
put uninstall
cp -p "$t/kind" .kind
[ -z "$(find "$t/image" -type f)" ]; ok $? "make uninstall takes all of it away"
plan
