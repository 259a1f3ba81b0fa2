#!/usr/bin/perl
# cannotlearn.t -- runs that could not learn: each is refused or named before its first step.
use strict;
use warnings;
use File::Temp;

my $t = File::Temp->newdir;
my ($n, $small) = (0, slurp('test/small.cfg'));

sub ok {
	my ($right, $what) = @_;
	print $right ? '' : 'not ', 'ok ', ++$n, " - $what\n";
	return if $right;
	print "# $_\n" for split /\n/, slurp("$t/err");
}

sub slurp {
	open my $f, '<', $_[0] or return '';
	local $/;
	return scalar <$f> // '';
}

sub spit {
	my ($name, $text) = @_;
	open my $f, '>', $name or die "$name: $!";
	print $f $text;
	close $f;
}

sub run {			# its status; what it says: $t/err
	my ($command) = @_;
	system("timeout 120 $command >$t/out 2>$t/err");
	return $? >> 8;
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
for my $c (1, 2, 4) {
	spit("$t/c$c.cfg", $small =~ s/channels=3/channels=$c/r);
	ok(train("$t/c$c.cfg", "$t/set.shard") == 1 && !-e "$t/run/best.weights" &&
	    says(qr/c$c\.cfg:$line: channels=$c, .*RGB/), "yolo-train refuses channels=$c");
}
system("./yolo-train -q -d cpu -O threads=1 -O steps=2 -c test/small.cfg -o $t/good " .
    "$t/set.shard >/dev/null 2>&1");
ok(run("./yolo-detect -q -d cpu -c $t/c4.cfg -w $t/good/best.weights $t/set.shard") == 1 &&
    says(qr/c4\.cfg:$line: channels=4/), 'yolo-detect refuses channels=4');

# A checkpoint with two bytes of its tensors changed, both of a number that stays finite.
my $last = slurp("$t/good/last.safetensors");
my ($len, $first) = (unpack('Q<', $last), $last =~ /^.{8}[^\0]*?"(layer\.0\.\w+)":\{/s);
my ($from) = $last =~ /"\Q$first\E":\{[^}]*"data_offsets":\[(\d+)/;
my $hurt = $last;
substr($hurt, 8 + $len + $from, 2) ^= "\x05\x0a";
system("cp -R $t/good $t/hurt");
spit("$t/hurt/last.safetensors", $hurt);
my $damage = qr{hurt/last\.safetensors: tensor \Q$first\E: .*checksum};
ok(run("./yolo-train -q -R -O steps=4 -d cpu -o $t/hurt") == 1 && says($damage),
    'a run does not go on from changed tensors');
ok(slurp("$t/hurt/last.safetensors") eq $hurt, 'and leaves the file as it is');
ok(run("./yolo-detect -q -d cpu -w $t/hurt/last.safetensors $t/set.shard") == 1 && says($damage),
    'yolo-detect does not take them either');
ok(train('test/small.cfg', "-w $t/hurt/last.safetensors $t/set.shard") == 1 && says($damage),
    'nor does yolo-train -w');
my $head = substr($last, 8, $len);
$head =~ s/"checksums":"[^"]*",//;
spit("$t/hurt/last.safetensors", pack('Q<', length $head) . $head . substr($hurt, 8 + $len));
ok(run("./yolo-detect -q -d cpu -w $t/hurt/last.safetensors $t/set.shard") == 0,
    'a file without checksums is read as it is');

print "1..$n\n";
