#!/usr/bin/perl
# grey.t -- channels=1: training, validation, detection and the figures see the brightness of a
# picture, whatever its colours; other numbers of channels are refused (cannotlearn.t).
use strict;
use warnings;
use lib 'test';
use Tap;

my $t = $tmp;
my ($out, $err);
sub does {
	my ($command) = @_;
	system("timeout 120 $command >$t/out 2>$t/err");
	($out, $err) = (slurp("$t/out"), slurp("$t/err"));
	return $? >> 8;
}
sub seen { ok($_[0], $_[1]) or diag($out . $err) }

# The same pictures in colours and in their brightness: ones with blocks where the boxes are.
srand(7);
for my $i (0 .. 7) {
	my ($x, $y, $w, $h) = (10 + 4 * $i, 20 + 2 * $i, 24, 30);
	my ($colour, $grey) = ('', '');
	for my $row (0 .. 79) {
		for my $col (0 .. 95) {
			my $in = $col >= $x && $col < $x + $w && $row >= $y && $row < $y + $h;
			my @p = map { int(rand(60)) + ($in ? $_ : 20) } 180, 40, 10 * $i;
			$colour .= pack 'C3', @p;
			$grey .= chr((77 * $p[0] + 150 * $p[1] + 29 * $p[2]) >> 8) x 3;
		}
	}
	for (['colour', $colour], ['grey', $grey]) {
		my ($name, $px) = @$_;
		mkdir "$t/$name";
		spew("$t/$name/p$i.ppm", "P6 96 80 255\n$px");
		spew("$t/$name/p$i.txt", sprintf "0 %g %g %g %g\n", ($x + $w / 2) / 96,
		    ($y + $h / 2) / 80, $w / 96, $h / 80);
	}
}
spew("$t/names", "block\nb\nc\nd\n");
for ('colour', 'grey') {
	system("./yolo-prep -q -n $t/names -o $t/$_.shard $t/$_") and die "no $_";
}
spew("$t/grey.cfg", slurp('test/small.cfg') =~ s/channels=3/channels=1/r);
my $train = "./yolo-train -q -d cpu -O threads=1 -O steps=4 -O save=4 -O lr=.002";
sub columns {			# of log.tsv that do not depend on time
	return join '', map { my @c = split /\t/; "@c[0 .. 9]\n" }
	    split /\n/, slurp("$t/$_[0]/log.tsv");
}

for my $aug ('none', 'darknet -O hue=0 -O saturation=1', 'mosaic') {
	for my $set ('colour', 'grey') {
		system("rm -rf $t/r-$set");
		seen(does("$train -A $aug -c $t/grey.cfg -v $t/$set.shard -o $t/r-$set " .
		    "$t/$set.shard") == 0, "-A $aug trains on $set pictures");
	}
	seen(columns('r-colour') eq columns('r-grey') &&
	    slurp("$t/r-colour/best.weights") eq slurp("$t/r-grey/best.weights"),
	    "-A $aug: colours are seen as brightness");
}
my $weights = "-c $t/r-grey/run.cfg -w $t/r-grey/last.safetensors";
seen(does("./yolo-detect -q -d cpu -t .0001 $weights $t/grey.shard") == 0 &&
    length $out, 'yolo-detect');
my $first = $out;
does("./yolo-detect -q -d cpu -t .0001 -b 3 -x $t/drawn $weights $t/colour.shard");
seen($out =~ s{/colour/}{/grey/}gr eq $first, 'in colours the same, in other batches');
seen((my @drawn = glob("$t/drawn/*")) == 8, 'colours are drawn on');
seen(does("./yolo-detect -q -d cpu $weights -O rect=1 -O resize=darknet $t/colour/p0.ppm") == 0,
    'rect and another resize');

# What a run says of itself is what the programs say.
does("./yolo-detect -q -d cpu -O eval=1 -O threads=1 $weights $t/colour.shard | " .
    "./yolo-eval -q -t $t/colour.shard -");
my ($ap) = map { (split /\t/)[2] } reverse split /\n/, slurp("$t/r-colour/val.tsv");
my ($said) = $out =~ /^coco\t-\tAP\t(\S+)/m;
seen(defined $said && abs($said - $ap) < 1e-6, "validation: AP $ap");
seen(does("./yolo-bench step -q -d cpu -c $t/grey.cfg -b 2 -O n=2 -O warmup=0 " .
    "-H $t/history $t/colour.shard") == 0, 'yolo-bench');

# Names come with a checkpoint.
does("./yolo-detect -q -d cpu -t 0 -O max_det=1 -w $t/r-grey/last.safetensors $t/colour/p0.ppm");
seen($out =~ /p0\.ppm\t(block|[bcd])\t/, 'a checkpoint has the names of its classes');
seen(does("./yolo-train -q -R -O steps=6 -d cpu -O threads=1 -o $t/r-grey") == 0, '-R');
done_testing();
