#!/usr/bin/perl
# cannotlearn.t -- runs that could not learn: each is refused or named before its first step.
use strict;
use warnings;
use lib 'test';
use Tap;

my $t = $tmp;
my $small = slurp('test/small.cfg');

sub run {			# its status; what it says: $t/err
	my ($command) = @_;
	system("timeout 120 $command >$t/out 2>$t/err");
	return $? >> 8;
}

sub seen {			# or what was said
	my ($good, $what) = @_;
	ok($good, $what) or diag(slurp("$t/err"));
}

sub says { return slurp("$t/err") =~ $_[0] }

sub train {			# a new run of two steps
	my ($cfg, $more) = @_;
	system("rm -rf $t/run");
	return run("./yolo-train -q -d cpu -O threads=1 -O steps=2 -c $cfg -o $t/run $more");
}

system("tools/yolo-synth -q -n 8 -s 96 -S 3 -o $t/set && " .
    "./yolo-prep -q -n $t/set/names -o $t/set.shard $t/set/images") and die 'no set';

# channels
my ($line) = grep { (split /\n/, $small)[$_ - 1] eq 'channels=3' } 1 .. 20;
for my $c (2, 4, 5) {
	spew("$t/c$c.cfg", $small =~ s/channels=3/channels=$c/r);
	seen(train("$t/c$c.cfg", "$t/set.shard") == 1 && !-e "$t/run/best.weights" &&
	    says(qr/c$c\.cfg:$line: channels=$c, .*RGB/), "yolo-train refuses channels=$c");
}
system("./yolo-train -q -d cpu -O threads=1 -O steps=2 -c test/small.cfg -o $t/good " .
    "$t/set.shard >/dev/null 2>&1");
seen(run("./yolo-detect -q -d cpu -c $t/c4.cfg -w $t/good/best.weights $t/set.shard") == 1 &&
    says(qr/c4\.cfg:$line: channels=4/), 'yolo-detect refuses channels=4');

# A checkpoint with two bytes of its tensors changed, both of a number that stays finite.
my $last = slurp("$t/good/last.safetensors");
my ($len, $first) = (unpack('Q<', $last), $last =~ /^.{8}[^\0]*?"(layer\.0\.\w+)":\{/s);
my ($from) = $last =~ /"\Q$first\E":\{[^}]*"data_offsets":\[(\d+)/;
my $hurt = $last;
substr($hurt, 8 + $len + $from, 2) ^= "\x05\x0a";
system("cp -R $t/good $t/hurt");
spew("$t/hurt/last.safetensors", $hurt);
my $damage = qr{hurt/last\.safetensors: tensor \Q$first\E: .*checksum};
seen(run("./yolo-train -q -R -O steps=4 -d cpu -o $t/hurt") == 1 && says($damage),
    'a run does not go on from changed tensors');
seen(slurp("$t/hurt/last.safetensors") eq $hurt, 'and leaves the file as it is');
seen(run("./yolo-detect -q -d cpu -w $t/hurt/last.safetensors $t/set.shard") == 1 && says($damage),
    'yolo-detect does not take them either');
seen(train('test/small.cfg', "-w $t/hurt/last.safetensors $t/set.shard") == 1 && says($damage),
    'nor does yolo-train -w');
my $head = substr($last, 8, $len);
$head =~ s/"checksums":"[^"]*",//;
spew("$t/hurt/last.safetensors", pack('Q<', length $head) . $head . substr($hurt, 8 + $len));
seen(run("./yolo-detect -q -d cpu -w $t/hurt/last.safetensors $t/set.shard") == 0,
    'a file without checksums is read as it is');

# What there is to learn.  The set as COCO, and the same with other things in it.
system("./yolo-prep -q -x $t/coco -f coco $t/set.shard") and die 'no json';
my $json = slurp("$t/coco/instances.json");
my ($pictures) = grep { -d } "$t/coco/images", "$t/coco";
sub shard {			# of what is left after a change
	my ($name, $change) = @_;
	local $_ = $json;
	$change->();
	spew("$t/$name.json", $_);
	system("./yolo-prep -q -o $t/$name.shard $t/$name.json:$pictures") and die "no $name";
}
shard('crowds', sub { s/"iscrowd": ?0/"iscrowd":1/g });
shard('empty', sub { s/("annotations": ?\[).*?\](?=\s*[,}]\s*("categories|"images|\z))/$1]/s });
seen(train('test/small.cfg', "$t/crowds.shard") == 1 && says(qr/all \d+ boxes are crowds/) &&
    !-e "$t/run/last.safetensors", 'boxes that are all crowds are nothing to learn');
