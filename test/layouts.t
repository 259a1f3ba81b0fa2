#!/usr/bin/perl
# layouts.t -- what people have and how it was misread: each layout is read by its own sign, or is
# refused by name; nothing passes in silence.
#
# A row: the kind of the fault (misread M, overlooked O, two tools or kinds that differ T, wrong
# part P, unfriendly F), what it is, the command, its status, what stands in what it says, and the
# boxes that the shard then has as "class x y w h" rounded to pixels.
use strict;
use warnings;
use Cwd 'getcwd';
use File::Temp 'tempdir';
use File::Path 'make_path';
use File::Basename 'dirname';

my $top = getcwd;
my $bugs = "$top/../shared/data/bugs";
my $t = tempdir(CLEANUP => 1);
my ($n, $bad) = (0, 0);

sub ok {
	my ($good, $what, $said) = @_;
	print $good ? '' : 'not ', 'ok ', ++$n, " - $what\n";
	$bad += !$good;
	print map { "# $_\n" } split /\n/, $said if !$good;
}

sub file {			# file(NAME, TEXT), folders made
	my ($name, $text) = @_;
	make_path(dirname("$t/$name"));
	open my $f, '>', "$t/$name" or die "$name: $!";
	print $f $text;
	close $f;
}
my $shade = 0;
sub picture {			# of 96 x 64, each one different
	file($_, "P6 96 64 255\n" . chr(++$shade) x (96 * 64 * 3)) for @_;
}

# ---- inputs of our own

my $box = '0.364583 0.3125 0.3125 0.3125';		# 20 10 30 20
my $size = '<size><width>96</width><height>64</height><depth>3</depth></size>';
sub voc {
	my ($name, @box) = @_;
	return "<annotation><filename>$name</filename>$size" . join('', map { my @v = split;
	    "<object><name>$v[0]</name><bndbox><xmin>$v[1]</xmin><ymin>$v[2]</ymin><xmax>$v[3]" .
	    "</xmax><ymax>$v[4]</ymax></bndbox></object>" } @box) . '</annotation>';
}
sub coco {			# coco(FILE NAME, CATEGORY IDS, ANNOTATIONS...) of one picture
	my ($name, $ids, @ann) = @_;
	my $k = 0;
	return '{"images": [{"id": 1, "width": 96, "height": 64, "file_name": "' . $name . '"}], ' .
	    '"categories": [' . join(', ', map { "{\"id\": $_, \"name\": \"k$_\"}" } @$ids) .
	    '], "annotations": [' .
	    join(', ', map { $k++; "{\"id\": $k, \"image_id\": 1, $_}" } @ann) . ']}';
}
my $bbox = '"category_id": 1, "bbox": [20, 10, 30, 20]';
my $rle = '"size": [64, 96], "counts"';
my $runs = join ', ', 20 * 64 + 10, (20, 44) x 29, 20, 46 * 64 + 34;

