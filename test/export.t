#!/usr/bin/perl
# export.t -- yolo-export's files without any other program: a reader of protobuf looks whether
# every node's inputs are there before it and all shapes agree; weights come back byte for byte;
# what cannot be done is one line and no file.
use strict;
use warnings;
use lib 'test';
use Tap;

my $t = $tmp;

# ---- protobuf: a message is a list of [field, value]

sub varint {
	my ($b, $at) = @_;
	my ($v, $shift, $c) = (0, 0);
	do {
		die "cut\n" if $$at >= length $$b;
		$c = ord substr $$b, $$at++, 1;
		$v |= ($c & 127) << $shift;
		$shift += 7;
	} while ($c & 128);
	return $v;
}

sub fields {
	my ($b) = @_;
	my ($at, @f) = (0);
	while ($at < length $b) {
		my $key = varint(\$b, \$at);
		my ($no, $wire) = ($key >> 3, $key & 7);
		if ($wire == 0) {
			push @f, [$no, varint(\$b, \$at)];
		} else {
			my $len = $wire == 5 ? 4 : $wire == 2 ? varint(\$b, \$at) : die "wire\n";
			die "cut\n" if $at + $len > length $b;
			push @f, [$no, substr $b, $at, $len];
			$at += $len;
		}
	}
	return @f;
}

sub all { my ($no, @f) = @_; return map { $_->[1] } grep { $_->[0] == $no } @f; }
sub one { my @v = all(@_); return $v[0]; }

