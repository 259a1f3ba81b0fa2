#!/usr/bin/perl
# detect-models.t -- published darknet models: what darknet and OpenCV find in the same pictures.
use strict;
use warnings;
use lib 'test';
use Tap qw(:DEFAULT run);
require './test/detect.pl';

our $dir;
my $data = '../shared/data';
shared("$data/weights");
$ENV{OMP_NUM_THREADS} = 1;	# small nets on a busy machine: threads would wait for each other
my $js = JSON::PP->new->utf8;
my $pics = "$data/images/darknet-samples";

sub model {
	my ($path) = @_;
	return ('-c', "$data/weights/$path.cfg", '-w', "$data/weights/$path.weights");
}

# Width and height from a JPEG's frame header.
sub jpeg_size {
	my $b = slurp($_[0]);
	for (my $at = 2; $at + 9 < length $b;) {
		my ($mark, $len) = unpack 'x' . $at . 'n n', $b;
		return reverse unpack 'x' . ($at + 5) . 'n n', $b
		    if $mark >= 0xffc0 && $mark <= 0xffcf && $mark != 0xffc4 && $mark != 0xffc8;
		$at += 2 + $len;
	}
	die "$_[0]: no size";
}

# Every expected box has one of ours (and none other has the same), and we have no more, but for
# those whose score is within the tolerance of the threshold.
sub compare {
	my ($name, $got, $want, $thresh, $tol_box, $tol_score) = @_;
	my (@left, @miss) = @$got;
	for my $w (sort { $b->[1] <=> $a->[1] } @$want) {
		my ($best, $at) = (1e9, -1);
		for my $i (0 .. $#left) {
			next if $left[$i][0] != $w->[0] || !near($left[$i][1], $w->[1], $tol_score);
			my $far = 0;
			for (2 .. 5) {
				my $d = abs($left[$i][$_] - $w->[$_]);
				$far = $d if $d > $far;
			}
			($best, $at) = ($far, $i) if $far < $best;
		}
		if ($best <= $tol_box) { splice @left, $at, 1; }
		elsif ($w->[1] > $thresh + $tol_score) { push @miss, $w; }
	}
	@left = grep { $_->[1] > $thresh + $tol_score } @left;
	ok(!@miss && !@left, $name) or diag(map { "$_\n" } (map { "missing @$_" } @miss),
	    map { "surplus @$_" } @left);
}

# ---- darknet of 2018: letterbox, its own resize ----
my $dark = $js->decode(slurp("$data/weights/expected-darknet-2018.json"));
for my $m (sort keys %$dark) {
	for my $pic (sort keys %{ $dark->{$m} }) {
		my @want = map { [ $_->{cls}, $_->{score}, @{ $_->{xywh_px} } ] }
		    @{ $dark->{$m}{$pic} };
		for my $eps ([ 1e-5, 1, .01 ], [ 0, .01, .0001 ]) {
			my ($rc, $out, $err) = detect(model("yolo-fastest-1.1-coco/$m"), '-k',
			    'greedy', '-i', '.45', '-t', '.1', '-O', 'resize=darknet',
			    $eps->[0] ? () : ('-O', 'bn_eps=0'), "$pics/$pic");
			compare("darknet 2018: $m, $pic, epsilon $eps->[0]",
			    [ map { [ @$_[1, 3 .. 7] ] } rows($out) ], \@want, .1, @$eps[1, 2]);
		}
	}
}

# ---- OpenCV 4.6: stretched, half-pixel bilinear, the best class of a box, its own epsilon ----
# With our 1e-5 every box that it finds is there, to .005 and .02 of score, before suppression.
# After it two of 91 differ: a box whose two best classes are .0008 apart takes the other one, and
# so suppresses its neighbour of that class (yolo-detect(1), DETECTING LIKE OTHERS).
sub relative {		# rows as [class, score, centre and size in shares of the picture]
	my ($w, $h) = splice @_, 0, 2;
	return map { [ @$_[1, 3], ($_->[4] + $_->[6] / 2) / $w, ($_->[5] + $_->[7] / 2) / $h,
		$_->[6] / $w, $_->[7] / $h ] } @_;
}
my @opencv = ('-O', 'stretch=1', '-O', 'resize=bilinear', '-O', 'clip=0');
my $cv = $js->decode(slurp("$data/weights/expected-opencv-4.6.0.json"));
for my $m (sort keys %$cv) {
	for my $pic (sort keys %{ $cv->{$m} }) {
		my @size = jpeg_size("$pics/$pic");
		my @want = map { [ $_->{cls}, $_->{score}, @{ $_->{cxcywh} } ] }
		    @{ $cv->{$m}{$pic} };
		my ($rc, $out, $err) = detect(model($m), '-k', 'best', '-i', '.45', '-t', '.3',
		    @opencv, '-O', 'bn_eps=1e-6', "$pics/$pic");
		compare("OpenCV 4.6: $m, $pic", [ relative(@size, rows($out)) ], \@want, .3, .0001,
		    .0001);
		($rc, $out, $err) = detect(model($m), '-k', 'greedy', '-i', '1', '-t', '.28',
		    @opencv, "$pics/$pic");
		my @ours = relative(@size, rows($out));
		my @miss = grep { my $e = $_; !grep { my $o = $_; $o->[0] == $e->[0] &&
		    near($o->[1], $e->[1], .02) &&
		    !grep { !near($o->[$_], $e->[$_], .005) } 2 .. 5 } @ours } @want;
		ok(!@miss, "the same with 1e-5, before suppression") or diag(map { "@$_\n" } @miss);
	}
}