sub inputs {
	picture('pose3/a.ppm', 'pose2/a.ppm', 'poly/a.ppm', 'obb/a.ppm', 'kpt/images/a.ppm');
	file('pose3/a.txt', "0 $box .3 .25 2 .4 .3 1 0 0 0\n");
	file('pose2/a.txt', "0 $box .25 .2 .48 .42\n0 .5 .5 .2 .2 .42 .42 .58 .55\n");
	file('poly/a.txt', "0 .2 .15 .5 .15 .5 .45 .2 .45 .2 .3\n0 .5 .5 .6 .5 .6 .6\n");
	file('obb/a.txt', "0 .5 .25 .75 .5 .5 .75 .25 .5\n");
	file('kpt/images/a.txt', "0 $box .9 .9 .1 .1\n");
	file('kpt/data.yaml', "train: images\nkpt_shape: [2, 2]\nnames: [man]\n");
	picture('c/a.ppm');
	file('c/rle.json', coco('a.ppm', [1], "\"category_id\": 1, \"segmentation\": {$rle: " .
	    "[$runs]}"));
	file('c/both.json', coco('a.ppm', [1], "$bbox, \"segmentation\": {$rle: [0, 6144]}"));
	file('c/text.json', coco('a.ppm', [1], "\"category_id\": 1, \"segmentation\": {$rle: " .
	    '"PPX6"}'));
	file('c/short.json', coco('a.ppm', [1], "\"category_id\": 1, \"segmentation\": {$rle: " .
	    '[5, 5]}'));
	file('c/flat.json', coco('a.ppm', [1], '"category_id": 1, "segmentation": ' .
	    '[20, 10, 50, 10, 50, 30]'));
	file('c/unit.json', coco('a.ppm', [1], '"category_id": 1, "bbox": [0.2, 0.2, 0.3, 1]'));
	file('c/out.json', coco('a.ppm', [1], '"category_id": 1, "bbox": [200, 100, 30, 20]'));
	file('c/zero.json', coco('a.ppm', [1, 2], '"category_id": 0, "bbox": [2, 3, 4, 5]', $bbox));
	file('c/none.json', coco('a.ppm', [1], '"category_id": 7, "bbox": [2, 3, 4, 5]'));
	file('c/twice.json', coco('a.ppm', [1], $bbox, $bbox));
	picture('key/labels/../images/a.ppm', 'key2/a.ppm', 'cvat/obj_train_data/a.ppm');
	file('key/labels/a.txt', "1 $box\n");
	file('key/classes.txt', "dog\ncat\n");
	file('key2/a.txt', "0 $box\n");
	file('key2/_darknet.labels', "owl\nemu\n");
	file('cvat/obj_train_data/a.txt', "1 $box\n");
	file('cvat/obj.names', "bus\nvan\n");
	file('my.names', "cat\ndog\n");
	picture('vx/images/a.ppm', 'vx/images/b.ppm', 'js/img/a.ppm', 'via/a.ppm', 'csv/a.ppm',
	    'keras/a.ppm', 'dets/a.ppm', 'empty/a.ppm', 'vocs/JPEGImages/a.ppm');
	file('vx/labels/a.xml', voc('a.ppm', 'cat 20 10 50 30'));
	file('js/annotations/x.json', coco('a.ppm', [1], $bbox));
	file('via/via.json', '{"a.ppm123": {"filename": "a.ppm", "regions": []}}');
	file('csv/boxes.csv', "filename,width,height,class,xmin,ymin,xmax,ymax\n" .
	    "a.ppm,9,9,c,1,1,2,2\n");
	file('keras/_annotations.txt', "a.ppm 20,10,50,30,0\n");
	file('dets/out.tsv', "#image\tclass\tname\tscore\tx\ty\tw\th\n" .
	    "a.ppm\t0\tc\t.9\t1\t1\t9\t9\n");
	file('empty/a.txt', '');
	file('empty/a.xml', voc('a.ppm', 'cat 20 10 50 30'));
	file('vocs/Annotations/a.xml', voc('C:\set\a.ppm', ('cat 20 10 50 30') x 2));
	file('vocs/pics.txt', "JPEGImages/a.ppm\n");
	file('vocs/ImageSets/Main/train.txt', "a.ppm\n");
	for my $p (qw(train val)) {
		picture("two/images/$p/$p.ppm", "rf/$p/$p.ppm", "cc/${p}2017/$p.ppm",
		    "voc2/JPEGImages/$p.ppm", "y/$p/$p.ppm");
		file("two/labels/$p/$p.txt", $p eq 'train' ? "0 $box\n" : "1 $box\n");
		file("rf/$p/_annotations.coco.json", coco("$p.ppm", [1], $bbox));
		file("cc/annotations/instances_${p}2017.json", coco("$p.ppm", [1], $bbox));
		file("cc/annotations/captions_${p}2017.json", '{"images": [], "annotations": []}');
		file("voc2/Annotations/$p.xml", voc("$p.ppm", 'cat 20 10 50 30'));
		file("voc2/ImageSets/Main/$p.txt", "$p\n");
		file("y/$p/$p.txt", "0 $box\n");
	}
	file('y/w.yaml', "train: ..\\train\nval: ../val\nnc: 3\nnames: [a, b]\n");
	file('y/drive.yaml', "path: C:\\old\\y\ntrain: train\nval: val\nnames: [a, b]\n");
	file('y/list.txt', "D:\\old\\train\\train.ppm\n");
	file('y/w.json', coco('D:\\\\old\\\\train\\\\train.ppm', [1], $bbox));
	file('p3.ppm', "P3 1 1 255 1 2 3\n");
	file('p1', "P1\n# a comment\n1 1\n0\n");
	file('p4.pbm', "P4 8 1\n\x55");
}

