#!/usr/bin/perl
# show.t -- yolo-show: what is chosen, what is drawn where, what is refused.
use strict;
use warnings;
use Compress::Zlib qw(uncompress);
use Test::More;

my $t = "/tmp/show.$$";
mkdir $t or die $!;
END { system('rm', '-rf', $t) if $t }

sub spew
{
	my ($f, @s) = @_;
	open my $h, '>', "$t/$f" or die "$f: $!";
	print $h @s;
	close $h;
}

sub run
{
	my $out = `tools/yolo-show @_ 2>&1`;
	return ($? >> 8, $out);
}

# The pixels of a P6 file, made of a PNG by our own reader: yolo-detect is not needed for that.
sub size
{
	open my $h, '<:raw', $_[0] or return '';
	read $h, my $b, 24;
	return substr($b, 1, 3) eq 'PNG' ? join 'x', unpack 'NN', substr $b, 16 : 'no PNG';
}

# Its rows of pixels, "r,g,b" each: chunks inflated, filters undone (PNG specification, 9).
sub pixels
{
	open my $h, '<:raw', $_[0] or return;
	local $/;
	my ($png, $data, $at, @rows) = (scalar <$h>, '', 8);
	my ($w, $h8) = unpack 'NN', substr $png, 16;
	my @was = (0) x (3 * $w);

	while ($at < length $png) {
		my ($len, $kind) = unpack 'Na4', substr $png, $at;
		$data .= substr $png, $at + 8, $len if $kind eq 'IDAT';
		$at += $len + 12;
	}
	$data = uncompress($data);
	for my $y (0 .. $h8 - 1) {
		my ($filter, @b) = unpack 'C*', substr $data, $y * (3 * $w + 1), 3 * $w + 1;
		for my $i (0 .. $#b) {
			my ($l, $u) = ($i < 3 ? 0 : $b[$i - 3], $was[$i]);
			my $c = $i < 3 ? 0 : $was[$i - 3];
			my ($pl, $pu, $pc) = (abs($u - $c), abs($l - $c), abs($l + $u - 2 * $c));
			my $paeth = $pl <= $pu && $pl <= $pc ? $l : $pu <= $pc ? $u : $c;
			$b[$i] = ($b[$i] + (0, $l, $u, ($l + $u) >> 1, $paeth)[$filter]) & 255;
		}
		@was = @b;
		push @rows, [map { join ',', @b[3 * $_ .. 3 * $_ + 2] } 0 .. $w - 1];
	}
	return @rows;
}

sub names { return join ' ', map { s{.*/}{}r } sort glob "$t/$_[0]/*" }

# Five grey pictures of 100x80; what is in them is in their names.
mkdir "$t/set";
my %box = (none => '', one => "0 .5 .5 .2 .2\n", tiny => "1 .5 .5 .02 .02\n0 .3 .3 .2 .2\n",
    edge => "0 .05 .5 .1 .2\n", many => "0 .2 .2 .1 .1\n" x 1 . "0 .5 .2 .1 .1\n0 .8 .2 .1 .1\n" .
    "1 .2 .8 .1 .1\n");
for (keys %box) {
	spew("set/$_.ppm", "P6\n100 80\n255\n", "\x80" x (100 * 80 * 3));
	spew("set/$_.txt", $box{$_});
}
spew('names', "cat\ndog\n");
my $set = "-n $t/names $t/set";

my ($rc, $out) = run("-o $t/all.png $set");
is($rc, 0, 'a sheet of a folder');
like($out, qr/5 of 5 pictures/, 'all of it');
is(size("$t/all.png"), (3 * 324) . 'x' . (2 * 338), 'five cells are three columns');
for (['tiny', 'tiny'], ['crowd', 'many'], ['edge', 'edge'], ['empty', 'none']) {
	my ($find, $want) = @$_;
	($rc, $out) = run("-q -O find=$find -k 1 -o $t/$find/ $set");
	is("$rc " . names($find), "0 000-$want.png", "find=$find");
}
run("-q -O find=class=dog -o $t/dog/ $set");
is(join(' ', sort map { s/^\d+-//r } split ' ', names('dog')), 'many.png tiny.png',
    'find=class=dog');
is(size((glob "$t/dog/*")[0]), '100x80', 'a picture in a folder has its own size');

# A box is drawn where it is: its colour at its edge, grey inside.
run("-q -O find=class=cat -k 9 -o $t/cat/ $set");
my @row = pixels(glob "$t/cat/*-one.png");
isnt($row[40][40], '128,128,128', 'the edge of a box is drawn');
is($row[45][50], '128,128,128', 'and nothing inside it');

is(system("./yolo-prep -q -n $t/names -o $t/s.shard $t/set"), 0, 'a shard of it');
run("-q -S 7 -k 3 -o $t/p.png $t/s.shard");
run("-q -S 7 -k 3 -o $t/p2.png $t/s.shard");
is(system('cmp', '-s', "$t/p.png", "$t/p2.png"), 0, 'one seed shows one sheet');
run("-q -S 8 -k 3 -o $t/p2.png $t/s.shard");
isnt(system('cmp', '-s', "$t/p.png", "$t/p2.png"), 0, 'another seed another');
for my $kind (qw(none darknet ultra2019 mosaic)) {
	($rc, $out) = run("-q -a $kind -s 96 -k 4 -o $t/batch.png $t/s.shard");
	is("$rc$out " . size("$t/batch.png"), '0 ' . (2 * 100) . 'x' . (2 * 114), "a batch, $kind");
}
($rc, $out) = run("-q -a mosaic -s 96 -k 4 -o $t/batch2.png $set");
is("$rc$out", '0', 'a batch of a folder');
is(join(' ', glob "/tmp/yolo-show.tmp.*"), '', 'no file is left of it');

# What is refused, and what is left of the rest.
for (["-o $t/x.png", 2, qr/name a shard/], ["$t/s.shard", 2, qr/name the output/],
    ["-O find=big -o $t/x.png $t/s.shard", 2, qr/find=big: want any/],
    ["-O find=class=cow -o $t/x.png $t/s.shard", 1, qr/find=class=cow: none of 5/],
    ["-o $t/x.gif $t/s.shard", 1, qr/x\.gif/], ["-o $t/s.shard $t/s.shard", 2, qr/s\.shard/],
    ["-a magic -o $t/x.png $t/s.shard", 2, qr/-a magic: want/],
    ["-k 10000 -s 4096 -o $t/x.png data/demo-val.shard", 2, qr/smaller -k or -s/],
    ["-a none -k 165 -o $t/x.png $t/s.shard data/demo-val.shard", 1, qr/other classes/],
    ["-o $t/x.png $t/nothing", 1, qr/nothing/]) {
	my ($args, $status, $why) = @$_;
	($rc, $out) = run($args);
	ok($rc == $status && $out =~ $why && $out =~ tr/\n// == 1 && !-e "$t/x.png",
	    "refused: " . $args =~ s/\Q$t\E\///gr) or diag "$rc $out";
}
spew('set/one.ppm', "P6\n100 80\n255\n", "\x80" x 500);
($rc, $out) = run("-q -o $t/rest.png $set");
is($rc, 1, 'a cut picture: status 1');
like($out, qr/one\.ppm/, 'named');
like(size("$t/rest.png"), qr/^\d+x\d+$/, 'and the others are shown');
done_testing();
