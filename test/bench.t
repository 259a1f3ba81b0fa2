#!/bin/sh
# yolo-bench: what its commands refuse and how, from anywhere; the table of a step.
. test/tap.sh
here=$PWD
says() {	# says STATUS WORDS ARG...: one line of ours with these words, and the status
	want=$1 words=$2; shift 2
	./yolo-bench "$@" >"$t/out" 2>"$t/err"; got=$?
	[ $got = "$want" ] && grep -q "^yolo-bench: .*$words" "$t/err" && [ ! -s "$t/out" ]
	ok $? "yolo-bench $*: $words"
}

says 2 'no such command' bogus
says 2 '-b abc: want a whole number' step -b abc
says 2 '-b 0: want a whole number' step --batch 0
says 2 '-j 2000: want a whole number' step -j 2000
says 2 '-s 0: want a side' step -s 0
says 2 'fp32, tf32' step -p fp8
says 2 'one shard at most' step a.shard b.shard
says 1 'No such file' step -c "$t/nosuch.cfg"
says 1 'not a history of yolo-bench' step -H cfg/demo.cfg -c cfg/demo.cfg
says 1 'not a plain file' step -H /dev/null -c cfg/demo.cfg
says 1 'No such file' step -H "$t/none/h.tsv" -c cfg/demo.cfg
says 2 'want tsv or mllog' step -f xml
sh -c 'while :; do :; done' &
spin=$!
says 75 'the machine is busy' step -B -c cfg/demo.cfg
kill $spin
says 2 '-s x: want a side' ops --side x
says 2 'takes no operand' ops cfg/demo.cfg
says 2 'want some of coco' eval -m nosuch
says 2 'want json or tsv' eval -f xml
says 2 '-j 0: want a whole number' eval -j 0
says 2 'both -t truth and dets' eval dets
says 2 'invalid option' ops -Z
says 1 'not a shard' loader cfg/demo.cfg
says 1 'No such file' prep "$t/none"
says 2 'one input at most' loader a b
says 2 'want a number of ranks' sync -g 1,2
says 2 'want numbers of ranks' scale -g 1,x
says 1 'No such file' scale -g 2 -c "$t/none"
says 1 'transport nccl' sync -d cpu -O transport=nccl
says 2 'takes no operand' doctor x
says 2 'want two programs' ab ./yolo-bench
says 1 'No such file' ab -O n=3 "$t/none" ./yolo-bench -- ops
says 1 'ended with status 2' ab -O n=3 ./yolo-bench ./yolo-bench -- nosuch
says 1 'prints no table with a column' ab -O n=3 ./yolo-bench ./yolo-bench -- ops
for c in ab ops step eval check mark steps report loader prep sync scale doctor; do
	bad=
	for o in $(./yolo-bench $c -h | grep -o '\[-[A-Za-z]*' | sed 's/\[-//; s/./& /g'); do
		grep -q "^\.It Fl $o , -[a-z]" man/yolo-bench.1 || bad="$bad -$o"
	done
	[ -z "$bad" ]; ok $? "$c: every option of -h is in the page, with a long name$bad"
