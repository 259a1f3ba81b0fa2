#!/bin/sh
# Ranks that a launcher told different things: the one that differs is named, and in what; all end
# before the first step.  What differs without a difference to the numbers is no difference.
. test/runs.sh
small_set; ok $? 'a small set, drawn and packed'
id=0
launch() {	# launch RANKS ODD-RANK ITS-OPTIONS: statuses in $status, words in $t/err
	id=$((id + 1)) ranks=$1 status= r=0
	rm -rf "$t/run" "$t"/err[0-9] "$t"/rc[0-9]
	while [ $r -lt "$ranks" ]; do
		more=; [ $r = "$2" ] && more=$3
		(export RANK=$r WORLD_SIZE=$ranks TORCHELASTIC_RUN_ID=told$$-$id
		timeout 60 ./yolo-train -q -d cpu -c $cfg -O threads=1 -O steps=2 -o "$t/run" \
		    $more "$t/train.shard" >"$t/out$r" 2>"$t/err$r"
		echo $? >"$t/rc$r") &
		r=$((r + 1))
	done
	wait
	status=$(cat "$t"/rc[0-9] | tr '\n' ' ')
	cat "$t"/err[0-9] >"$t/err"
}
differs() {	# differs PATTERN OPTIONS: of rank 1
	launch 2 1 "$2"
	[ "$status" = '1 1 ' ] && has "rank 1 was told something else than rank 0: $1" &&
	    [ ! -e "$t/run/log.tsv" ] && [ "$(grep -c 'was told' "$t/err")" = 1 ]
	ok $? "$2: $1"
}
differs 'batch 4, not 8' '-b 4'
differs 'seed 5, not 0' '-S 5'
differs 'loss darknet, not ciou' '-L darknet'
differs 'augmentation none, not mosaic' '-A none'
differs 'learning rate 0.03, not .*-O lr 0.03, not unset' '-O lr=0.03'
differs 'side 128x128, not 96x96' '-s 128'
differs 'length .* steps, .* pictures, not ' '-e 3'
differs 'validation [0-9a-f]*, not none' "-v $t/val.shard"
differs '-O steps 3, not 2' '-O steps=3'
differs '-O save 1, not 0' '-O save=1'
sed 's/^activation=leaky/activation=mish/' $cfg >"$t/mish.cfg"
differs 'cfg ' "-c $t/mish.cfg"
train -O steps=1 -o "$t/one" "$t/train.shard"
differs 'weights ' "-w $t/one/best.weights"
launch 3 0 '-b 4'
[ "$status" = '1 1 1 ' ] && has 'rank 0 was told something else than rank 1: batch 4, not 8'
ok $? 'of three the odd one is named, also where it is the first'
launch 3 2 '-b 4'
[ "$status" = '1 1 1 ' ] && has 'rank 2 was told something else than rank 0: batch 4, not 8'
ok $? '... and the last'
launch 2 1 '-b 8 -S 0 -L ciou -j 1 -O exact=0 -O patience=3'
[ "$status" = '0 0 ' ] && ! has 'was told'
ok $? 'the same said otherwise is the same'
echo "1..$n"