sub info {			# ValueInfo: name, type, dimensions
	my @f = fields($_[0]);
	my @tensor = fields(one(1, fields(one(2, @f))));
	my @dim = map { my @d = fields($_); one(1, @d) // one(2, @d) } all(1, fields(one(2, @tensor)
	    // ''));
	return { name => one(1, @f), type => one(1, @tensor), dim => \@dim };
}

sub graph {			# a file as { node, con, in, out, value, meta, opset }
	my @m = fields(slurp($_[0]) // '');
	my @g = fields(one(7, @m));
	my %g = (opset => one(2, fields(one(8, @m))), node => [], con => {});
	for (all(1, @g)) {
		my @f = fields($_);
		my %attr;
		for (all(5, @f)) {
			my @a = fields($_);
			my @ints = all(8, @a);
			$attr{one(1, @a)} = @ints ? [map { unpack 'q', pack 'Q', $_ } @ints] :
			    one(3, @a) // one(4, @a);
		}
		push @{$g{node}}, { op => one(4, @f), in => [all(1, @f)], out => one(2, @f),
			a => \%attr };
	}
	for (all(5, @g)) {
		my @f = fields($_);
		$g{con}{one(8, @f)} = { type => one(2, @f), dim => [all(1, @f)],
			raw => one(9, @f) };
	}
	$g{$_->[0]} = [map { info($_) } all($_->[1], @g)]
	    for ['in', 11], ['out', 12], ['value', 13];
	$g{meta}{one(1, fields($_))} = one(2, fields($_)) for all(14, @m);
	return \%g;
}

# ---- shapes

my %size = (1 => 4, 2 => 1, 3 => 1, 6 => 4, 7 => 8, 10 => 2);	# bytes of a type

sub same { return "@{$_[0]}" eq "@{$_[1]}"; }

sub product {
	my ($p, $open) = (1, 0);
	/^\d+$/ ? ($p *= $_) : $open++ for @_;
	return $open ? 'open' : $p;
}

sub window {			# size of Conv's or MaxPool's output
	my ($a, $x) = @_;
	my @d = $a->{dilations} ? @{$a->{dilations}} : (1, 1);
	return map { int(($x->[2 + $_] + $a->{pads}[$_] + $a->{pads}[2 + $_] -
	    ($a->{kernel_shape}[$_] - 1) * $d[$_] - 1) / $a->{strides}[$_]) + 1 } 0, 1;
}

sub broadcast {
	my ($x, $y) = @_;
	my @x = ((1) x (@$y > @$x ? @$y - @$x : 0), @$x);
	my @y = ((1) x (@x > @$y ? @x - @$y : 0), @$y);
	$x[$_] eq $y[$_] || $x[$_] eq 1 || $y[$_] eq 1 or return ['differ'] for 0 .. $#x;
	return [map { $x[$_] eq 1 ? $y[$_] : $x[$_] } 0 .. $#x];
}

sub ints { return unpack 'q*', $_[0]{raw}; }

sub shape_of {			# what the node's output should be; undef: nothing to say
	my ($g, $node, @x) = @_;
	my ($op, $a, @in) = ($node->{op}, $node->{a}, @{$node->{in}});
	my @d = map { $_ && $_->{dim} } @x;
	if ($op eq 'Conv') {
		return ['channels'] if $d[1][1] * $a->{group} != $d[0][1] ||
		    $d[1][0] % $a->{group} || !same($a->{kernel_shape}, [@{$d[1]}[2, 3]]) ||
		    ($d[2] && $d[2][0] != $d[1][0]);
		return [$d[0][0], $d[1][0], window($a, $d[0])];
	}
	return [@{$d[0]}[0, 1], window($a, $d[0])] if $op eq 'MaxPool';
	return [@{$d[0]}[0, 1], 1, 1] if $op eq 'GlobalAveragePool';
	return broadcast(@d[0, 1]) if $op =~ /^(Add|Sub|Mul|Div)$/;
	return $d[0] if $op =~ /^(LeakyRelu|Sigmoid|Relu|Tanh|Softplus|Exp|Cast|Softmax|Identity|
	    BatchNormalization|QuantizeLinear|DequantizeLinear)$/x;
	return [map { $d[0][$_] } @{$a->{perm}}] if $op eq 'Transpose';
	my ($s, $axis) = ($a->{blocksize} || 1, $a->{axis} || 0);
	my ($b, $c, $h, $w) = @{$d[0]};
	return [$b, $c * $s * $s, $h / $s, $w / $s] if $op eq 'SpaceToDepth';
	return [$b, $c / $s / $s, $h * $s, $w * $s] if $op eq 'DepthToSpace';
	if ($op eq 'Resize') {
		my @f = unpack 'f*', $x[2]{raw};
		return [map { $f[$_] == 1 ? $d[0][$_] : $d[0][$_] * $f[$_] } 0 .. 3];
	}
	if ($op eq 'Concat') {
		my @out = @{$d[0]};
		for my $y (@d[1 .. $#d]) {
			$_ == $axis || $y->[$_] eq $out[$_] or return ["part $_"] for 0 .. $#out;
			$out[$axis] += $y->[$axis];
		}
		return \@out;
	}
	if ($op eq 'Slice') {
		my ($from, $to, $at) = map { (ints($_))[0] } @x[1 .. 3];
		my @out = @{$d[0]};
		return ['beyond'] if $out[$at] !~ /^\d+$/ || $to > $out[$at] || $from >= $to;
		$out[$at] = $to - $from;
		return \@out;
	}
	if ($op eq 'Reshape') {
		my @to = ints($x[1]);
		my $p = product(@{$d[0]});
		return ['numbers'] if $p ne 'open' && $p != product(@to);
		return undef;
	}
	return $op =~ /^(Gather|NonMaxSuppression)$/ ? undef : ["unknown $op"];
}

sub faults {			# of a graph
	my ($g) = @_;
	my (%have, %told, @bad);
	for my $name (keys %{$g->{con}}) {
		my $c = $have{$name} = $g->{con}{$name};
		my $bytes = $size{$c->{type}} * product(@{$c->{dim}});
		push @bad, "$name: $bytes bytes" if $bytes != length $c->{raw};
	}
	$have{$_->{name}} = $_ for @{$g->{in}};
	$told{$_->{name}} = $_ for @{$g->{value}}, @{$g->{out}};
	for my $node (@{$g->{node}}) {
		my @none = grep { $_ ne '' && !$have{$_} } @{$node->{in}};
		push @bad, "$node->{op} $node->{out}: no $_" for @none;
		push @bad, "$node->{out} made twice" if $have{$node->{out}};
		my $out = $have{$node->{out}} = $told{$node->{out}};
		push(@bad, "$node->{out}: no shape"), next if !$out;
		next if @none;
		my $want = shape_of($g, $node, map { $_ eq '' ? undef : $have{$_} } @{$node->{in}});
		push @bad, "$node->{op} $node->{out}: @{$out->{dim}}, should be @$want"
		    if $want && !same($want, $out->{dim});
	}
	push @bad, map { "no output $_->{name}" } grep { !$have{$_->{name}} } @{$g->{out}};
	return @bad;
}

sub export { return system("./yolo-export -q @_ >$t/said 2>$t/err") >> 8; }

# ---- generated cfgs, all ends and numbers

my %op;
for my $i (1 .. 12) {
	my ($cfg, $w) = ("$t/$i.cfg", "$t/$i.weights");
	system("test/t-export gen $i >$cfg && test/t-export weights $cfg $i $w") and die "t-export";
	my @bad;
	for my $o ('-O ends=raw', '-O ends=boxes -b 0 -O input=u8hwc', '-O ends=nms -b 2',
	    '-O ends=nms -b 0 -p fp16', '-O ends=raw -O bn=1', '-O boxes=fractions -O opset=18') {
		push(@bad, "$o: " . slurp("$t/err")), next
		    if export("-c $cfg -w $w $o -o $t/a.onnx");
		my $g = graph("$t/a.onnx");
		push @bad, map { "$o: $_" } faults($g);
		$op{$_->{op}}++ for @{$g->{node}};
	}
	clean("cfg $i: every input is there, shapes agree", @bad);
}
clean('all operators were seen', grep { !$op{$_} } qw(Conv BatchNormalization LeakyRelu Sigmoid
    Softplus MaxPool Resize Concat Slice Add Mul GlobalAveragePool SpaceToDepth DepthToSpace Reshape
    Transpose NonMaxSuppression Gather Cast Softmax Exp));
my ($cfg, $w) = ("$t/3.cfg", "$t/3.weights");
export("-c $cfg -w $w -O ends=raw -o $t/a.onnx");
my $g = graph("$t/a.onnx");
clean('lowest opset', $g->{opset} <= 11 ? () : "opset $g->{opset}");
clean('what it is stands in the metadata', grep { !$g->{meta}{$_} } qw(input output letterbox head0
    cfg.xxh3));
my ($conv) = grep { $_->{op} eq 'Conv' } @{$g->{node}};
my $was = $conv->{in}[0];
$conv->{in}[0] = 'nobody';
clean('an input that nobody makes is seen', faults($g) ? () : 'it is not');
$conv->{in}[0] = $was;
$conv->{a}{pads} = [7, 7, 7, 7];
clean('a shape that differs is seen', faults($g) ? () : 'it is not');

# ---- int8

system("tools/yolo-synth -q -n 6 -s 64 -S 5 -o $t/set") and die 'yolo-synth';
system("test/t-export weights test/small.cfg 1 $t/small.weights") and die 't-export';
my $eight = "-c test/small.cfg -w $t/small.weights -p int8 -O calib=$t/set/images";
my $bad = export("$eight -O symmetric=1 -O ends=raw -o $t/8.onnx");
$g = graph("$t/8.onnx") if !$bad;
clean('int8: inputs and shapes', $bad ? slurp("$t/err") : faults($g));
my @con = values %{$g->{con}};
clean('int8: kernels in bytes, biases in 32 bits', (grep { $_->{type} == 3 && @{$_->{dim}} == 4 }
    @con) && (grep { $_->{type} == 6 } @con) ? () : 'none');
my @head = grep { $_->{out} =~ /^head/ } @{$g->{node}};
clean('int8: heads are float', grep { $_->{op} ne 'Conv' ||
    $g->{con}{$_->{in}[1]}{type} != 1 } @head);
my %scale;			# of the pair that stands before or behind a value
for (@{$g->{node}}) {
	$scale{$_->{out}} = $g->{con}{$_->{in}[1]}{raw} if $_->{op} eq 'DequantizeLinear';
}
clean('int8: a maximum keeps its scale', map { $_->{out} } grep { my $y = $_;
	my ($q) = grep { $_->{op} eq 'QuantizeLinear' && $_->{in}[0] eq $y->{out} } @{$g->{node}};
	$y->{op} eq 'MaxPool' && $q && $g->{con}{$q->{in}[1]}{raw} ne $scale{$y->{in}[0]} }
    @{$g->{node}});
system("./yolo-export $eight -o $t/8.onnx >$t/report 2>$t/err");
clean('int8: a row for each layer, and the whole',
    slurp("$t/report") =~ /^#layer.*\n(\d+\t.*\n)+-\t-\tall/ ? () : slurp("$t/report"));
my @cost = slurp("$t/report") =~ /^\d+\t\d+\tconv\S*\t8\t.*\t(\S+)$/mg;
clean('int8: layers cost something, not much', (grep { !($_ > 0 && $_ < .1) } @cost),
    @cost ? () : 'none');
my ($whole) = slurp("$t/report") =~ /all.*\t(\S+)$/m;
system("./yolo-export $eight -O budget=" . $whole / 3 . " -o $t/8.onnx >$t/report 2>$t/err");
my ($less) = slurp("$t/report") =~ /all.*\t(\S+)$/m;
clean('int8: a budget keeps layers float', $less <= $whole / 3 * 1.0001 &&
    slurp("$t/report") =~ /conv\S*\t32\t/ ? () : "$whole, then $less");

# ---- weights and back

$bad = export("-c $cfg -w $w -f darknet -o $t/b.weights");
clean('.weights again: the same bytes', $bad || slurp($w) ne slurp("$t/b.weights") ? 'differ' : ());
export("-c $cfg -w $w -f safetensors -o $t/b.safetensors");
$bad = export("-w $t/b.safetensors -f darknet -o $t/c.weights");
clean('by way of safetensors: the same bytes, no -c', $bad || slurp($w) ne slurp("$t/c.weights") ?
    slurp("$t/err") : ());
export("-c $cfg -w $w -f darknet -O header=16 -o $t/old.weights");
clean('a header of 16 bytes', substr(slurp("$t/old.weights"), 0, 12) ne pack('V3', 0, 1, 0) ||
    substr(slurp("$t/old.weights"), 16) ne substr(slurp($w), 20) ? 'differ' : ());
export("-c $cfg -w $t/old.weights -f darknet -o $t/d.weights");
clean('it is kept', slurp("$t/old.weights") ne slurp("$t/d.weights") ? 'differ' : ());
export("-c $cfg -w $w -f darknet -O cutoff=2 -o $t/part.weights");
my $part = slurp("$t/part.weights");
clean('cutoff: the first layers', length $part <= 20 || length $part >= -s $w ||
    substr($part, 20) ne substr(slurp($w), 20, length($part) - 20) ? length $part : ());
my @bad;
for my $i (1 .. 12) {
	push(@bad, slurp("$t/err")), next if export("-c $t/$i.cfg -f cfg -o $t/plain.cfg");
	export("-c $t/plain.cfg -w $t/$i.weights -O ends=raw -o $t/b.onnx");
	export("-c $t/$i.cfg -w $t/$i.weights -O ends=raw -o $t/a.onnx");
	my ($x, $y) = map { my $g = graph($_); join "\n", map { "$_->{op} @{$_->{in}}" }
	    @{$g->{node}} } "$t/a.onnx", "$t/b.onnx";
	push @bad, "cfg $i" if $x ne $y;
}
clean('a plain cfg is the same network', @bad);

# ---- refusals

sub refused {			# what, status, words of the one line, arguments
	my ($what, $status, $words, @arg) = @_;
	unlink "$t/no.onnx";
	my $r = export(@arg, "-o $t/no.onnx");
	my $said = slurp("$t/err");
	clean($what, $r == $status && $said =~ /^yolo-export: [^\n]*$words[^\n]*\n$/ &&
	    !-e "$t/no.onnx" && !glob("$t/no.onnx.tmp*") ? () : "$r: $said");
}
refused('weights of another cfg', 1, 'cut short', "-c cfg/yolov3-tiny.cfg -w $w");
open my $f, '>:raw', "$t/nan.weights";
print $f substr(slurp($w), 0, 24), pack('f', 'nan'), substr(slurp($w), 28);
close $f;
refused('NaN, by its layer', 1, 'layer 0: biases\[1\]', "-c $cfg -w $t/nan.weights");
open $f, '>:raw', "$t/cut.weights";
print $f substr(slurp($w), 0, -2);
close $f;
refused('a file cut short', 1, 'cut short', "-c $cfg -w $t/cut.weights");
refused('no weights', 2, '-w names', "-c $cfg");
refused('no cfg', 1, '-c names', "-w $w");
refused('an unknown form', 2, 'want onnx', "-c $cfg -w $w -f tflite");
refused('numbers that another form does not have', 2, 'only -f onnx',
    "-c $cfg -w $w -f darknet -p fp16");
refused('int8 without pictures', 2, 'calib', "-c $cfg -w $w -p int8");
refused('what is about int8 without it', 2, 'only with -p int8', "-c $cfg -w $w -O budget=.1");
refused('layers left at random', 2, 'only with -f darknet', "-c $cfg -w $w -O cutoff=1");
refused('a setting that another form does not have', 2, 'only with -f onnx',
    "-c $cfg -w $w -f darknet -O ends=raw");
refused('a side that does not fit', 1, 'multiple of|x', "-c $cfg -w $w -s 17");
open $f, '>:raw', "$t/big.weights";
print $f substr(slurp($w), 0, 20), pack('f', 70000), substr(slurp($w), 24);
close $f;
refused('a number that fp16 does not have', 1, 'layer 0: layer0_bias.*fp16',
    "-c $cfg -w $t/big.weights -p fp16");
$bad = system("cp $w $t/in.weights; ./yolo-export -c $cfg -w $t/in.weights -f darknet " .
    "-o $t/in.weights 2>$t/err") >> 8;
clean('the input is not written over',
    $bad == 2 && slurp($w) eq slurp("$t/in.weights") ? () : $bad);
$bad = system("./yolo-export -c $cfg -w $w -o /dev/full 2>$t/err") >> 8;
clean('a full device is one line', $bad == 1 && slurp("$t/err") =~ /^[^\n]*No space[^\n]*\n$/ ? () :
    slurp("$t/err"));
$bad = system("trap '' XFSZ; ulimit -f 8; ./yolo-export -c $cfg -w $w -o $t/full.onnx " .
    "2>$t/err") >> 8;
clean('a full disk leaves nothing', $bad == 1 && !-e "$t/full.onnx" &&
    !glob("$t/full.onnx.tmp*") ? () : slurp("$t/err"));
$bad = system("./yolo-export -c $cfg -w $w -o $t/a.onnx; " .
    "./yolo-export -c $cfg -w $w -o - | cmp - $t/a.onnx") >> 8;
clean('a pipe gets the same bytes', $bad ? 'differ' : ());
spew("$t/names", "a\nb\n\xff\n");
$bad = export("-c $cfg -w $w -n $t/names -o $t/a.onnx");
clean('names that a file cannot hold are spoken of', !$bad && slurp("$t/err") =~ /UTF-8/ ? () :
    slurp("$t/err"));
done_testing();
