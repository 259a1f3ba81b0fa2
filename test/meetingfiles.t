#!/usr/bin/perl
# meetingfiles.t -- files that meet what they should not: messages in a shard, links under a
# temporary name, two runs in one folder, outputs that are inputs.
use strict;
use warnings;
use lib 'test';
use Tap;

my $t = $tmp;

sub seen {			# or why not
	my ($good, $what, @why) = @_;
	return ok($good, $what) || diag(join "\n", @why);
}

sub sh {			# status and what was printed
	my $out = `{ $_[0] ; } 2>&1`;
	return ($? & 127 ? 128 + ($? & 127) : $? >> 8, $out);
}

sub bytes {
	my ($path) = @_;
	open my $h, '<:raw', $path or return "no $path";
	local $/;
	return scalar <$h>;
}

my ($rc, $out) = sh("tools/yolo-synth -q -n 6 -s 96 -S 3 -o $t/set");
seen(!$rc, 'a set', $out);

# ---- closed standard descriptors ----

spew("$t/set/labels/000000.txt", "0 .5 .5 .2 .2\n0 .5 .5 0 0\n");	# something to say
my $pack = "./yolo-prep -j 1 -n $t/set/names";
($rc, $out) = sh("$pack -o $t/open.shard $t/set/images");
seen(!$rc && $out =~ /000000/, 'a pack that says something', $out);
for my $closed ('2>&-', '<&- 2>&-', '<&- >&- 2>&-') {
	sh("$pack -o $t/closed.shard $t/set/images $closed");
	seen(bytes("$t/closed.shard") eq bytes("$t/open.shard"), "$closed: the same shard");
}
($rc) = sh("./yolo-prep -t $t/open.shard >&-");
seen($rc == 1, 'a table that nobody gets is status 1', "status $rc");
my $train = './yolo-train -q -c test/small.cfg -d cpu -O threads=1 -O steps=3';
($rc, $out) = sh("$train -o $t/r0 $t/open.shard <&- 2>&-");
seen(!$rc, 'a run of which stdin and stderr are closed', $out);
seen(join(' ', sort map { m{([^/]+)$} } glob "$t/r0/*") !~ /tmp/ &&
    bytes("$t/r0/log.tsv") =~ /^#step[^#]*$/ && bytes("$t/r0/log.tsv") !~ /yolo-train/,
    'no message is in its log', bytes("$t/r0/log.tsv"));

# ---- temporary names ----

# Links under every name that was used before: of any process to come.
mkdir "$t/tmp";
spew("$t/victim", 'mine');
symlink "$t/victim", "$t/tmp/out.shard.tmp.$_" for $$ .. $$ + 2000;
($rc, $out) = sh("$pack -q -o $t/tmp/out.shard $t/set/images");
seen(!$rc && bytes("$t/victim") eq 'mine', 'a link under the old temporary name is not followed',
    "status $rc", $out);
