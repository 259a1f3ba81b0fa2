#!/usr/bin/perl
# cfg-table.t -- the table of published networks: its numbers are those that others give.
#
# Floats: data/cfg/PARAMS.tsv and data/README.md, and what the .weights files there hold.  Bytes:
# the files' sizes, reference/darknet.md 2.4.  BFLOPs: darknet.md 6.1 at the sizes given there,
# within 0.5 % or the digits printed; else flops.py where it knows all sections; and for every cfg a
# counter of our own below, which shares nothing with the parser.
use strict;
use warnings;
use lib 'test';
use Tap;

my $data = '../shared/data';
shared("$data/cfg");
my @rows = map { chomp; [ split /\t/ ] } `sh tools/cfg-table`;
is($?, 0, 'cfg-table');
is(join(' ', @{ shift @rows }), '#cfg size layers parameters bytes BFLOPs', 'its columns');
cmp_ok(scalar @rows, '>=', 45, 'its rows');

# ---- what is published ----
my %floats = (yolov3 => 62001757, 'yolov3-spp' => 63052381, 'yolov3-tiny' => 8858734,	# stock
    'yolo-fastest' => 356406, 'yolo-fastest-1.1' => 346062, 'yolo-fastest-1.1-xl' => 923486,
    'MobileNetV2-YOLOv3-Nano-coco' => 891070, 'MobileNetV2-YOLO-Fastest-voc' => 191214,
    'MobileNetV2-YOLO-Fastest-voc-v2' => 209864, 'yoloface-50k' => 11248, 'nuclei-tiny' => 16138);
open my $f, '<', "$data/cfg/PARAMS.tsv" or die;
while (<$f>) {
	$floats{$2} = $3 if /^(alexeyab)\t(\S+)\.cfg\t(\d+)\t/;
}
my %bytes = (yolov2 => 203934264, 'yolov2-tiny' => 44948600, yolov3 => 248007048,
    'yolov3-tiny' => 35434956, 'yolov3-spp' => 252209544, 'yolov3-openimages' => 259229388,
    yolov4 => 257717640, 'yolov4-tiny' => 24251276, 'yolo-fastest-1.1' => 1384268,
    'yolo-fastest-1.1-xl' => 3693964, 'yolo-fastest' => 1425644, 'yolov4-csp' => 211944840,
    'yolov4x-mish' => 399388168, 'yolov4-p5' => 283669892, 'yolov4-p6' => 510868180,
    'yolov7-tiny' => 24967560, yolov7 => 147898248, 'enet-coco' => 19233100,
    'csresnext50-panet-spp' => 228123400, 'yolov3-tiny-prn' => 19759052);
my %gf = ('yolov4x-mish@640' => '221', 'yolov4-csp-x-swish@640' => '221', 'yolov4-csp@640' => '120',
    'yolov4-csp-swish@640' => '120', 'yolov4-csp@512' => '77', 'yolov4@608' => '128.5',
    'yolov4@512' => '91.1', 'yolov4@416' => '60.1', 'yolov4@320' => '35.5',
    'yolov4-tiny@416' => '6.9',
    'enet-coco@416' => '3.7', 'csresnext50-panet-spp-original-optimal@608' => '100.5',
    'yolov3-spp@608' => '141.5', 'yolov3@416' => '65.9', 'yolov3-tiny@416' => '5.6',
    'yolov3-tiny-prn@416' => '3.5', 'yolo-fastest-1.1@320' => '0.252',
    'yolo-fastest-1.1-xl@320' => '0.725');

sub agrees {		# within 0.5 %, or equal to the digits printed
	my ($got, $want) = @_;
	my $unit = $want =~ /\.(\d+)/ ? 10 ** -length $1 : 1;
	return abs($got / $want - 1) < .005 || abs($got - $want) <= $unit / 2;
}

# ---- a counter of our own: floats and multiply-adds straight from the text ----
sub out { return int(($_[0] + $_[1] - $_[2]) / $_[3]) + 1; }