# ---- AlexeyAB's darknet, reference/darknet.md section 7: stretched, the cfg's greedynms ----
my @fastest = model('yolo-fastest-1.1-coco/yolo-fastest-1.1');
my @names = ('-n', "$data/weights/yolo-fastest-1.1-coco/coco.names");
my @alexey = ('-O', 'stretch=1', '-O', 'resize=darknet', '-O', 'clip=0');
my ($rc, $out, $err) = detect(@fastest, @names, @alexey, "$pics/dog.jpg");
my @r = rows($out);
sub list {	# its percentages; our JPEG decoder is another than its: one per cent is allowed
	my ($name, $want, @got) = @_;
	my @w = split /, /, $want;
	my $bad = @w != @got;
	for my $i ($bad ? () : 0 .. $#w) {
		my ($cls, $score) = $w[$i] =~ /(.*) (.*)/;
		$bad ||= $cls ne $got[$i][2] || !near($score, 100 * $got[$i][3], 1);
	}
	ok(!$bad, $name) or diag(map { "$_->[2] $_->[3]\n" } @got);
}
list('AlexeyAB: list',
    'car 88, dog 65, cat 55, bicycle 55, car 44, car 37, person 33, bicycle 29', @r);
my ($dog) = grep { $_->[2] eq 'dog' } @r;
my @d = (($dog->[4] + $dog->[6] / 2) / 768, ($dog->[5] + $dog->[7] / 2) / 576, $dog->[6] / 768,
    $dog->[7] / 576, $dog->[3]);
my @want = (.316827, .641744, .317097, .511708, .649255);
ok(!(grep { !near($d[$_], $want[$_], .002) } 0 .. 4), 'AlexeyAB: the dog to two decimals')
    or diag("got @d, want @want");
my @xl = rows((detect(model('yolo-fastest-1.1-coco/yolo-fastest-1.1-xl'), @names, @alexey,
    "$pics/dog.jpg"))[1]);
list('AlexeyAB: list of the larger model', 'dog 93, bicycle 90, car 80, truck 46, cat 35', @xl);

# ---- one at a time or together ----
my @all = map { "$pics/$_" } sort keys %{ $dark->{'yolo-fastest-1.1'} };
my $one = (detect(@fastest, '-t', '.01', '-b', 1, '-j', 1, @all))[1];
is((detect(@fastest, '-t', '.01', '-b', $_, '-j', 2, @all))[1], $one, "batch $_: the same bytes")
    for 2, 5;