# ---- the table

my @row = (
	['M', 'keypoints of x y v', 'pose3', 0, 'keypoints of x y v', '0 20 10 30 20'],
	['M', 'keypoints of x y', 'pose2', 0, '2 keypoints', '0 20 10 30 20, 0 38 26 19 13'],
	['M', 'polygons', 'poly', 0, '2 boxes', '0 19 10 29 19, 0 48 32 10 6'],
	['M', 'a turned box', 'obb', 0, ' 0 notes', '0 24 16 48 32'],
	['M', 'kpt_shape', 'kpt/data.yaml', 0, ' 0 notes', '0 20 10 30 20'],
	['M', 'run lengths', 'c/rle.json', 0, 'run lengths', '0 20 10 30 20'],
	['M', 'run lengths beside a bbox', 'c/both.json', 0, ' 0 notes', '0 20 10 30 20'],
	['M', 'run lengths of another size', 'c/text.json', 1, 'do not add up'],
	['M', 'run lengths that are cut', 'c/short.json', 1, 'do not add up'],
	['M', 'a flat polygon', 'c/flat.json', 0, 'from its polygon', '0 20 10 30 20'],
	['M', 'fractions in COCO', 'c/unit.json', 1, 'smaller than a pixel'],
	['M', 'boxes of a larger picture', 'c/out.json', 1, 'outside their pictures'],
	['M', 'categories from 0', 'c/zero.json', 0, 'counted from 0\?'],
	['M', 'no annotation of use', 'c/none.json', 1, 'none of its 1 annotations'],
	['M', 'classes.txt above labels/', '-n my.names key/images', 0, 'matched by name',
	    '0 20 10 30 20'],
	['M', '_darknet.labels', 'key2', 0, '.', '0 20 10 30 20', 'owl emu'],
	['M', 'CVAT\'s obj.names', 'cvat', 0, '.', '1 20 10 30 20', 'bus van'],
	['O', 'VOC in labels/', 'vx/images', 0, '1 pictures without an annot', '0 20 10 30 20'],
	['O', 'COCO in annotations/', 'js/img', 0, 'labels are those of', '0 20 10 30 20'],
	['O', 'VIA', 'via', 1, 'VIA\'s json'],
	['O', 'a table', 'csv', 1, 'boxes\.csv \(a table\)'],
	['O', 'a text of boxes', 'keras', 1, '_annotations\.txt \(a table\)'],
	['O', 'detections are no labels', 'dets', 0, 'taken as background', ''],
	['O', 'empty labels, full xml', 'empty', 1, 'a\.xml \(VOC'],
	['O', 'a list beside Annotations', 'vocs/pics.txt', 1, 'Annotations/a\.xml'],
	['T', 'an object twice', 'vocs', 0, 'kept once', '0 20 10 30 20'],
	['T', 'a VOC list with extensions', 'vocs/ImageSets/Main/train.txt', 0, '1 pictures',
	    '0 20 10 30 20'],
	['T', 'an annotation twice', 'c/twice.json', 0, 'ids differ',
	    '0 20 10 30 20, 0 20 10 30 20'],
	['P', 'images/train', 'two', 0, 'two: train part', '0 20 10 30 20'],
	['P', 'images/val', '-O split=val two', 0, 'two: val part', '1 20 10 30 20'],
	['P', 'all', '-O split=all two', 0, '2 pictures', '0 20 10 30 20, 1 20 10 30 20'],
	['P', 'a part that is not there', '-O split=test two', 1, 'no test part'],
	['P', 'Roboflow\'s COCO', 'rf', 0, 'rf: train part .*1 pictures'],
	['P', 'COCO by part', 'cc:val', 0, 'cc: val part .*instances_val2017.*1 pictures'],
	['P', 'VOC by part', 'voc2', 0, 'voc2: train part .*1 pictures'],
	['P', 'a yaml', '-O split=val y/w.yaml', 0, 'w\.yaml: val part', '0 20 10 30 20'],
	['F', '..\\train', 'y/w.yaml', 0, 'nc is 3, but', '0 20 10 30 20'],
	['F', 'a path on a drive', 'y/drive.yaml', 0, '1 pictures', '0 20 10 30 20'],
	['F', 'a list of Windows', 'y/list.txt', 0, 'backslashes', '0 20 10 30 20'],
	['F', 'COCO of Windows', 'y/w.json', 0, 'of Windows', '0 20 10 30 20'],
	['F', 'P3', 'p3.ppm', 1, 'ASCII PNM \(P3\)'],
	['F', 'P1 by its content', 'p1', 1, 'PNM \(P1\)'],
	['F', 'P4', 'p4.pbm', 1, 'bitmap PNM \(P4\)'],
);
my @case = (
	['M', '01-pose-labels/dim2/data.yaml', 0, '.', '0 20 10 30 20'],
	['M', '01-pose-labels/dim2/images', 0, '5 keypoints', '0 20 10 30 20'],
	['M', '03-rle-without-bbox/rle.json', 0, 'run lengths', '0 20 10 30 20'],
	['O', '07-annotations-beside-pictures/voc-beside', 0, 'VOC', '0 20 10 30 20'],
	['O', '07-annotations-beside-pictures/voc-lower-case', 0, 'VOC', '0 20 10 30 20'],
	['O', '07-annotations-beside-pictures/coco-beside', 0, 'coco', '0 20 10 30 20'],
	['O', '07-annotations-beside-pictures/labelme', 1, 'a\.json \(labelme'],
	['O', '07-annotations-beside-pictures/createml', 1, 'CreateML'],
	['M', '-n B08-classes-txt-of-two-orders/my.names B08-classes-txt-of-two-orders/a ' .
	    'B08-classes-txt-of-two-orders/b', 0, 'a/classes', '1 20 10 30 20, 0 20 10 30 20'],
	['T', '11-nothing-to-train/instances_default.json:B11-nothing-to-train/images', 0,
	    'all 4 boxes are crowds'],
	['F', '13-windows-paths/label-studio/result.json', 0, 'Windows', '0 20 10 30 20'],
	['F', '14-roboflow-data-yaml/data.yaml', 0, 'there is no', '0 20 10 30 20'],
	['P', '14-roboflow-data-yaml', 0, 'train part', '0 20 10 30 20'],
	['M', '15-coco-bbox-in-fractions/norm.json:B15-coco-bbox-in-fractions/images', 1,
	    'all 4 boxes are smaller than a pixel'],
	['F', '16-small-ones/voc/ImageSets/Main/train.txt', 0, '.', '0 20 10 30 20'],
	['F', '16-small-ones/nc/data.yaml', 0, 'nc is 2, but there are 3'],
	['T', '16-small-ones/vocdup', 0, 'kept once', '0 20 10 30 20'],
	['F', '16-small-ones/grey-ascii.pgm', 1, 'ASCII PNM'],
	['M', '18-panoptic-json/panoptic.json', 1, 'panoptic'],
);