done
for o in $(grep -o '^\.It Fl [A-Za-z] , -[a-z-]*' man/yolo-bench.1 | sed 's/.*, -//'); do
	case $o in help|version) continue;; esac
	cat bench/*.c | grep -q "\"$o\", [01], NULL"
	ok $? "--$o of the page is there"
done

# From another folder; a cfg of ours is found all the same.
(cd "$t" && "$here/yolo-bench" ops -s 416 >ops && "$here/yolo-bench" ops -c cfg/demo.cfg >demo &&
	"$here/yolo-bench" step -q -C -c cfg/demo.cfg -b 1 -s 64 -O n=2 -O threads=1 -o step)
ok $? "from another folder"
grep -q "^total	yolov3-tiny.cfg" "$t/ops" && grep -q "^total	demo.cfg" "$t/demo"
ok $? "with the stock cfgs"
awk -F '\t' 'NR == 1 { n = NF } NR == 2 { ok = NF == n && $7 > 0 && $9 > 0 }
	NR == 3 { ok = ok && /^#layer/; n = NF } NR > 3 { ok = ok && NF == n && !/nan|inf/; rows++ }
	END { exit !(ok && rows == 22) }' "$t/step"
ok $? "step -C -o: two tables, whole"

./yolo-bench step -q -c cfg/demo.cfg -b 1 -s 64 -O n=2 -O threads=1 -O warmup=0 -f mllog >"$t/ml"
perl -MJSON::PP -ne 's/^:::MLLOG // or exit 1; $m = decode_json($_); $v{$m->{key}} = $m->{value};
	exit 1 if $m->{time_ms} < 1.7e12 || !exists $m->{metadata}{lineno};
	END { exit !($v{global_batch_size} == 1 && $v{run_stop}{status} eq "success" &&
	    $v{tracked_stats}{throughput} > 0) }' "$t/ml"
ok $? "step -f mllog: lines of JSON"

# Two runs in a history: a line of its own each, the same key; a busy one is marked.
sh -c 'while :; do :; done' &
spin=$!
for busy in 10 100; do
	./yolo-bench step -q -c cfg/demo.cfg -b 1 -s 64 -O n=2 -O threads=1 -O warmup=0 \
	    -O busy=$busy -H "$t/h" -o "$t/step" || break
done
kill $spin
awk -F '\t' '/^#time/ { n = NF; for (i = 1; i <= NF; i++) at[$i] = i }
	!/^#/ { rows++; ok += NF == n && $at["end"] == "." && $at["median_ms"] > 0 &&
	    $at["gemm_peak"] > 0 && $at["copy_gb_s"] > 0 && $at["coco_118287_min"] > 0 &&
	    $at["size"] == "64x64" && $at["n"] == 2 && $at["build"] != "-" && $at["cpu_ms"] != "-"
	    key[$at["key"]]; busy = busy ($at["busy"] == "-" ? "-" : "b") }
	END { for (k in key) k_s++; exit !(ok == 2 && k_s == 1 && busy == "b-") }' "$t/h"
ok $? "step -H: a line a run"

# Two builds: stand-ins of which the second is slower, then the same one twice.
for k in 1 2; do
	printf '#!/bin/sh\nprintf "#cfg\\tstep_ms\\nx\\t%d\\n"\n' ${k}00 >"$t/b$k"
	chmod +x "$t/b$k"
done
./yolo-bench ab "$t/b1" "$t/b2" -- step >"$t/out" && grep -q 'the second is slower' "$t/out"
ok $? "ab: a difference is found"
./yolo-bench ab "$t/b1" "$t/b1" -- step >"$t/out" && grep -q 'no difference found' "$t/out"
ok $? "and none where there is none"

# The other commands with made-up data; the digest of the batches is no matter of threads.
./yolo-bench loader -q -b 4 -s 64 -j 1 -O images=8 -O n=3 >"$t/l1" &&
	./yolo-bench loader -q -b 4 -s 64 -j 3 -O images=8 -O n=3 -O speed=500 >"$t/l3" &&
	[ "$(awk '/^loader/ { print $6 }' "$t/l1")" = "$(awk '/^loader/ { print $6 }' "$t/l3")" ] &&
	awk '/^#/ { n = NF; next } { r++; ok += NF == n && $2 > 0 } END { exit ok != 3 }' "$t/l1"
ok $? "loader: three stages, one digest"
./yolo-bench prep -q -O images=8 >"$t/out" && [ "$(grep -c '^[a-z]' "$t/out")" = 3 ]
ok $? "prep: three rows"
./yolo-bench sync -d cpu -g 3 -O most=65536 -O n=2 >"$t/out" &&
	awk '!/^#/ { r++; bad += $7 != 0 || $4 <= 0 } END { exit r != 8 || bad }' "$t/out"
ok $? "sync: eight sizes, nothing wrong"
./yolo-bench scale -d cpu -c cfg/demo.cfg -s 32 -b 2 -O n=2 -H "$t/hs" >"$t/out" &&
	[ "$(grep -c published "$t/out")" = 3 ] && awk '/^[12]\t/ { r++; bad += $2 != 2 * $1 ||
	    $7 < 0 || $7 >= 1 } END { exit r != 2 || bad }' "$t/out" &&
	./yolo-bench report -H "$t/hs" | grep -q '<h2>Scaling'
ok $? "scale: two rows beside the published ones, and in the report"
./yolo-bench doctor -d cpu >"$t/out"
[ $? -le 1 ] && grep -q '^sums	2 ranks, 4 B to 1 MB on cpu	ok$' "$t/out" &&
	! awk -F '\t' 'NF != 3' "$t/out" | grep -q .
ok $? "doctor: a verdict a line"

# A made-up set goes, also after a signal.
mkdir "$t/tmp"
TMPDIR=$t/tmp ./yolo-bench eval -q -O n=100000 -O images=50 >"$t/out" 2>&1 &
pid=$!
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	ls "$t/tmp"/*/dets.json >"$t/ls" 2>&1 && break
	sleep .2
done
kill -TERM $pid
wait $pid
[ $? = 143 ]; ok $? "eval: SIGTERM is 143"
[ -z "$(ls "$t/tmp")" ]; ok $? "and the set is gone"
plan
