#!/usr/bin/perl
# exif.t -- one picture stored in each of EXIF's eight ways is one picture to prep, detect, train.
use strict;
use warnings;
use Compress::Zlib qw(crc32 compress);
use Test::More;
require './test/detect.pl';

our ($dir, %cells);
my $net = cfg("$dir/cells.cfg");
my @m = ('-c', $net, '-w', weights("$dir/cells.weights", %cells), '-O', 'resize=bilinear');
my ($w, $h) = (64, 32);

sub put {
	my ($path, $bytes) = @_;
	open my $f, '>:raw', $path or die "$path: $!";
	print $f $bytes;
	close $f or die;
	return $path;
}

sub shell { return system("$_[0] >$dir/out 2>$dir/err") >> 8; }
sub boxes {
	return join ' ', map { sprintf '%d %g %g %g %g', @$_[1, 4 .. 7] } rows((detect(@m, @_))[1]);
}

# The picture as it is shown: red at 16,0.
sub shown { my ($x, $y) = @_; return $x >= 16 && $x < 32 && $y < 16 ? "\xff\0\0" : "\0\0\0"; }

# Where a stored pixel is shown.
sub place {
	my ($o, $x, $y) = @_;
	return ($o == 2 || $o == 3 ? $w - 1 - $x : $x, $o == 3 || $o == 4 ? $h - 1 - $y : $y)
	    if $o < 5;
	return ($o == 6 || $o == 7 ? $w - 1 - $y : $y, $o == 7 || $o == 8 ? $h - 1 - $x : $x);
}

sub stored { return $_[0] > 4 ? ($h, $w) : ($w, $h); }

sub chunk { return pack('N', length $_[1]) . "$_[0]$_[1]" . pack 'N', crc32("$_[0]$_[1]"); }

sub png {
	my ($o, $late) = @_;
	my ($sw, $sh) = stored($o);
	my $rows = join '', map { my $y = $_; "\0" . join '', map { shown(place($o, $_, $y)) }
	    0 .. $sw - 1 } 0 .. $sh - 1;
	my $exif = chunk('eXIf', 'MM' . pack('nNnnnNnnN', 42, 8, 1, 0x112, 3, 1, $o, 0, 0));
	my $data = chunk('IDAT', compress($rows));
	return "\x89PNG\r\n\x1a\n" . chunk('IHDR', pack('NNC5', $sw, $sh, 8, 2, 0, 0, 0)) .
	    ($late ? "$data$exif" : "$exif$data") . chunk('IEND', '');
}

# A box that is shown at 16 0 16 16, on the stored pixels.
sub box {
	my ($o) = @_;
	my ($sw, $sh) = stored($o);
	my @p = grep { shown(place($o, @$_)) ne "\0\0\0" }
	    map { my $y = $_; map { [ $_, $y ] } 0 .. $sw - 1 } 0 .. $sh - 1;
	my ($x0) = sort { $a <=> $b } map { $$_[0] } @p;
	my ($y0) = sort { $a <=> $b } map { $$_[1] } @p;
	return "$x0,$y0,16,16";
}

my $want = boxes(put("$dir/0.png", png(1)));
is($want, '0 16 0 16 16', 'upright');
mkdir "$dir/$_" for qw(set coco);
for my $o (2 .. 8) {
	my ($sw, $sh) = stored($o);
	my $p = put("$dir/set/$o.png", png($o, $o % 2));
	put("$dir/set/$o.txt", "0 .375 .25 .25 .5\n");
	is(boxes($p), $want, "orientation $o: detected as shown");
	is(boxes('-O', 'exif=0', $p), join(' ', 0, split /,/, box($o)), 'exif=0: as stored');
	next if $o < 5;
	# labels for the stored pixels, and for the picture as it is shown
	for ([ $sw, $sh, box($o) ], [ $w, $h, '16,0,16,16' ]) {
		my ($lw, $lh, $box) = @$_;
		my ($x, $y) = split /,/, $box;
		put("$dir/set/c.json", qq({"images":[{"id":1,"file_name":"$o.png","width":$lw,) .
		    qq("height":$lh}],"categories":[{"id":1,"name":"a"}],"annotations":[{"id":1,) .
		    qq("image_id":1,"category_id":1,"area":256,"bbox":[$box]}]}));
		mkdir "$dir/voc$o$lw";
		mkdir "$dir/voc$o$lw/$_" for qw(Annotations JPEGImages);
		put("$dir/voc$o$lw/JPEGImages/p.png", png($o));
		put("$dir/voc$o$lw/Annotations/p.xml", '<annotation><filename>p.png</filename>' .
		    "<size><width>$lw</width><height>$lh</height></size><object><name>a</name>" .
		    "<bndbox><xmin>$x</xmin><ymin>$y</ymin><xmax>@{[$x + 16]}</xmax>" .
		    "<ymax>@{[$y + 16]}</ymax></bndbox></object></annotation>");
		for my $in ("$dir/set/c.json", "$dir/voc$o$lw") {
			is(shell("./yolo-prep -q -o $dir/x.shard $in"), 0, "labels for ${lw}x$lh");
			unlink "$dir/set/c.json";
			shell("rm -rf $dir/x; ./yolo-prep -q -x $dir/x -f coco $dir/x.shard");
			like(slurp("$dir/x/instances.json"),
			    qr/"width":64,"height":32.*"bbox":\[16,0,16,16\]/s,
			    'boxes on the picture as it is shown');
		}
	}
}
is(shell("./yolo-prep -q -o $dir/a.shard $dir/set"), 0, 'a folder of all of them');
is(slurp("$dir/err"), '', 'no remark');
is(join(' ', map { (split /\t/)[4, 5] } grep { !/^#/ } split /\n/, `./yolo-prep -t $dir/a.shard`),
    join(' ', (64, 32) x 7), 'all of one size');
is(boxes("$dir/a.shard"), join(' ', ($want) x 7), 'a shard: detected as shown');
is(shell("./yolo-prep -C $dir/a.shard"), 0, 'checked');
is(shell("./yolo-prep -q -x $dir/un $dir/a.shard; " .
    "./yolo-prep -q -o $dir/b.shard $dir/un/list.txt"), 0, 'unpacked and packed again');
is(boxes("$dir/b.shard"), join(' ', ($want) x 7), 'is the same');
is(join('', map { slurp($_) } glob "$dir/un/labels/*/*/*.txt $dir/un/labels/*/*/*/*.txt"),
    "0 0.375 0.25 0.25 0.5\n" x 7, 'with its labels');
is(shell("./yolo-prep -q -Q 95 -o $dir/q.shard $dir/a.shard"), 0, 'recoded');
is(boxes("$dir/q.shard"), join(' ', ($want) x 7), 'is turned once');
is(shell("./yolo-train -q -c test/small.cfg -d cpu -O threads=1 -O steps=1 -o $dir/run " .
    "$dir/a.shard"), 0, 'trained on');
is(shell("./yolo-prep -q -O exif=0 -o $dir/old.shard $dir/set"), 0, 'exif=0');
is((split /\t/, (split /\n/, `./yolo-prep -t $dir/old.shard`)[-1])[4], 32, 'is as stored');
done_testing();
