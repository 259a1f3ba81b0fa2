#!/bin/sh
# yolo-bench ops: the table, its sum, what is refused.
. test/tap.sh

./yolo-bench ops -c cfg/yolov3-tiny.cfg >"$t/tiny" 2>"$t/err"
ok $? "yolov3-tiny"
[ ! -s "$t/err" ]; ok $? "nothing to remark"
head -n 1 "$t/tiny" |
    grep -q '^#index	type	filters	size/stride	input	output	params	BFLOPs	bytes$'
ok $? "header"
awk -F '\t' '/^[0-9]/ { p += $7; f += $8; b += $9; if ($1 != n++) bad = 1 }
	$1 == "total" { total++; if (p != $7 || $7 != 8858734 || (f - $8) ^ 2 > 1e-12) bad = 1
		if ($9 != b + 20 || $9 != 35434956) bad = 1 }
	END { exit bad || total != 1 || n != 24 }' "$t/tiny"
ok $? "24 layers in order; total: the sums, 8858734 floats, 35434956 bytes"
grep -q '^13	convolutional	256	1/1	13x13x1024	13x13x256	263168	0.0886' \
    "$t/tiny"
ok $? "a convolution"
awk -F '\t' '$1 == 20' "$t/tiny" | cut -f 2,4- |
    grep -q '^route	from 19,8	26x26x128	26x26x384	0	0	0$'
ok $? "a route"
./yolo-bench ops -s 608x352 -c cfg/yolov3-tiny.cfg |
    grep -q '^0	convolutional	16	3/1	608x352x3	'
ok $? "another size"
./yolo-bench ops -s 400 -c cfg/yolov3-tiny.cfg >"$t/out" 2>"$t/err"
[ $? = 1 ] && [ ! -s "$t/out" ] && grep -q 'width=400 is not a multiple of 32' "$t/err"
ok $? "a size that does not fit"
sed 's/classes=80/classes=3/' cfg/yolov3-tiny.cfg >"$t/three.cfg"
./yolo-bench ops -c "$t/three.cfg" >"$t/out" 2>"$t/err"
[ $? = 1 ] && line=$(grep -n '^filters=255' "$t/three.cfg" | sed 's/:.*//;1q') &&
	grep -q "three.cfg:$line: filters=255 before \[yolo\]: want filters=24," "$t/err"
ok $? "filters before [yolo]: line and the right number"
./yolo-bench ops -c /nonexistent >/dev/null 2>&1; [ $? = 1 ]; ok $? "no such file"
./yolo-bench ops operand >/dev/null 2>&1; [ $? = 2 ]; ok $? "usage"
./yolo-bench ops -h | grep -q '^usage'; ok $? "-h"
./yolo-bench ops -c - <cfg/demo.cfg | grep -q '^total	stdin'; ok $? "cfg on stdin"
plan
