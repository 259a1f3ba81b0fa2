#!/bin/sh
# export.t -- what yolo-export writes, in onnxruntime: the networks of doc/models.md, generated
# cfgs, the manual page's walk.  PYTHON names a Python that has onnx, onnxruntime and cv2; without
# them skipped.
python=${PYTHON:-python3}
for m in numpy onnx onnxruntime cv2; do
	$python -c "import $m" 2>/dev/null || { echo "1..0 # SKIP no $m for $python"; exit 0; }
done
. test/tap.sh
rows() {	# each row of export-check is a test: ok, error, name
	while read -r what err name; do
		case $what in skip) skip "$name" 'not here'; continue;; esac
		[ "$what" = ok ]; ok $? "$name: $err"
	done <"$t/rows"
}
$python tools/export-check -m >"$t/rows"; ok $? 'networks of doc/models.md'
rows
$python tools/export-check -g 100 >"$t/rows"; ok $? 'generated cfgs'
rows

# The walk of man/yolo-export.1, its commands and its Python taken from the page.
sed -n '/^import cv2/,/^\.Ed/p' man/yolo-export.1 | sed '/^\.Ed/d' >"$t/walk.py"
export=$(sed -n 's/^\\&\(\.\/yolo-export .*\)/\1/p' man/yolo-export.1 | head -n 1)
./yolo-train -q -d cpu -e 2 -o "$t/run" -v data/demo-val.shard data/demo.shard >"$t/log" 2>&1
ok $? 'two epochs of the demo'
ln -s "$PWD/yolo-export" "$PWD/data" "$t"
(cd "$t" && $export >/dev/null && $python walk.py >boxes); ok $? 'exported, and run in Python'
./yolo-detect -q -d cpu -k greedy -s 208 -t .01 -O clip=0 -w "$t/run/best.safetensors" \
	data/demo-val/images/000000.jpg >"$t/ours"
$python - "$t" <<'!'
import sys
t = sys.argv[1]
ours = sorted([float(v) for v in [r.split('\t')[1]] + r.rstrip('\n').split('\t')[3:]]
              for r in open(t + '/ours') if not r.startswith('#'))
theirs = sorted([float(v) for v in r.split()] for r in open(t + '/boxes'))
theirs = [[c, s, a, b, x - a, y - b] for c, s, a, b, x, y in theirs]
print('# %d boxes, %d there' % (len(ours), len(theirs)))
worst = max([abs(p - q) for a, b in zip(ours, theirs) for p, q in zip(a, b)] or [9])
print('# worst difference %.2g' % worst)
sys.exit(len(ours) != len(theirs) or not worst < 1e-3)
!
ok $? 'the same boxes as yolo-detect'
plan
