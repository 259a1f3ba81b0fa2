#!/bin/sh
# Rectangular inputs: the letterbox without needless border, in detection and in validation.
. test/runs.sh
perl -e '
	my ($dir, $x) = (shift, 7);
	sub r { $x = ($x * 1103515245 + 12345) & 0x7fffffff; return int($x / 65536) % $_[0] }
	my @colour = ([250, 0, 0], [0, 250, 0], [0, 0, 250], [250, 250, 0]);
	my @size = ([96, 48], [48, 96], [96, 96], [80, 60], [96, 62]);
	for my $i (0 .. 23) {
		my ($w, $h) = @{$size[$i % @size]};
		my @px = map { [40 + r(20), 40, 40 + r(9)] } 1 .. $w * $h;
		open my $t, ">", sprintf "$dir/%02d.txt", $i;
		for my $k (0 .. 1 + r(2)) {
			my ($c, $bw, $bh) = (r(4), 14 + r(16), 14 + r(16));
			my ($bx, $by) = (r($w - $bw), r($h - $bh));
			for my $y ($by .. $by + $bh - 1) {
				$px[$y * $w + $_] = $colour[$c] for $bx .. $bx + $bw - 1;
			}
			printf $t "%d %.6f %.6f %.6f %.6f\n", $c, ($bx + $bw / 2) / $w,
			    ($by + $bh / 2) / $h, $bw / $w, $bh / $h;
		}
		open my $f, ">:raw", sprintf "$dir/%02d.ppm", $i;
		print $f "P6\n$w $h\n255\n", map { pack "C3", @$_ } @px;
	}' "$(mkdir "$t/set" && echo "$t/set")" && printf 'a\nb\nc\nd\n' >"$t/names" &&
./yolo-prep -q -n "$t/names" -o "$t/train.shard" "$t/set"; ok $? 'pictures of five shapes'

train -O steps=150 -O lr=.02 -O mosaic=0 -O rect=1 -e 50 -v "$t/train.shard" -o "$t/run" \
    "$t/train.shard"
ok $? 'a run validated with rect=1'
detect() { ./yolo-detect -q -O threads=1 -w "$t/run/best.safetensors" "$@" 2>"$t/err"; }
detect -O eval=1 -O rect=1 "$t/train.shard" >"$t/rect"
./yolo-eval -q -m coco -t "$t/train.shard" "$t/rect" >"$t/metrics" 2>"$t/err"
want=$(awk -F '\t' '!/^#/ && (NR == 2 || $3 > b) { b = $3 } END { printf "%.9g", b }' \
    "$t/run/val.tsv")
got=$(awk -F '\t' '$2 == "-" && $3 == "AP" { printf "%.9g", $4 }' "$t/metrics")
[ "$want" = "$got" ] && [ "$got" != 0 ]
ok $? "val.tsv's AP is that of yolo-detect -O rect=1 | yolo-eval ($want, $got)"
detect -O eval=1 "$t/train.shard" >"$t/square"
! same "$t/rect" "$t/square"; ok $? 'the border is another one'

of() { for i in $2; do grep "/$i.ppm" "$1"; done; }	# of FILE PICTURES
for s in 96x48:'00 05 10' 48x96:'01 06 11' 96x64:'04 09'; do
	detect -O eval=1 -s "${s%%:*}" "$t/train.shard" >"$t/own"
	of "$t/own" "${s#*:}" >"$t/a"; of "$t/rect" "${s#*:}" >"$t/b"
	[ -s "$t/a" ] && same "$t/a" "$t/b"; ok $? "their input is ${s%%:*}: the same detections"
done
of "$t/rect" '02 07' >"$t/a"; of "$t/square" '02 07' >"$t/b"
[ -s "$t/a" ] && same "$t/a" "$t/b"; ok $? 'square pictures: as without rect'
for b in 1 3 24; do
	detect -b $b -j 4 -O eval=1 -O rect=1 "$t/train.shard" >"$t/b"
	same "$t/rect" "$t/b"; ok $? "batches of $b: the same bytes"
done
detect -O rect=1 -O resize=darknet "$t/train.shard" >"$t/a"; [ $? = 0 ] && [ -s "$t/a" ]
ok $? 'with darknet'"'"'s resize too'
detect -O rect=1 -O stretch=1 "$t/train.shard"; [ $? = 2 ] && has 'not with -O stretch'
ok $? 'stretch and rect exclude each other'

# ---- run.cfg says the size that was asked for
train -s 64x96 -O steps=3 -v "$t/train.shard" -e 1 -o "$t/sized" "$t/train.shard"
[ "$(grep -E '^(width|height)=' "$t/sized/run.cfg" | tr '\n' ' ')" = 'width=64 height=96 ' ]
ok $? '-s 64x96 stands in run.cfg'
train -R -s 64x96 -o "$t/sized"; [ $? = 0 ] && has 'nothing left'; ok $? '... and -R agrees'
echo "1..$n"