sub run {			# its status and all it says, on one line
	my ($cmd) = @_;
	my $said = `$cmd 2>&1`;
	my $rc = $? >> 8;
	return ($rc, $said);
}

sub pack_row {
	my ($kind, $what, $args, $rc, $re, $boxes, $names) = @_;
	my ($got, $said) = run("$top/yolo-prep -o o.shard $args");
	(my $flat = $said) =~ s/\n/ /g;
	my $good = $got == $rc && $flat =~ /$re/ && ($rc == 0) == !!-e 'o.shard';
	if ($good && defined $boxes) {
		system 'rm -rf x';
		my ($r, $s) = run("$top/yolo-prep -q -x x -f coco o.shard; cat x/instances.json");
		my (@id, %index, @have);
		my ($cats) = $s =~ /"categories":\[(.*)/s;
		push @id, $1 while $cats =~ /"id":(-?\d+)/g;
		@index{@id} = 0 .. $#id;
		my @b = $s =~ /"category_id":(\d+),"bbox":\[([^\]]*)\]/g;
		while (my ($c, $v) = splice @b, 0, 2) {
			push @have, join ' ', $index{$c}, map { sprintf '%.0f', $_ } split /,/, $v;
		}
		my $got = join ', ', @have;
		my $called = join ' ', $cats =~ /"name":"([^"]*)"/g;
		$good = $got eq $boxes && (!$names || $called eq $names);
		$said .= "boxes $got, classes $called\n";
	}
	unlink 'o.shard';
	ok($good, "$kind: $what", $said);
}

