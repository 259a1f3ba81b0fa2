#!/usr/bin/perl
# Cases by hand: darknet's summary, classes without truth, what is undefined, names that are odd,
# files that are none.
use strict;
use warnings;
use lib 'test';
use Tap qw(:DEFAULT shell);

sub run { return shell('./yolo-eval', @_) }
sub got { my ($out, $rc, $err) = run('-q', @_); diag($err) if $rc; my %m;
    $m{"$1 $2"} = $3 while $out =~ /^(\S+)\t-\t(\S+)\t(\S+)$/mg; \%m }
sub near { my ($m, $key, $want, $what) = @_;
    ok(defined $m->{$key} && abs($m->{$key} - $want) < 1e-12, $what) or
    diag("$key: " . ($m->{$key} // 'none') . ", want $want") }
sub fails { my ($what, $re, @args) = @_; my ($out, $rc, $err) = run('-q', @args);
    ok($rc == 1 && $err =~ $re && $out eq '' &&
    $err =~ /^[^\n]*\n\z/, $what) or diag("$rc: $err$out") }
sub truth { my ($f, $pics, $classes, @ann) = @_; my $id = 0;
    spew($f, '{"images":[', join(',', @$pics), '],"categories":[',
    join(',', @$classes), '],"annotations":[', join(',', map { my ($i, $c, $b, $more) = @$_; $id++;
    "{\"id\":$id,\"image_id\":$i,\"category_id\":$c,\"bbox\":[$b]" . ($more // '') . '}' } @ann),
    ']}') }
sub dets { my ($f, @d) = @_;
    spew($f, '[',
    join(",\n", map { "{\"image_id\":$_->[0],\"category_id\":$_->[1],\"bbox\":[$_->[2]]," .
    "\"score\":$_->[3]}" } @d), ']') }
my @one = ('{"id":1,"file_name":"a.jpg","width":1000,"height":1000}');
my @ab = ('{"id":1,"name":"a"}', '{"id":2,"name":"b"}', '{"id":3,"name":"c"}');
my $area = ',"area":10000,"iscrowd":0';

# Three truths.  Over 0.25: IoU 0.8 with the first, IoU 0.6 with the first again, one on nothing.
my $gt = truth('gt.json', \@one, [$ab[0]], [1, 1, '0,0,100,100', $area], [1, 1, '200,0,100,100',
    $area],
    [1, 1, '400,0,100,100', $area]);
my $dt = dets('dt.json', [1, 1, '0,0,100,80', 0.9], [1, 1, '0,0,60,100', 0.8],
    [1, 1, '700,700,50,50', 0.3],
    [1, 1, '200,0,100,100', 0.2]);
my $m = got('-m', 'darknet', '-t', $gt, $dt);
near($m, 'darknet TP', 1, 'darknet: TP'), near($m, 'darknet FP', 2, 'FP'), near($m, 'darknet FN',
    2, 'FN');
near($m, 'darknet P', 1 / 3, 'P'), near($m, 'darknet R', 1 / 3, 'R'), near($m, 'darknet F1',
    1 / 3, 'F1');
near($m, 'darknet IoU', 0.8 / 3, 'average IoU: of the right ones, by all');
$m = got('-m', 'darknet', '-O', 'thresh=0.1', '-t', $gt, $dt);
near($m, 'darknet TP', 2, '-O thresh: TP'), near($m, 'darknet IoU', 1.8 / 4, 'its average IoU');
near(got('-m', 'darknet', '-O', 'thresh=0.2', '-t', $gt, $dt), 'darknet TP', 1,
    'over the score, not at it');

# Class b is perfect, class c has false positives alone, class a nothing at all.
$gt = truth('abc.json', \@one, \@ab, [1, 2, '0,0,100,100', $area]);
$dt = dets('c.json', [1, 2, '0,0,100,100', 0.9], [1, 3, '0,0,100,100', 0.8]);
my @all = ('-m', 'coco,voc07,voc10,darknet,ultralytics,ultralytics-2019');
$m = got(@all, '-t', $gt, $dt);
my $z = got(@all, '-O', 'absent=zero', '-t', $gt, $dt);
near($m, 'coco AP', 1, 'a class without truth: out of the mean'), near($z, 'coco AP', .5,
    '-O absent=zero: in it');
near($z, "$_ mAP", $m->{"$_ mAP"} / 2, "$_ too") for qw(voc07 voc10 ultralytics ultralytics-2019);
near($_, 'darknet mAP', 1 / 3, 'darknet counts all classes either way') for $m, $z;
near($z, 'coco AR100', 1, 'recall stays out of it');
my (undef, undef, $err) = run('-t', $gt, $dt);
like($err,
    qr/^yolo-eval: 1 classes have detections \(1\) and no truth, means leave them out: c$/m,
    'their number is told');

# defined: nothing, one picture, crowds alone, equal scores
my %want = ('no truth' => [truth('t0.json', \@one, \@ab), dets('d1.json', [1, 1, '0,0,9,9', .5]),
    -1],
    'no truth, no detection' => ["$tmp/t0.json", dets('d0.json'), -1],
    'no detection' => [$gt, "$tmp/d0.json", 0],
    'crowds alone' => [truth('crowd.json', \@one, [$ab[0]], [1, 1, '0,0,100,100',
    ',"area":10000,"iscrowd":1']),
	dets('dc.json', [1, 1, '0,0,50,50', .9], [1, 1, '500,500,50,50', .8]), -1]);
for my $case (sort keys %want) {
	my ($t, $d, $v) = @{ $want{$case} };
	$m = got(@all, '-t', $t, $d);
	# darknet: all classes count
	for my $rule (qw(coco voc07 voc10 darknet ultralytics ultralytics-2019)) {
		is($m->{"$rule " . ($rule eq 'coco' ? 'AP' : 'mAP')}, $rule eq 'darknet' ? 0 : $v,
		    "$case: $rule");
	}
}
# equal scores: order of the ids, then of the file.  Picture 1's wrong one comes first: 1/2 and 2/3.
my @two = ('{"id":2,"file_name":"b.jpg"}', '{"id":1,"file_name":"a.jpg"}');
$gt = truth('tie.json', \@two, [$ab[0]], [1, 1, '0,0,100,100', $area], [2, 1, '0,0,100,100',
    $area]);
$dt = dets('tied.json', [2, 1, '0,0,100,100', .5], [1, 1, '500,500,9,9', .5],
    [1, 1, '0,0,100,100', .5]);
$m = got('-m', 'voc10', '-O', 'pixel=0', '-t', $gt, $dt);
near($m, 'voc10 mAP', 2 / 3, 'scores equal everywhere: by id of the picture, then as in the file');
my $one = got('-t', truth('p1.json', \@one, [$ab[0]], [1, 1, '0,0,100,100', $area]),
    dets('q1.json', [1, 1, '0,0,100,100', 1]));
near($one, 'coco AP', 1, 'one picture, one truth, one detection');
near($one, 'coco thr', 1, 'and its score is the threshold');

# names
my @odd = ("{\"id\":1,\"file_name\":\"x/a.jpg\"}", "{\"id\":2,\"file_name\":\"y/a.jpg\"}",
    "{\"id\":3,\"file_name\":\"tab\\there.jpg\"}");
my $odd = truth('odd.json', \@odd, [$ab[0]], map { [$_, 1, '0,0,100,100', $area] } 1 .. 3);
my $head = "#image\tclass\tname\tscore\tx\ty\tw\th\n";
my $row = "\t0\ta\t0.5\t0\t0\t100\t100\n";
near(got('-t', $odd, spew('odd.tsv', $head, map { "$_$row" } '/data/x/a.jpg', 'y/a.jpg',
    'tab\\there.jpg')), 'coco AP', 1,
    'path suffixes; a tab in a name');
near(got('-t', $odd, spew('bom.tsv', "\xef\xbb\xbf$head",
    map { "$_$row" =~ s/\n/\r\n/r } 'x/a.jpg', 'y/a.jpg', 'tab\\there.jpg')),
    'coco AP', 1, 'a byte-order mark, CR LF');
near(got('-t', spew('bomt.json', "\xef\xbb\xbf", slurp($odd)), "$tmp/odd.tsv"), 'coco AP', 1,
    'in a truth too');
near(got('-t', $odd, spew('utf.tsv', $head, map { "$_$row" } 'x/a.jpg', 'y/a.jpg',
    'tab\\there.jpg')), 'coco AP', 1, 'names');
near(got('-t', truth('umlaut.json', ["{\"id\":1,\"file_name\":\"\xc3\xa4.jpg\"}"], [$ab[0]],
    [1, 1, '0,0,100,100', $area]),
    spew('umlaut.tsv', "\xc3\xa4.jpg$row")), 'coco AP', 1, 'a first byte over 127');
fails('a name of two pictures', qr/1 detections of 1 pictures .*more than one picture.*: a\.jpg/,
    '-t', $odd, spew('two.tsv', "a.jpg$row"));
fails('names of nothing: the first five',
    qr/14 detections of 7 pictures .*: n1, n2, n3, n4, n5, \.\.\./, '-t', $odd,
    spew('seven.tsv', map { "n$_$row" } 1 .. 7, 1 .. 7));
fails('control characters stay out of messages', qr/not in the truth: a\?\?b/, '-t', $odd,
    spew('ctl.json',
    '{"image":"a\\u001b\\u0007b","class":0,"score":0.5,"bbox":[0,0,9,9]}'));

my $word = truth('word.json', [map { "{\"id\":$_}" } '"abc"', '"d-1"', '"12"'], [$ab[0]],
    map { [$_, 1, '0,0,9,9', $area] } '"abc"', '"d-1"', 12);
near(got('-t', $word, dets('word_dt.json', map { [$_, 1, '0,0,9,9', .7] } '"abc"', '"d-1"', 12)),
    'coco AP', 1, 'ids that are words');
got('-O', "worst=$tmp/worst.tsv", '-t', $word, "$tmp/d0.json");
like(slurp("$tmp/worst.tsv"), qr/^-\tabc\t1\t.*^-\t12\t1\t/ms, 'and are named so');

# files that are none
fails('gzip', qr/gz\.json:1: .*gzip: want zcat/, '-t', $odd, spew('gz.json', "\x1f\x8b\x08\0\0\0"));
fails('gzip as truth', qr/gz\.json.*gzip: want zcat/, '-t', "$tmp/gz.json", "$tmp/odd.tsv");
fails('UTF-16', qr/UTF-16: want UTF-8/, '-t', $odd, spew('utf16', "\xff\xfe[\0]\0"));
fails('bytes', qr/neither JSON nor text/, '-t', $odd, spew('bytes', join '',
    map { chr($_ * 37 % 256) } 1 .. 500));
fails('NULs', qr/NUL byte/, '-t', $odd, spew('nul', "\0" x 100));
fails('a program', qr/neither JSON nor text/, '-t', $odd, './yolo-eval');
fails('a program as truth', qr/binary data, want text/,
    '-t', './yolo-eval', "$tmp/odd.tsv");
mkdir "$tmp/empty";
fails('an empty folder', qr/empty: a folder without \.txt files/, '-t', $odd, "$tmp/empty");
fails('an empty folder as truth', qr/empty/, '-t', "$tmp/empty", "$tmp/odd.tsv");
fails('an empty file as truth', qr/no pictures in this list/,
    '-t', spew('zero', ''), "$tmp/odd.tsv");
is((run('-q', '-t', "$tmp/odd.tsv", "$tmp/odd.tsv"))[1], 1, 'detections as truth');
for my $as ("#image\tclass\tname\tscore\tx\ty\tw\th\n", "[\n{\"image_id\":1}]\n", '[]') {
	fails('detections that can be told from a truth', qr/as\.x:1: detections, where -t wants/,
	    '-t', spew('as.x', $as), $odd);
}
fails('stdin twice', qr/standard input is wanted 2 times/, '-t', $odd, '-D', '-', '-',
    "<$tmp/odd.tsv");
near(got('-t', '-', "$tmp/odd.tsv", "<$odd"), 'coco AP', 1, 'truth on stdin');
fails('a truth on stdin of another kind', qr/truth on standard input: want a COCO json/, '-t',
    '-', "$tmp/odd.tsv", '<' . spew('list', "a.jpg\n"));

# numbers that are none, or mean nothing
my @d = ('"image_id":1,"category_id":1,"bbox":[0,0,9,9]', '"score":0.5');
my $good = "{$d[0],$d[1]},\n" x 5;
fails("after five like it, a score of $_", qr/bad\.json:6: /, '-t', $odd,
    spew('bad.json', "[$good\{$d[0],\"score\":$_}]"))
    for qw(NaN -Infinity 1e999 "0.5" null +0.5 .);
fails("after five like it, an id of $_->[0]", $_->[1], '-t', $odd, spew('bad.json',
    "[$good\{\"image_id\":$_->[0],\"category_id\":1,\"bbox\":[0,0,9,9],$d[1]}]")) for ['1.5',
    qr/bad\.json:6: an id is not a whole/],
    ['1e17', qr/bad\.json:6: an id above 9e15/],
    ['77', qr/pictures that are not in the truth: 77/];
fails('a class out of range', qr/class 4294967296 of the detections/, '-t', $odd, spew('huge.json',
    '{"image":"x/a.jpg","class":4294967296,"score":0.5,"bbox":[0,0,9,9]}'));
fails('a negative class', qr/class -1 of the detections/, '-t', $odd, spew('neg.json',
    '{"image":"x/a.jpg","class":-1,"score":0.5,"bbox":[0,0,9,9]}'));
fails("fields of $_", qr/bad\.tsv:2: /, '-t', $odd, spew('bad.tsv', $head,
    "x/a.jpg\t0\ta\t$_\t0\t0\t1\t1\n")) for 'nan', 'inf', '1e999',
    '', ' .5', '0x1', '1,5';
done_testing();