seen(bytes("$t/tmp/out.shard") eq bytes("$t/open.shard"), 'and the shard is there');
($rc, $out) = sh("strace -V");
if ($rc) {
	SKIP: { skip('no strace', 1) }
} else {
	($rc, $out) = sh("strace -f -e trace=open,openat $pack -q -o $t/s.shard $t/set/images");
	my @tmp = $out =~ /(.*\.tmp\.\d+\.[0-9a-f]{8}".*)/g;
	seen(@tmp && !(grep { !/O_EXCL/ || !/O_NOFOLLOW/ } @tmp), 'O_EXCL | O_NOFOLLOW', $out);
}

# ---- outputs that are inputs, or one another ----

sub refused {			# status 2, one line, and every file is as it was
	my ($what, $command, @file) = @_;
	my @before = map { bytes($_) } @file;
	my ($rc, $out) = sh($command);
	my @after = map { bytes($_) } @file;
	seen($rc == 2 && "@before" eq "@after" && $out =~ /\A.*(an input|two outputs).*\n\z/, $what,
	    "status $rc", $out);
}

my $json = "$t/coco/instances.json";
sh("./yolo-prep -q -x $t/coco -f coco $t/open.shard");
sh("ls $t/set/images/*.jpg >$t/list");
spew("$t/dets.tsv", "#image\tclass\tscore\tx\ty\tw\th\n");
my $weights = "$t/r0/best.weights";
my $copy = "$t/coco/../coco/instances.json";
refused('yolo-eval -o on the truth', "./yolo-eval -t $json -o $copy $t/dets.tsv", $json);
refused('yolo-eval -r on the detections', "./yolo-eval -t $json -r $t/dets.tsv $t/dets.tsv",
    "$t/dets.tsv");
refused('yolo-eval -O pr on the truth', "./yolo-eval -t $json -O pr=$json $t/dets.tsv", $json);
refused('yolo-eval -o and -r on one file', "./yolo-eval -t $json -o $t/n1 -r $t/./n1 $t/dets.tsv");
symlink 'instances.json', "$t/coco/link";
refused('yolo-eval -o on a link to the truth', "./yolo-eval -t $json -o $t/coco/link $t/dets.tsv",
    $json);
my $detect = "./yolo-detect -q -d cpu -c $t/r0/run.cfg -w $weights -n $t/set/names";
my $picture = "$t/set/images/000001.jpg";
refused("yolo-detect -o on $_->[0]", "$detect -o $_->[1] $picture", $_->[1])
    for ['its weights', $weights], ['its cfg', "$t/r0/run.cfg"], ['its names', "$t/set/names"],
    ['its picture', $picture];
refused('yolo-prep -l and -o on one file', "$pack -l $t/n2 -o $t/n2 $t/set/images");
refused('yolo-prep -o on its list', "$pack -o $t/list $t/list", "$t/list");
refused('yolo-prep -l on its list', "$pack -o $t/n3 -l $t/list $t/list", "$t/list");
refused('yolo-prep -o on its names', "$pack -o $t/set/names $t/set/images", "$t/set/names");
refused('yolo-prep -o on its json', "$pack -o $json $json:$t/coco/images", $json);
refused('yolo-anchors -o on its cfg', "tools/yolo-anchors -c $t/r0/run.cfg -o $t/r0/run.cfg " .
    "$t/open.shard", "$t/r0/run.cfg");
seen(!(grep { -e "$t/$_" } 'n1', 'n2', 'n3'), 'and nothing was made');
($rc, $out) = sh("./yolo-eval -t $json -o /dev/null -r /dev/null $t/dets.tsv");
seen(!$rc, '/dev/null may be named twice', "status $rc", $out);

# ---- a header of brackets ----

for (['a tensor', '{"a":' . '[' x 1e6], ['a whole one', '{"a":' . '[' x 1e6 . ']' x 1e6 . '}'],
    ['the metadata', '{"__metadata__":' . '{"a":' x 65 . '1' . '}' x 66],
    ['a quote in a comment', '{"a":/*"*/' . '[' x 1e6],
    ['strings with a backslash', '{"\\\\":' . '[' x 1e6]) {
	my ($what, $head) = @$_;
	spew("$t/deep.safetensors", pack('Q<', length $head) . $head);
	($rc, $out) = sh("$detect -w $t/deep.safetensors $picture");
	seen($rc == 1 && $out =~ /\A.*deep.safetensors: bad header: .*too deep\n\z/,
	    "brackets in brackets, $what", "status $rc", $out);
}
my $head = '{"__metadata__":{"cfg":"' . '[{\\"\\\\' x 1000 . '"}}';
spew("$t/deep.safetensors", pack('Q<', length $head) . $head);
($rc, $out) = sh("$detect -w $t/deep.safetensors $picture");
seen($rc == 1 && $out !~ /too deep/, 'those in strings do not count', "status $rc", $out);

# ---- two runs in one folder ----

sub wait_for {			# until the file has such a line, 20 s
	my ($path, $line) = @_;
	for (1 .. 400) {
		return 1 if -e $path && bytes($path) =~ $line;
		select undef, undef, undef, .05;
	}
	return 0;
}

sub start {			# a program in the background
	my $child = fork;
	return $child if $child;
	exec "exec $_[0] >$t/bg.out 2>$t/bg.err";
}

sub end {			# its status, after a signal
	my ($child, $sig) = @_;
	kill $sig, $child if $sig;
	waitpid $child, 0;
	return $? & 127 ? 128 + ($? & 127) : $? >> 8;
}

my $long = "timeout 20 ./yolo-train -q -c test/small.cfg -d cpu -O threads=1 -e 100000";
for my $g (1, 2) {
	my $run = "$t/lock$g";
	my $child = start(substr("$long -g $g -o $run $t/open.shard", 11));
	seen(wait_for("$run/log.tsv", qr/^\d/m), "-g $g: a run", bytes("$t/bg.err"));
	for my $second ("$long -o $run $t/open.shard", "$long -g 2 -o $run $t/set/images",
	    "./yolo-train -q -R -o $run") {
		my $had = -e "$run/train.shard" && readlink "$run/train.shard";
		($rc, $out) = sh($second);
		seen($rc == 1 && $out =~ /\A.*\Q$run\E: another run .*\n\z/ &&
		    readlink "$run/train.shard" eq $had, 'a second one is refused', $out);
	}
	$rc = end($child, 'TERM');
	seen($rc == 143, 'the first is as it was', "status $rc", bytes("$t/bg.err"));
	($rc, $out) = sh("./yolo-train -q -R -g $g -O steps=1 -o $run");
	seen(!$rc, 'after its end the folder is free', $out);
	$child = start("./yolo-train -q -R -g $g -o $run");
	wait_for("$t/bg.out", qr/^\d/m);
	end($child, 'KILL');
	($rc, $out) = sh("./yolo-train -q -R -g $g -O steps=1 -o $run");
	seen(!$rc, 'and after SIGKILL', $out);
}

done_testing();
