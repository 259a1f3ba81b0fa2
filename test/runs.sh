# runs.sh -- for tests that train as a user does; sourced by them.
. test/tap.sh
cfg=test/small.cfg
has() { grep -q -- "$1" "$t/err"; }	# has PATTERN: is it on stderr?
same() { cmp "$1" "$2" >"$t/err" 2>&1; }
smooth() {	# smooth PARTS: test/small.cfg without leaky units and maxima, where rounding may decide
	sed "s/^subdivisions=.*/subdivisions=$1/; s/leaky/mish/
	    s/^.maxpool./[convolutional]\nfilters=16\nbatch_normalize=1\nactivation=mish/" test/small.cfg
}
train() {	# train OPTION... [DATA]: with $cfg, on one thread
	./yolo-train -q -c "$cfg" -O threads=1 -d cpu "$@" >"$t/out" 2>"$t/err"
}
tensors() {	# tensors FILE [PREFIX]: the numbers of a safetensors file, without its strings
	perl -e 'local $/; my ($f, $p) = @ARGV; open F, "<:raw", $f; $_ = <F>; my $n = unpack "Q<", $_;
	my $head = substr $_, 8, $n; my $data = substr $_, 8 + $n;
	print "$1 ", substr $data, $2, $3 - $2
	    while $head =~ /"(\Q$p\E[^"]*)":\{"dtype":"\w+","shape":\[[^]]*\],"data_offsets":\[(\d+),(\d+)\]/g' \
	    "$1" "$2"
}
equal() {	# equal FILE FILE [PREFIX]: have they the same numbers?
	tensors "$1" "$3" >"$t/a"
	tensors "$2" "$3" >"$t/b"
	[ -s "$t/a" ] && same "$t/a" "$t/b"
}
meta() {	# meta FILE KEY: a string of a safetensors file
	perl -e 'local $/; open F, "<:raw", shift; $_ = <F>; my $k = shift;
	print $1 if substr($_, 8, unpack "Q<", $_) =~ /"$k":"([^"]*)"/' "$1" "$2"
}
steps() { sed 1d "$1" | cut -f 1 | tr '\n' ' '; }	# steps LOG: the first column
sizes() { sed 1d "$1/log.tsv" | cut -f 4; }		# sizes DIR: of each step
small_set() {	# train.shard and val.shard
	tools/yolo-synth -q -n 37 -s 96 -S 3 -o "$t/set" &&
	tools/yolo-synth -q -n 12 -s 96 -S 4 -o "$t/valset" &&
	./yolo-prep -q -n "$t/set/names" -o "$t/train.shard" "$t/set/images" &&
	./yolo-prep -q -n "$t/set/names" -o "$t/val.shard" "$t/valset/images"
}