# ---- the AP that darknet's own detections have ----
sub ap {
	my ($model, $truth, @opt) = @_;
	my ($rc, $out, $err) = detect(model($model), '-t', '.005', '-k', 'greedy', '-O', 'bn_eps=0',
	    '-O', 'resize=darknet', '-f', 'coco', '-O', "ids=$truth", '-o', "$dir/dets.json", @opt);
	is("$rc$err", '0', "$model: detected");
	($rc, $out, $err) = run('./yolo-eval', '-q', '-t', $truth, "$dir/dets.json");
	return { map { (split /\t/)[2, 3] } grep { /^coco\t/ } split /\n/, $out };
}
SKIP: {
	skip 'no yolo-eval', 23 unless -x './yolo-eval';
	my $set = "$data/datasets/nuclei";
	my $ap = ap('nuclei-tiny/nuclei-tiny', "$set/instances_val.json", "$set/images/val");
	my $exp = $js->decode(slurp("$data/weights/nuclei-tiny/expected.json"));
	ok(near($ap->{AP}, $exp->{AP}, .01), 'nuclei: AP as recorded, about') or diag($ap->{AP});
	ok(near($ap->{AP50}, $exp->{AP50}, .01), 'nuclei: AP50') or diag($ap->{AP50});
	# Of what Debian's darknet (detector valid) makes of these files, by two evaluators.
	ok(near($ap->{AP}, .366780, 2e-4), "nuclei: AP of darknet's detections") or diag($ap->{AP});
	ok(near($ap->{AP50}, .800708, 2e-4), 'nuclei: AP50 of them') or diag($ap->{AP50});

	# coco-cc, by the plain commands: with darknet's epsilon nothing remains, ours costs little.
	$set = "$data/datasets/coco-cc";
	$exp = $js->decode(slurp("$data/eval/coco-cc-yolofastest/expected.json"));
	my $mobile = "$data/weights/mobilenetv2-nano-coco/MobileNetV2-YOLOv3-Nano-coco";
	(my $nano = slurp("$mobile.cfg")) =~ s/^scale_x_y.*\n//mg;
	# (darknet of 2018 does not know that key)
	spew("$dir/nano.cfg", $nano);
	for my $name (sort grep { /^yolo|^mobile/ } keys %$exp) {
		my $plain = $name =~ /^yolo/;
		my @net = $plain ? model("yolo-fastest-1.1-coco/$name") :
		    ('-c', "$dir/nano.cfg", '-w', "$mobile.weights");
		for my $eps ([ 1e-5, .002 ], [ 0, 1e-6 ]) {
			my ($rc, $out, $err) = detect(@net, @names, '-k', 'greedy', '-i', '.45',
			    '-t', '.005', '-O', 'resize=darknet',
			    $eps->[0] ? () : ('-O', 'bn_eps=0'),
			    "$set/images/train2017", "$set/images/val2017");
			is($rc, 0, "coco-cc: $name detected");
			($rc, $out, $err) = run({ stdin => $out }, './yolo-eval', '-q', '-t',
			    "$set/instances_all53_cc.json");
			my %got = map { (split /\t/)[2, 3] } grep { /^coco\t/ } split /\n/, $out;
			for (qw(AP AP50)) {
				ok(near($got{$_}, $exp->{$name}{$_}, $eps->[1]),
				    "coco-cc: $name, epsilon $eps->[0]: $_ to $eps->[1]")
				    or diag("$got{$_}, want $exp->{$name}{$_}");
			}
		}
	}
}

# ---- weights that are broken or odd ----
my $nasty = "$data/weights/nasty";
my @face = ('-c', "$data/weights/yoloface-50k/yoloface-50k.cfg");
my $horses = "$pics/person.jpg";
my $right = (detect(@face, '-w', "$data/weights/yoloface-50k/yoloface-50k.weights", $horses))[1];
for my $f ('header-0.1-16-bytes', 'header-0.2-same-values', 'extra-400-bytes') {
	($rc, $out, $err) = detect(@face, '-w', "$nasty/$f.weights", $horses);
	ok($rc == 0 && $out eq $right, "$f: the same detections") or diag($err);
}
my @n = $err =~ /\b(\d{5})\b/g;
ok(@n >= 2 && (abs($n[0] - $n[1]) == 400 || abs($n[0] - $n[1]) == 100),
    'extra-400-bytes: both counts') or diag($err);
for my $f ('cut-half', 'cut-4-bytes', 'cut-2-bytes', 'empty', 'header-only', 'html', 'lfs-pointer',
    'big-endian') {
	($rc, $out, $err) = detect(@face, '-w', "$nasty/$f.weights", $horses);
	ok($rc == 1 && $out !~ /^[^#]/m && $err =~ /\A[^\n]*\Q$f\E[^\n]*\n\z/,
	    "$f: one line, exit 1")
	    or diag("rc $rc: $err");
}
like((detect(@face, '-w', "$nasty/lfs-pointer.weights", $horses))[2], qr/LFS/, 'LFS named');
for my $f ('one-nan', 'future-version') {
	($rc, $out, $err) = detect(@face, '-w', "$nasty/$f.weights", $horses);
	ok(length $err, "$f: not silent");
}

# ---- pictures that are broken or odd ----
($rc, $out, $err) = detect(@fastest, "$data/images/nasty", "$pics/dog.jpg");
is($rc, 1, 'nasty pictures: exit 1');
like($out, qr/dog\.jpg\t/, 'what comes after them is done');
unlike($err, qr/^(?!yolo-detect: )/m, 'only lines of ours');
done_testing();