inputs();
chdir $t or die;
pack_row(@$_) for @row;

SKIP: {
	if (!-d $bugs) {
		print 'ok ', ++$n, " # SKIP no ../shared\n" for @case, 1 .. 8;
		last SKIP;
	}
	system "cp -r $bugs B && chmod -R u+w B";
	for my $c (@case) {
		my ($kind, $args, @rest) = @$c;
		$args = "B$args" if $args !~ /^-/;
		(my $path = $args) =~ s{B(?=\d\d-)}{B/}g;
		(my $what = $args) =~ s/^(-n )?B//;
		pack_row($kind, $what, $path, @rest);
	}
	my $set = 'B/10-detections-of-another-form';
	for (['right', '^((?!form\?).)*$'], ['corners', 'corners'], ['fractions', 'fractions of'],
	    ['centres', 'centre and size'], ['ids-from-0', 'counted from 0\?']) {
		my ($rc, $said) = run("$top/yolo-eval -t $set/truth.json $set/$_->[0].json");
		$said =~ s/\n/ /g;
		ok($rc == 0 && $said =~ /$_->[1]/, "M: detections, $_->[0]", $said);
	}
	run("$top/yolo-prep -q -n $set/abc.names -o a.shard $set/truth/images");
	for (['score-second', 'score cx cy w h'], ['ltrb', 'corners']) {
		my ($rc, $said) = run("$top/yolo-eval -n $set/abc.names -t a.shard $set/$_->[0]");
		ok($rc == 0 && $said =~ /$_->[1]/, "M: detections, $_->[0]", $said);
	}
	my $w = 'B/13-windows-paths';
	run("$top/yolo-prep -q -n $w/abc.names -o a.shard $w/yt/images");
	my ($rc, $said) = run("$top/yolo-eval -n $w/abc.names -t a.shard $w/darknet-raw.json");
	ok($rc == 1 && $said =~ /backslashes not doubled/, 'F: darknet\'s raw json', $said);
}

# ---- training

file('net.cfg', "[net]\nbatch=2\nwidth=32\nheight=32\nchannels=3\nmax_batches=2\n" .
    "[convolutional]\nfilters=21\nsize=32\nstride=32\nactivation=linear\n" .
    "[yolo]\nmask=0,1,2\nanchors=10,10, 20,20, 30,30\nclasses=2\nnum=3\n");
my $train = "$top/yolo-train -q -c net.cfg -o R -O steps=1 -O threads=1";
my ($rc, $said) = run("$train -v two two");
ok($said =~ /two: train part/ && $said =~ /two: val part/ && $said !~ /trained on too/,
    'P: a root as -v is its val part', $said);
system 'rm -rf R';
($rc, $said) = run("$train -v y/w.json y/w.json");
ok($said =~ /all 1 pictures are trained on too/, 'P: one json for both is told', $said);
print "1..$n\n";
exit($bad != 0);