seen(train('test/small.cfg', "$t/empty.shard") == 1 && says(qr/no boxes in its 8 pictures/) &&
    !-e "$t/run/last.safetensors", 'no boxes are nothing to learn');
run("./yolo-prep -o $t/again.shard $t/crowds.json:$pictures");
seen(says(qr/all \d+ boxes are crowds or difficult/), 'yolo-prep says so too');
for my $v ('crowds', 'empty') {
	seen(train('test/small.cfg', "-v $t/$v.shard $t/set.shard") == 1 &&
	    says(qr{run/val\.shard: no box to validate with .*or no -v}) &&
	    !-e "$t/run/best.weights", "nor can they be validated with: $v");
}
seen(train('test/small.cfg', "-e 1 -O steps=1 -v $t/set.shard -O best=APl $t/set.shard") == 1 &&
    says(qr/APl is about: -O best/), 'a figure that stays undefined is no best');

# the rate
sub cfg {			# small.cfg with changes
	my ($name, %set) = @_;
	my $text = $small;
	for (sort keys %set) {
		$text =~ s/^\Q$_\E=.*\n//mg;
		$text =~ s/^\[net\]\n/[net]\n$_=$set{$_}\n/m;
	}
	spew("$t/$name.cfg", $text);
	return "$t/$name.cfg";
}
my $burn = cfg('burn', burn_in => 1000, max_batches => 2, power => 4);
seen(train($burn, "$t/set.shard") == 0 &&
    says(qr/: burn_in=1000 is longer than the run \(2 steps\)/),
    'a warm-up longer than the run');
seen(train('test/small.cfg', "-e 2 -O warmup=50 $t/set.shard") == 0 &&
    says(qr/-O warmup=50 is longer than the run \(2 steps\)/), 'the same of -O warmup');
my $steps = cfg('steps', policy => 'steps', steps => '400,450', scales => '.1,.1');
seen(train($steps, "$t/set.shard") == 0 &&
    says(qr/no step of steps= is reached: .*400.* 60 steps/),
    'steps beyond the run');
seen(train(cfg('near', policy => 'steps', steps => '40,450', scales => '.1,.1'),
    "$t/set.shard") == 0 && !says(qr/steps=/), 'a step within it');

# anchors
my $big = slurp('test/small.cfg');
$big =~ s/^anchors=.*/anchors=900,900, 910,910, 920,920, 930,930, 940,940, 950,950/mg;
spew("$t/big.cfg", $big);
seen(train("$t/big.cfg", "$t/set.shard") == 1 && !-e "$t/run/last.safetensors" &&
    says(qr/no anchor is near .*tools\/yolo-anchors -c/), 'anchors that fit no box');
seen(train("$t/big.cfg", "-L darknet $t/set.shard") == 0, 'darknet takes the best, fit or not');
train("$t/big.cfg", "$t/set.shard");
my ($command) = slurp("$t/err") =~ /(tools\/yolo-anchors -c \S+ \S+)/;
seen(run($command // 'false') == 0, 'the command that it names works');

seen(train('test/small.cfg', "-v $t/set.shard $t/set.shard") == 0 &&
    !says(qr/longer|reached|anchor|crowds/), 'nothing is said of a run as it should be');

done_testing();
