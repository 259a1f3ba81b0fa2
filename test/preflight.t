#!/usr/bin/perl
# preflight.t -- what a run would learn from, on one screen before its first step; -O check=1 shows
# it and stops.
use strict;
use warnings;
use lib 'test';
use Tap;

my $t = $tmp;
my ($out, $err);
sub train {			# its status; what it prints and says: $out, $err
	my ($args) = @_;
	system("timeout 120 ./yolo-train -d cpu -O threads=1 $args >$t/out 2>$t/err");
	($out, $err) = (slurp("$t/out"), slurp("$t/err"));
	return $? >> 8;
}
sub seen { ok($_[0], $_[1]) or diag("$out$err") }

sub set {			# a shard of eight pictures with labels made by a function
	my ($name, $labels) = @_;
	system("tools/yolo-synth -q -n 8 -s 96 -S 3 -o $t/$name") and die;
	for my $f (glob("$t/$name/labels/*.txt")) {
		local $_ = slurp($f);
		$labels->($f);
		spew($f, $_);
	}
	system("./yolo-prep -q -n $t/$name/names -o $t/$name.shard $t/$name/images") and die;
}
set('set', sub { });
my $n = 0;
set('two', sub { $n++; $_ = "0 .5 .5 .3$n .4$n\n2 .5 .5 .01$n .9$n\n" });
system("tools/yolo-synth -q -n 6 -s 96 -S 9 -o $t/other && " .
    "./yolo-prep -q -n $t/other/names -o $t/other.shard $t/other/images") and die;

# What stands there, and that nothing is left behind.
my $check = "-O check=1 -c test/small.cfg -o $t/run";
seen(train("$check -v $t/other.shard $t/two.shard") == 0, 'a check ends well');
seen($out =~ /^pictures   8 to train on, 6 to validate with; 0 are in both$/m, 'pictures');
seen($out =~ /^boxes      16 to train on, 0 crowds .*; \d+ to validate with$/m, 'boxes');
seen($out =~ /^classes    4, with boxes 2; without: \S+, \S+$/m, 'classes without boxes');
seen($out =~ /^anchors    8 boxes \(50 %\) that no anchor takes at \d+x\d+\n +others: (.*)$/m,
    'boxes that no anchor takes');
my $command = $1 // 'false';
seen(system("$command >$t/anchors 2>&1") == 0, "the command that fits anchors works: $command");
seen($out =~ /^schedule   \d+ steps of \d+ pictures, \S+ epochs$/m, 'schedule');
seen($out =~ /^memory     \S+ GB wanted, \S+ GB free$/m, 'memory');
seen($out !~ /.{101}/ && (my @lines = $out =~ /\n/g) < 12, 'it is a screen');
seen(!(grep { !m{/(set|two|other)(\.shard)?$} && !m{/(out|err|anchors)$} } glob("$t/*")),
    'no folder is made');

# Of pictures that are packed for it.
seen(train("$check $t/set/images") == 0 && $out =~ /^pictures   8 to train on$/m &&
    $out =~ /; no validation/, 'pictures are packed for it');
seen(!-e "$t/run" && !glob("$t/run.*"), 'and the shard goes again');
seen(train("$check -v $t/set.shard $t/set.shard") == 0 && $out =~ /; 8 are in both$/m &&
    $err =~ /set\.shard: all 8 pictures are trained on too/, 'pictures in both');

# Zero where something is needed.
set('none', sub { $_ = '' });
seen(train("$check $t/none.shard") == 1 && $out =~ /^boxes      0 to train on/m &&
    $err =~ /none\.shard: no boxes in its 8 pictures/, 'no box');
seen(train("$check -v $t/none.shard $t/set.shard") == 1 && $out =~ /; 0 to validate with$/m &&
    $err =~ /none\.shard: no box to validate with/, 'no truth in the validation');
spew("$t/big.cfg", slurp('test/small.cfg') =~
    s/^anchors=.*/anchors=900,900, 910,910, 920,920, 930,930, 940,940, 950,950/mgr);
seen(train("$check -c $t/big.cfg $t/set.shard") == 1 &&
    $out =~ /^anchors    (\d+) boxes \(100 %\)/m && $err =~ /no anchor is near/, 'no anchor');
seen(!-e "$t/run" && !glob("$t/run.*"), 'nor does a check that fails leave anything');

# The schedule.
my $steps = slurp('test/small.cfg');
$steps =~ s/^(policy|steps|scales|max_batches|burn_in)=.*\n//mg;
$steps =~ s/^\[net\]\n/[net]\npolicy=steps\nsteps=40,450\nscales=.1,.1\nmax_batches=60\n/m;
$steps =~ s/^\[net\]\n/[net]\nburn_in=5\n/m;
spew("$t/steps.cfg", $steps);
seen(train("$check -c $t/steps.cfg $t/set.shard") == 0 &&
    $out =~ /^rate       warm-up of 5 steps; .*falls at 40, 1 of 2 falls are not reached$/m,
    'falls of the rate that are reached');

# Before a run, unless -q.
seen(train("-c test/small.cfg -o $t/run -O steps=1 $t/set.shard") == 0 &&
    $err =~ /^pictures   8.*^memory     /ms && $out !~ /pictures/, 'a run shows it first');
seen(train("-q -R -O steps=2 -o $t/run") == 0 && $err !~ /^pictures/m, 'not with -q');
seen(train("-R -O check=1 -o $t/run") == 0 && $out =~ /^memory/m && -e "$t/run/run.cfg",
    'a check of a run that goes on');
seen(train("$check $t/set.shard") == 1 && $err =~ /holds a run/ && -e "$t/run/run.cfg",
    'a folder that holds a run is no place for a new one');

# No false alarm: what is known to learn is told nothing that it should change.
my $d = '../shared/data/datasets';
for (['demo', '', 'data/demo.shard'],
    ['nuclei', "-c nuclei.cfg -v $d/nuclei/val.txt $d/nuclei/train.txt", "$d/nuclei/train.txt"],
    ['bccd', "-c bccd.cfg -v $d/bccd/ImageSets/Main/val.txt $d/bccd/ImageSets/Main/train.txt",
	"$d/bccd/Annotations"],
    map { ["coco-cc, $_", "-c $_.cfg -b 4 -e 200 -v " .
	"$d/coco-cc/instances_val2017_cc.json:$d/coco-cc/images/val2017 " .
	"$d/coco-cc/instances_train2017_cc.json:$d/coco-cc/images/train2017",
	"$d/coco-cc/images/val2017"] } qw(yolov3 yolov3-tiny yolov3-spp)) {
	my ($name, $args, $needs) = @$_;
	SKIP: {
		skip("no $needs", 1) if !-e $needs;
		seen(train("-q -O check=1 -o $t/x $args") == 0 && $out =~ /^memory/m &&
		    $out !~ /others:/ &&
		    $err !~ /anchor|reached|longer|trained on|crowd|free/,
		    "no false alarm: $name");
	}
}
done_testing();
