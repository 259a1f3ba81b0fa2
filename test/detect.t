#!/usr/bin/perl
# detect.t -- yolo-detect on a network made by hand: values, order, formats, inputs, faults.
use strict;
use warnings;
use lib 'test';
use Tap qw(:DEFAULT run);
use Time::HiRes qw(time sleep);
require './test/detect.pl';

our ($dir, %cells);
my $net = cfg("$dir/cells.cfg");
my $w = weights("$dir/cells.weights", %cells);
my @m = ('-c', $net, '-w', $w);
my ($red, $yellow) = ([ 255, 0, 0 ], [ 255, 255, 0 ]);
my ($rc, $out, $err, @r);

sub values_of { return join ' ', map { sprintf '%s %.4f %g %g %g %g', @$_[1, 3 .. 7] } @_; }

# ---- values ----
mkdir "$dir/p";
my $a = ppm("$dir/p/a.ppm", 32, 32, [ 8, 16, 8, 8, @$red ], [ 0, 0, 8, 8, @$yellow ]);
($rc, $out, $err) = detect(@m, $a);
is("$rc$err", '0', 'plain run');
like($out, qr/\A#image\tclass\tname\tscore\tx\ty\tw\th\n/, 'header');
@r = rows($out);
is(values_of(@r), '0 1.0000 8 16 8 8 1 0.9999 0 0 8 8', 'boxes, classes, best first');
is($r[0][0], $a, 'name as given');
is($r[0][2], '0', 'without names: numbers');
ok(near($r[0][3], s1(15) * s1(10), 1e-6), 'score = objectness x class');

# Letterbox: 64x32 is halved and set 8 rows down.
my $wide = ppm("$dir/p/wide.ppm", 64, 32, [ 16, 0, 16, 16, @$red ]);
@r = rows((detect(@m, '-O', 'resize=bilinear', $wide))[1]);
is(values_of(@r), '0 1.0000 16 0 16 16', 'letterbox, back in the picture');
@r = rows((detect(@m, '-O', 'stretch=1', '-O', 'resize=bilinear', $wide))[1]);
is(join(' ', map { $_->[4], $_->[6] } @r), '16 16 16 16', 'stretched: two cells high');
# 32x24: 4 rows of border above; red in the picture's first 4 rows is a cell that begins outside.
my $edge = ppm("$dir/p/edge.ppm", 32, 24, [ 8, 0, 8, 4, @$red ]);
@r = rows((detect(@m, $edge))[1]);
is(values_of(@r), '0 0.9867 8 0 8 4', 'clipped to the picture');
@r = rows((detect(@m, '-O', 'clip=0', $edge))[1]);
is(values_of(@r), '0 0.9867 8 -4 8 8', 'clip=0');
@r = rows((detect(@m, '-s', '64x32', $wide))[1]);
is(scalar(@r), 4, '-s: no halving, four cells');
@r = rows((detect(@m, '-t', '.9866', $edge))[1]);
is(scalar(@r), 1, 'score just above');
@r = rows((detect(@m, '-t', '.9868', $edge))[1]);
is(scalar(@r), 0, 'score just below');

# ---- formulas of the heads, from biases ----
sub head_box {
	my ($head, $act, %k) = @_;
	my $c = cfg("$dir/head.cfg", $head, $act);
	my $x = weights("$dir/head.weights", %cells, %k);
	my $p = ppm("$dir/head.ppm", 32, 32, [ 8, 16, 8, 8, @$red ]);
	return (rows((detect('-c', $c, '-w', $x, '-t', '.01', '-O', 'clip=0', $p))[1]))[0];
}
sub centre { return ($_[0][4] + $_[0][6] / 2, $_[0][5] + $_[0][7] / 2, @{ $_[0] }[6, 7]); }
sub same {
	my ($got, $want, $name) = @_;
	my $bad = grep { !near($got->[$_], $want->[$_], 1e-4) } 0 .. $#$want;
	ok(!$bad, $name) or diag("got @$got, want @$want");
}
my %off = (0 => [ 1, 0, 0, 0 ], 1 => [ -.5, 0, 0, 0 ], 2 => [ .3, 0, 0, 0 ], 3 => [ -.7, 0, 0, 0 ]);
same([ centre(head_box(undef, undef, %off)) ],
    [ 8 * (1 + s1(1)), 8 * (2 + s1(-.5)), 8 * exp(.3), 8 * exp(-.7) ], 'yolo');
same([ centre(head_box("[yolo]\nmask=1\nanchors=3,4, 6,9\nclasses=2\nnum=2\nscale_x_y=1.2\n", undef,
    %off)) ], [ 8 * (1 + 1.2 * s1(1) - .1), 8 * (2 + 1.2 * s1(-.5) - .1),
    6 * exp(.3), 9 * exp(-.7) ], 'yolo with scale_x_y, second anchor');
same([ centre(head_box("[yolo]\nmask=0\nanchors=8,8\nclasses=2\nnum=1\nnew_coords=1\nscale_x_y=2\n",
    'logistic', %off)) ], [ 8 * (1 + 2 * s1(1) - .5), 8 * (2 + 2 * s1(-.5) - .5),
    32 * s1(.3)**2, 32 * s1(-.7)**2 ], 'new_coords');
my %soft = (5 => [ 1, 0, 0, 0 ], 6 => [ .2, 0, 0, 0 ]);
my $region = "[region]\nanchors=1,1.5\nclasses=2\nnum=1\nsoftmax=1\n";
my $b = head_box($region, undef, %off, %soft);
same([ centre($b) ], [ 8 * (1 + s1(1)), 8 * (2 + s1(-.5)), 8 * exp(.3), 12 * exp(-.7) ], 'region');
same([ $b->[3] ], [ s1(15) / (1 + exp(-.8)) ], 'region: softmax');
$region =~ s/softmax=1/softmax=0/;
same([ head_box($region, undef, %soft)->[3] ], [ s1(15) * s1(1) ], 'region: logistic');

# ---- suppression ----
my $big = cfg("$dir/big.cfg", "[yolo]\nmask=0\nanchors=16,16\nclasses=2\nnum=1\n");
my $two = ppm("$dir/two.ppm", 32, 32, [ 8, 8, 16, 8, @$red ]);	# neighbours: IoU 1/3
my @big = ('-c', $big, '-w', $w, $two);
is(scalar(rows((detect('-i', '.34', @big))[1])), 2, 'IoU below the threshold');
is(scalar(rows((detect('-i', '.33', @big))[1])), 1, 'IoU above');
is(scalar(rows((detect('-i', '.33', '-k', 'merge', @big))[1])), 1, '-k merge');
is((detect('-k', 'nonsense', @big))[0], 2, 'unknown method: exit 2');
is(scalar(rows((detect('-i', '.34', '-O', 'max_det=1', @big))[1])), 1, 'max_det');
my $both = weights("$dir/both.weights", %cells, 5 => [ 1, 0, 0, 0 ], 6 => [ .5, 0, 0, 0 ]);
is(scalar(rows((detect('-c', $net, '-w', $both, '-k', 'best', $a))[1])), 2, 'best class only');
is(scalar(rows((detect('-c', $net, '-w', $both, $a))[1])), 4, 'greedy: a box may have two classes');
my $nms = cfg("$dir/nms.cfg", "[yolo]\nmask=0\nanchors=16,16\nclasses=2\nnum=1\n" .
    "nms_kind=greedynms\nbeta_nms=0.6\n");
is(scalar(rows((detect('-i', '.3', '-c', $nms, '-w', $w, $two))[1])), 2, "the cfg's nms_kind");
is(scalar(rows((detect('-i', '.3', '-k', 'greedy', '-c', $nms, '-w', $w, $two))[1])), 1,
    '-k over nms_kind');
my @low = ('-i', '.3', '-c', $nms, '-w', $w, $two);
my $merged = (detect('-t', '.001', '-O', 'max_det=300', '-k', 'merge', @low))[1];
is((detect('-O', 'eval=1', @low))[1], $merged, 'eval=1 merges; -i over it');
isnt((detect('-O', 'eval=1', '-k', 'greedy', @low))[1], $merged, 'eval=1: -k over it');
($rc, $out) = detect('-O', 'eval=1', @m, $a);
cmp_ok(scalar(rows($out)), '>=', 2, 'eval=1');

# ---- any batch, any threads: the same bytes ----
my @many;
srand(7);
for my $i (0 .. 19) {
	my ($pw, $ph) = (9 + int rand 90, 9 + int rand 90);
	push @many, ppm(sprintf('%s/p/m%02d.ppm', $dir, $i), $pw, $ph,
	    map { [ int rand($pw - 8), int rand($ph - 8), 8, 8, 128 + int rand 128, int rand 256,
	    0 ] }
	    1 .. 8);
}
my $one = (detect(@m, '-t', '.02', '-b', 1, '-j', 1, @many))[1];
cmp_ok(scalar(rows($one)), '>', 20, 'something to compare');
for my $o ([ 3, 4 ], [ 8, 2 ], [ 20, 1 ], [ 32, 7 ]) {
	is((detect(@m, '-t', '.02', '-b', $o->[0], '-j', $o->[1], @many))[1], $one,
	    "batch $o->[0], $o->[1] threads");
}

# ---- formats ----
my $names = spew("$dir/names", "cell phone\n\"tab\"\n");
($rc, $out) = detect(@m, '-n', $names, $a);
is(join('|', map { $_->[2] } rows($out)), 'cell phone|"tab"', '-n');
is((detect(@m, '-n', spew("$dir/three", "a\nb\nc\n"), $a))[0], 1, 'too many names: exit 1');
my @tsv = rows($out);
my $js = JSON::PP->new->utf8;
my @json = map { $js->decode($_) } split /\n/, (detect(@m, '-n', $names, '-f', 'json', $a))[1];
is(join('|', map { join ' ', @$_{qw(image class name)}, @{ $_->{bbox} } } @json),
    join('|', map { join ' ', @$_[0, 1, 2, 4 .. 7] } @tsv), '-f json: the same values');
is($json[0]{score} . '', $tsv[0][3] + 0 . '', '-f json: score');
my $digits = ppm("$dir/p/img_000042.ppm", 32, 32, [ 8, 16, 8, 8, @$red ]);
my $none = ppm("$dir/p/none.ppm", 32, 32);
my $coco = $js->decode((detect(@m, '-f', 'coco', $digits, $none, $a))[1]);
is(scalar(@$coco), 3, '-f coco: three detections');
is($coco->[0]{image_id}, 42, 'the digits that end the stem');
is($coco->[1]{image_id}, $a, 'no digits: the name');
is(join(' ', $coco->[0]{category_id}, @{ $coco->[0]{bbox} }), '1 8 16 8 8', 'class + 1, box');
is_deeply($js->decode((detect(@m, '-f', 'coco', $none))[1]), [], '-f coco: nothing is []');
my $truth = spew("$dir/truth.json", '{"images":[{"id":7001,"file_name":"x/a.ppm","width":32,' .
    '"height":32},{"id":7002,"file_name":"other/a.ppm","width":32,"height":32},{"id":7003,' .
    '"file_name":"none.jpg","width":32,"height":32}],"annotations":[],"categories":[' .
    '{"id":30,"name":"cell phone"},{"id":90,"name":"x"}]}');
SKIP: {
	mkdir "$dir/x";
	spew("$dir/x/a.ppm", slurp($a));
	($rc, $out, $err) = detect(@m, '-f', 'coco', '-O', "ids=$truth", "$dir/x/a.ppm");
	is(join(' ', map { "$_->{image_id} $_->{category_id}" } @{ $js->decode($out) }),
	    '7001 30 7001 90', 'ids of the truth: longest common path, categories by place');
	($rc, $out, $err) = detect(@m, '-f', 'coco', '-O', "ids=$truth", $a, "$dir/x/a.ppm");
	is($rc, 1, 'a name that two images end with: exit 1');
	like($err, qr/a\.ppm: .*name\n.*1 of 2 pictures failed/, 'and said');
}
sub truth {			# ids of images a and b, categories as [id, name]
	my ($file, $id, @cat) = @_;
	return spew("$dir/$file", $js->encode({ images => [ map { { id => $_, file_name =>
	    "$_-a.ppm", width => 32, height => 32 } } @$id ], annotations => [],
	    categories => [ map { { id => $_->[0], name => $_->[1] } } @cat ] }));
}
sub ids {			# of -f coco for picture 42
	my ($rc, $out, $err) = detect(@m, '-f', 'coco', @_, $digits);
	return $rc ? $err : join ' ', map { "$_->{image_id} $_->{category_id}" }
	    @{ $js->decode($out) };
}
my $pair = spew("$dir/pair", "cell phone\nx\n");
my $by = truth('by.json', [ 42 ], [ 30, 'x' ], [ 90, 'cell phone' ]);
spew("$dir/by.json", slurp($by) =~ s/42-a/img_000042/r);
is(ids('-n', $pair, '-O', "ids=$by"), '42 90', 'categories by name where all names are known');
is(ids('-O', "ids=$by"), '42 30', 'else by place');
spew("$dir/by.json", slurp($by) =~ s/"cell phone"/"y"/r);
is(ids('-n', $pair, '-O', "ids=$by"), '42 30', 'one name unknown: by place');
spew("$dir/by.json", slurp($by) =~ s/"categories":\[/$&\{"id":1,"name":"z"},/r);
like(ids('-n', $pair, '-O', "ids=$by"), qr/class 'cell phone' .* no category id/,
    'a class that the truth has not: an error, no number made up');
SKIP: {
	skip 'no yolo-prep', 2 unless -x './yolo-prep';
	spew("$dir/by.json", slurp($by) =~ s/"y"/"cell phone"/r);
	is((run('./yolo-prep', '-q', '-o', "$dir/ids.shard", "$dir/by.json:$dir/p"))[0], 0, 'pack');
	is(ids('-n', $pair, '-O', "ids=$dir/ids.shard"), '42 90', 'ids of a shard');
}
mkdir "$dir/noids";
system('cp', $digits, "$dir/noids/1.ppm");
spew("$dir/noids/list.txt", "$dir/noids/1.ppm\n");
like(ids('-O', "ids=$dir/noids/list.txt"), qr/none of its 1 pictures has an id/,
    'a truth without ids');
($rc) = detect(@m, '-f', 'yolo', '-o', "$dir/txt", $a, $none, $wide);
is($rc, 0, '-f yolo');
my @yolo = split /[ \n]/, slurp("$dir/txt/a.txt");
is(join(' ', @yolo[0 .. 4]), '0 0.375 0.625 0.25 0.25', 'relative box');
is($yolo[5], $tsv[0][3], 'score at the end');
is(slurp("$dir/txt/none.txt"), '', 'nothing found: an empty file');
is((detect(@m, '-f', 'yolo', $a))[0], 2, '-f yolo without a folder: exit 2');
spew("$dir/x/wide.ppm", slurp($wide));
($rc, $out, $err) = detect(@m, '-f', 'yolo', '-o', "$dir/txt", $wide, "$dir/x/wide.ppm", $a);
is($rc, 1, 'two pictures, one file: exit 1');
like($err, qr/x\/wide\.ppm: .*another picture/, 'named');
is((detect(@m, '-o', "$dir/out.tsv", $a))[1], '', '-o: nothing on stdout');
is(slurp("$dir/out.tsv"), (detect(@m, $a))[1], '-o: the same');
is((detect(@m, '-o', "$dir/no/such/out.tsv", $a))[0], 1, '-o: cannot be written');
($rc, $out) = detect(@m, '-x', "$dir/drawn", $a);
is($rc, 0, '-x');
like(slurp("$dir/drawn/a.png"), qr/\A\x89PNG/, '-x: a PNG');
is($out, (detect(@m, $a))[1], '-x: the same detections');
mkdir "$dir/own";
my $still = spew("$dir/own/a.png", slurp("$dir/drawn/a.png"));
spew("$dir/own/a.txt", "0 .5 .5 .1 .1\n");
($rc, $out, $err) = detect(@m, '-x', "$dir/own", $still);
is($rc, 1, "-x into the pictures' folder: exit 1");
like($err, qr/a\.png is the picture itself/, 'said');
is(slurp($still), slurp("$dir/drawn/a.png"), 'and the picture is as it was');
symlink 'own', "$dir/link";
is((detect(@m, '-x', "$dir/link", $still))[0], 1, 'also by another name');
is(slurp($still), slurp("$dir/drawn/a.png"), 'as it was');
($rc, $out, $err) = detect(@m, '-f', 'yolo', '-o', "$dir/own", $still);
is("$rc " . slurp("$dir/own/a.txt"), "1 0 .5 .5 .1 .1\n", "-f yolo: the picture's label stays");
unlink "$dir/own/a.txt";
is((detect(@m, '-f', 'yolo', '-o', "$dir/own", $still))[0], 0,
    'without a label there it is written');

# ---- names ----
my $odd = ppm("$dir/p/t\tn\nb\\q\" .ppm", 32, 32, [ 8, 16, 8, 8, @$red ]);
@r = rows((detect(@m, $odd))[1]);
is($r[0][0], "$dir/p/t\\tn\\nb\\\\q\" .ppm", 'tab, newline, backslash, blank in a name');
is($js->decode((detect(@m, '-f', 'json', $odd))[1])->{image}, $odd, 'and in JSON');
is(scalar(split /\n/, (detect(@m, "$dir/not\nthere.ppm"))[2]), 1, 'a message stays one line');
my $latin = ppm("$dir/p/caf\xe9.ppm", 32, 32, [ 8, 16, 8, 8, @$red ]);
($rc, $out, $err) = detect(@m, '-f', 'json', $latin);
ok(eval { $js->decode($out) }, 'a name that is no UTF-8: JSON stays JSON');
like($err, qr/UTF-8/, 'and it is said');
unlink $odd, $latin;

# ---- inputs ----
my $want = (detect(@m, $a, $wide))[1];
is((detect({ stdin => "$a\n$wide\n" }, @m, '-'))[1], $want, 'list on stdin');
is((detect({ stdin => "$a\n$wide\n" }, @m))[1], $want, 'no operand: stdin');
is((detect({ stdin => "\n$a\r\n\n$wide" }, @m))[1], $want, 'blank lines, CR, no last newline');
is((detect({ stdin => '' }, @m))[0], 0, 'an empty list on stdin is no failure');
for my $bytes (slurp("$dir/drawn/a.png"), "\xff\xd8\xff\xe0\0\x10JFIF\n\n\n",
    "\x89YSH\r\n\x1a\n" . "\1\n" x 99) {
	($rc, $out, $err) = detect({ stdin => $bytes }, @m);
	is(($err =~ tr/\n//) . " $rc", '1 1', 'the bytes of a picture or shard on stdin: one line');
	like($err, qr/stdin: .*want a list of names/, 'that says what is wanted');
}
like((detect({ stdin => "BM.ppm\n" }, @m))[2], qr/: BM\.ppm: No such/, 'a name may look like one');
like((detect({ stdin => "\33[31mred\a\n" }, @m))[2], qr/\?\[31mred\?: No such/,
    'what a terminal would obey is not printed');
my $list = spew("$dir/p/list.txt", "a.ppm\nwide.ppm\n");
@r = rows((detect(@m, $list))[1]);
is(join(' ', map { $_->[0] } @r), 'a.ppm a.ppm wide.ppm', "names from the list's folder, as given");
spew("$dir/p/list-of-blank", "$dir/with blank.ppm \n");
ppm("$dir/with blank.ppm", 32, 32, [ 8, 16, 8, 8, @$red ]);
@r = rows((detect(@m, "$dir/p/list-of-blank"))[1]);
is($r[0][0], "$dir/with blank.ppm", 'blanks inside a name stay, at the end go');
mkdir "$dir/f"; mkdir "$dir/f/b"; mkdir "$dir/f/.hidden";
spew("$dir/f/$_", slurp($a)) for 'z.ppm', 'b/1.PPM', 'a.ppm', '.hidden/h.ppm', '._a.ppm';
spew("$dir/f/a.txt", "0 .5 .5 1 1\n");
symlink '..', "$dir/f/b/up";
@r = rows((detect(@m, "$dir/f"))[1]);
is(join(' ', map { substr $_->[0], length "$dir/f/" } @r),
    'a.ppm a.ppm b/1.PPM b/1.PPM z.ppm z.ppm',
    'folder: below, sorted, hidden ones and a link in a circle left out');
SKIP: {
	skip 'no yolo-prep', 3 unless -x './yolo-prep';
	unlink "$dir/f/b/up";
	is((run('./yolo-prep', '-q', '-n', $names, '-o', "$dir/f.shard", "$dir/f"))[0], 0, 'pack');
	my @s = rows((detect(@m, "$dir/f.shard"))[1]);
	is(values_of(@s), values_of(@r), 'shard: the same boxes');
	is($s[0][2], 'cell phone', "the shard's class names");
}

# ---- faults ----
my $empty = spew("$dir/empty.jpg", '');
my $cut = spew("$dir/cut.ppm", substr(slurp($a), 0, 1000));
my $text = spew("$dir/text.png", "no picture\n");
($rc, $out, $err) = detect(@m, $empty, $a, $cut, "$dir/gone.jpg", $text, $wide);
is($rc, 1, 'broken pictures: exit 1');
is($out, $want, 'the others are done');
is(scalar(grep { /^yolo-detect: \Q$dir\E\/(empty\.jpg|cut\.ppm|gone\.jpg|text\.png): ./ }
    split /\n/, $err), 4, 'a line each');
like($err, qr/4 of 6 pictures failed/, 'and counted');
mkdir "$dir/nothing";
($rc, $out, $err) = detect(@m, "$dir/nothing", $a);
is($rc, 1, 'a folder without pictures');
like($err, qr/nothing: no pictures/, 'said');
is((detect(@m, spew("$dir/x.shard", "\x00\x01 no shard" x 9)))[0], 1, 'a shard that is none');
for my $o ([ '-t', 2 ], [ '-b', 0 ], [ '-j', 'x' ], [ '-s', '0x' ], [ '-f', 'xml' ], [ '-Z' ],
    [ '-O', 'clip=2' ], [ '-O', 'nosuch=1' ], [ '-p', 'fp8' ]) {
	is((detect(@m, @$o, $a))[0], 2, "@$o: exit 2");
}
is((detect('-c', $net, $a))[0], 2, 'no weights: exit 2');
($rc, $out, $err) = detect('-w', $w, $a);
is($rc, 1, 'weights without a cfg');
like($err, qr/-c/, 'says what is missing');
like((detect('-w', "$dir/no.weights", $a))[2], qr/no\.weights: No such file/, 'no weights file');
for my $o ('-h', '-V', '-Ohelp') {
	($rc, $out) = run('./yolo-detect', $o);
	ok($rc == 0 && length $out, $o);
}
my $nan = weights("$dir/nan.weights", %cells, 4 => [ 'nan', 40, 0, 0 ]);
($rc, $out, $err) = detect('-c', $net, '-w', $nan, $a);
is($rc, 1, 'NaN in the weights');
like($err, qr/nan/i, 'named');
is((detect('-c', cfg("$dir/nohead.cfg", "\n"), '-w', $w, $a))[0], 1, 'a net without a head');

# ---- checkpoints ----
my %other = (%cells, 4 => [ -30, 0, 0, 0 ]);
my $st = safetensors("$dir/x.safetensors", { cfg => slurp($net), loss => 'ciou' }, '' => \%cells);
@r = rows((detect('-w', $st, $a))[1]);
is(values_of(@r), '0 1.0000 8 16 8 8 1 0.9999 0 0 8 8', 'a checkpoint brings its cfg');
$st = safetensors("$dir/ema.safetensors", { cfg => slurp($net), loss => 'ciou' }, '' => \%other,
    'ema.' => \%cells);
is(scalar(rows((detect('-w', $st, $a))[1])), 2, 'averaged weights are used');
my $bn = slurp($net) =~ s/filters=7/batch_normalize=1\nfilters=7/r;
my @eps = ('-t', '.01', '-O', 'bn_eps=3', '-w');	# halves what comes from the picture
$st = safetensors("$dir/bn.safetensors", { cfg => $bn, loss => 'ciou' }, '' => \%cells);
$want = (detect(@eps, $st, $a))[1];
isnt($want, (detect('-t', '.01', '-w', $st, $a))[1], 'bn_eps');
$st = safetensors("$dir/bnema.safetensors", { cfg => $bn, loss => 'ciou' }, '' => \%cells,
    'ema.' => \%cells);
is((detect(@eps, $st, $a))[1], $want, 'bn_eps, averaged weights');
$st = safetensors("$dir/soft.safetensors", { cfg => slurp($net), loss => 'ultralytics-2019' },
    '' => { %cells, %soft });
@r = rows((detect('-w', $st, '-t', '.3', $a))[1]);
ok(near($r[0][3], s1(15) / (1 + exp(-.8)), 1e-6), 'its loss says softmax');
@r = rows((detect('-w', $st, '-t', '.3', '-O', 'softmax=0', $a))[1]);
ok(near($r[0][3], s1(15) * s1(1), 1e-6), 'softmax=0 over it');


# -c beside a checkpoint: another size, another suppression, but the layers it was trained with.
my $own = "[yolo]\nmask=0\nanchors=8,8\nclasses=2\nnum=1\n";
$st = safetensors("$dir/own.safetensors", { cfg => slurp(cfg("$dir/own.cfg", $own)),
    loss => 'ciou' }, '' => \%cells);
for my $x ([ 'anchors', $own =~ s/8,8/9,8/r ], [ 'new_coords', "${own}new_coords=1\n" ],
    [ 'scale_x_y', "${own}scale_x_y=2\n" ],
    [ 'num', $own =~ s/8,8\n(.*)num=1/8,8, 9,9\n$1num=2/sr ],
    [ 'activation', $own, 'logistic' ], [ 'type', $own . "[upsample]\n" ]) {
	my ($key, $head, $act) = @$x;
	($rc, $out, $err) = detect('-c', cfg("$dir/bad.cfg", $head, $act), '-w', $st, $a);
	is($rc . $out, '1', "-c with another $key than the checkpoint's: exit 1");
	like($err, qr/bad\.cfg:\d+: layer \d+ was trained with another $key, says/, 'named');
}
for my $x ("${own}nms_kind=greedynms\nbeta_nms=0.6\n", "${own}jitter=.1\nignore_thresh=.9\n") {
	($rc, $out) = detect('-c', cfg("$dir/good.cfg", $x), '-w', $st, $a);
	is("$rc " . scalar(rows($out)), '0 2', '-c may change what training and suppression read');
}
is((detect('-c', cfg("$dir/good.cfg", $own, 'linear', 64), '-w', $st, $a))[0], 0, 'and the size');

# ---- a pipe that goes on ----
sub with_pipe {
	my ($talk, @opt) = @_;
	pipe(my $in_r, my $in_w) or die;
	pipe(my $out_r, my $out_w) or die;
	my $pid = fork();
	if (!$pid) {
		open(STDIN, '<&', $in_r);
		open(STDOUT, '>&', $out_w);
		close $_ for $in_r, $in_w, $out_r, $out_w;
		exec './yolo-detect', '-q', @m, @opt, '-' or exit 127;
	}
	close $in_r;
	close $out_w;
	$in_w->autoflush(1);
	local $SIG{ALRM} = sub { kill 'KILL', $pid; };
	alarm 60;
	$talk->($pid, $in_w, $out_r);
	close $in_w;
	waitpid($pid, 0);
	alarm 0;
	return $?;
}
use IO::Handle;
my @heard;
my $status = with_pipe(sub {
	my ($pid, $to, $from) = @_;
	for (1 .. 3) {
		print $to "$digits\n";
		push @heard, scalar <$from>;
		push @heard, scalar <$from> if $_ == 1;		# after the header
	}
});
is($status, 0, 'names one by one');
is(scalar(grep { defined && /img_000042/ } @heard), 3, 'each answered before the next is sent');
$status = with_pipe(sub {
	my ($pid, $to, $from) = @_;
	print $to "$digits\n";
	for (1 .. 500) {		# until it looks for the signal
		last if slurp("/proc/$pid/status") =~ /^SigBlk:.*[4-7c-f][0-9a-f]{3}$/m;
		sleep .05;
	}
	sleep .3;
	kill 'TERM', $pid;
	waitpid($pid, 0);
	push @heard, $? >> 8;
}, '-o', "$dir/stopped.tsv");
is($heard[-1], 143, 'SIGTERM while waiting: exit 143');
is(join(' ', glob("$dir/stopped.tsv*")), '', 'and no half file');
done_testing();
