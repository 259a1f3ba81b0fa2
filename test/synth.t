#!/usr/bin/perl
# synth.t -- yolo-synth: the same bytes for a seed, sane labels, whole sets, honest exit status.
use strict;
use warnings;
use lib 'test';
use Tap;

my $tool = 'tools/yolo-synth';

sub status {
	system "$_[0] >$tmp/out 2>$tmp/err";
	return $? >> 8;
}

is(status("$tool -q -n 60 -s 96 -S 5 -o $tmp/a/b"), 0, 'draws, makes folders');
is(status("$tool -q -n 60 -s 96 -S 5 -o $tmp/c"), 0, 'and again');
is(status("diff -r $tmp/a/b $tmp/c"), 0, 'one seed, one set');
is(status("$tool -q -n 40 -s 96 -S 5 -o $tmp/d"), 0, 'a smaller set');
is(slurp("$tmp/d/images/000039.jpg"), slurp("$tmp/c/images/000039.jpg"),
    'is the start of the larger');
is(status("$tool -q -n 60 -s 96 -S 6 -o $tmp/e"), 0, 'another seed');
isnt(slurp("$tmp/e/images/000000.jpg"), slurp("$tmp/c/images/000000.jpg"), 'is another set');

my @pictures = glob "$tmp/c/images/*.jpg";
my (@class, $bad, $small, $large);
($bad, $small, $large) = (0, 1, 0);
for my $txt (glob "$tmp/c/labels/*.txt") {
	for (split /\n/, slurp($txt) // '') {
		my ($c, $x, $y, $w, $h) = split ' ';
		$bad++ if !/^[0-3]( \d\.\d{6}){4}$/ || $w <= 0 || $h <= 0 || $x - $w / 2 < -1e-6 ||
		    $y - $h / 2 < -1e-6 || $x + $w / 2 > 1 + 1e-6 || $y + $h / 2 > 1 + 1e-6;
		$class[$c]++;
		$small = $w if $w < $small;
		$large = $w if $w > $large;
	}
}
is(scalar @pictures, 60, 'as many pictures as asked for');
is($bad, 0, 'every label a class and a box inside the picture');
cmp_ok($class[$_] // 0, '>=', 15, "class $_ is there") for 0 .. 3;
cmp_ok($small, '<', .12, 'small shapes');
cmp_ok($large, '>', .45, 'large ones');
is(slurp("$tmp/c/names"), "disc\ntriangle\nstar\nring\n", 'names');

is(status("$tool -q -n 30 -s 96 -o $tmp/c"), 1, 'a smaller set over a larger one is refused');
like(slurp("$tmp/err"), qr/images\/000030\.jpg: left from a larger set/, 'and says why');
is(status("$tool -n 0 -o $tmp/f"), 2, 'no pictures: usage');
is(status("$tool -n 5 extra"), 2, 'an operand: usage');
is(status("$tool -n 1 -o $tmp/c/names/x"), 1, 'a folder that cannot be');
is(status("$tool -h"), 0, '-h');
like(slurp("$tmp/out"), qr/^usage: yolo-synth/, 'on stdout');
done_testing;
