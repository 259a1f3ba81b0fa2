#!/bin/sh
# A golden case with one value changed must fail, of every kind that has tensors.
. test/golden.sh
g=$golden
t=$(mktemp -d) || exit 1
trap 'rm -rf "$t"' EXIT
n=0
for c in layers/conv-01-1x1s1-int layers/maxpool-03-2s2p0-odd-int nets/tworoute optim/sgd-02-decay \
    nms/greedy/clusters-s1 "$(cd $g && ls loss/ciou/*.json | head -n 1 | sed 's/.json//')"; do
	n=$((n + 1))
	rm -rf "$t/d"; mkdir "$t/d"
	cp $g/$c.* "$t/d/" && chmod u+w "$t"/d/*
	f=$(ls "$t"/d/*.safetensors)
	test/golden "$t/d" >"$t/out" 2>&1; before=$?
	# a byte of exponent somewhere in the middle of the data, whichever tensor it hits
	perl -e '
		open F, "+<", $ARGV[0] or die; binmode F; read F, $h, 8; $len = unpack "Q<", $h;
		$size = -s $ARGV[0];
		for ($at = 8 + $len + 3; $at < $size; $at += 4) {
			seek F, $at, 0; read F, $b, 1; seek F, $at, 0; print F chr(ord($b) ^ 0x02);
		}' "$f"
	test/golden "$t/d" >"$t/out" 2>&1; after=$?
	if [ $before = 0 ] && [ $after = 1 ]; then
		echo "ok $n - $c: passes as it is, fails when changed"
	else
		echo "not ok $n - $c: status $before as it is, $after changed"
		sed 's/^/# /' "$t/out" | tail -n 3
	fi
done
echo "1..$n"