sub count {
	my ($path, $w, $h) = @_;
	my (@sec, @at, $floats, $flops);
	open my $in, '<', $path or die "$path: $!";
	while (<$in>) {
		s/\s+//g;
		next if /^[#;]/ || !length;
		if (/^\[(.*)\]/) { push @sec, { type => $1 }; }
		elsif (/^([^=]+)=([^#]*)/) { $sec[-1]{$1} //= $2; }
	}
	my @now = (shift(@sec)->{channels}, $h, $w);
	for my $s (@sec) {
		my ($c, $y, $x) = @now;
		my $t = $s->{type};
		if ($t eq 'convolutional') {
			my ($n, $k, $st, $g) = map { $s->{$_} // 1 } qw(filters size stride groups);
			my $p = $s->{pad} ? 2 * int($k / 2) : 2 * ($s->{padding} // 0);
			@now = ($n, out($y, $p, $k, $st), out($x, $p, $k, $st));
			$floats += $n * $k * $k * $c / $g + $n * ($s->{batch_normalize} ? 4 : 1);
			$flops += 2 * $n * $k * $k * $c / $g * $now[1] * $now[2];
		} elsif ($t eq 'maxpool') {
			my $st = $s->{stride} // 1;
			my $k = $s->{size} // $st;
			my $p = $s->{padding} // $k - 1;
			@now = ($c, out($y, $p, $k, $st), out($x, $p, $k, $st));
		} elsif ($t eq 'route') {
			my @from = map { $at[ $_ < 0 ? @at + $_ : $_ ] } split /,/, $s->{layers};
			@now = (0, @{ $from[0] }[1, 2]);
			$now[0] += $_->[0] / ($s->{groups} // 1) for @from;
		} elsif ($t eq 'upsample') { @now = ($c, map { $_ * ($s->{stride} // 2) } $y, $x); }
		elsif ($t =~ /^reorg/) {
			@now = ($c * $s->{stride} ** 2, map { $_ / $s->{stride} } $y, $x);
		}
		elsif ($t eq 'avgpool') { @now = ($c, 1, 1); }
		elsif ($t eq 'scale_channels') { @now = @{ $at[ @at + $s->{from} ] }; }
		elsif ($t !~ /^(shortcut|yolo|region|dropout|sam)$/) { die "$path: [$t]"; }
		push @at, [@now];
	}
	return ($floats, $flops / 1e9);
}

my $python = !system 'python3 -c "" 2>/dev/null';
my %seen;
for (@rows) {
	my ($path, $size, $layers, $floats, $bytes, $gf) = @$_;
	my ($name) = $path =~ m{([^/]+)\.cfg$};
	my ($w, $h) = split /x/, $size;
	my @own = count($path, $w, $h);
	(my $weights = $path) =~ s/cfg$/weights/;
	$seen{$name} = $seen{"$name\@$w"} = 1;
	ok((!exists $floats{$name} || $floats == $floats{$name}) && $floats == $own[0],
	    "$path: floats")
	    or diag("$floats, want " . ($floats{$name} // '-') . ", $own[0]");
	ok(exists $floats{$name} || $path =~ /^cfg/, "$path: they are published");
	ok($bytes == 20 + 4 * $floats && (!exists $bytes{$name} || $bytes == $bytes{$name}) &&
	    (!-e $weights || $bytes == -s $weights), "$path: bytes") or diag($bytes);
	my $want = $gf{"$name\@$w"};
	ok(abs($gf / $own[1] - 1) < .0003 && (!defined $want || agrees($gf, $want)),
	    "$path at $size: BFLOPs") or diag("$gf, want " . ($want // '-') . ", $own[1]");
	next if defined $want || !$python;
	my $py = `python3 ../shared/reference/flops.py --cfg $path --size $w 2>/dev/null`;
	ok(agrees($gf, $1), "$path at $size: flops.py") or diag("$gf, want $1")
	    if $py =~ /fwd GFLOP ([\d.]+)/ && $w == $h && !`grep -l ^groups $path`;
}
ok($seen{$_}, "$_ is in the table") for sort keys %bytes, keys %gf;

# ---- the page ----
is(`sh tools/cfg-table -m | diff - doc/models.md`, '', 'doc/models.md is what the command makes');
is(scalar `DATA=/nonexistent sh tools/cfg-table cfg/demo.cfg\@64 2>&1 | tail -n 1 | cut -f 1,2`,
    "cfg/demo.cfg\t64x64\n", 'a cfg and a side as operand');
`sh tools/cfg-table cfg/none.cfg 2>&1`;
isnt($?, 0, 'a cfg that is not there');
done_testing();
