#!/usr/bin/perl
# meetingfiles.t -- files that meet what they should not: messages in a shard, links under a
# temporary name, two runs in one folder, outputs that are inputs.
use strict;
use warnings;
use File::Temp qw(tempdir);

my $t = tempdir(CLEANUP => 1);
my $n = 0;

sub ok {
	my ($good, $what, @why) = @_;
	print $good ? '' : 'not ', 'ok ', ++$n, " - $what\n";
	print map { "# $_\n" } split /\n/, join "\n", @why if !$good;
	return $good;
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

sub put {
	my ($path, $text) = @_;
	open my $h, '>:raw', $path or die "$path: $!";
	print $h $text;
	close $h or die "$path: $!";
}

my ($rc, $out) = sh("tools/yolo-synth -q -n 6 -s 96 -S 3 -o $t/set");
ok(!$rc, 'a set', $out);

# ---- closed standard descriptors ----

put("$t/set/labels/000000.txt", "0 .5 .5 .2 .2\n0 .5 .5 0 0\n");	# something to say
my $pack = "./yolo-prep -j 1 -n $t/set/names";
($rc, $out) = sh("$pack -o $t/open.shard $t/set/images");
ok(!$rc && $out =~ /000000/, 'a pack that says something', $out);
for my $closed ('2>&-', '<&- 2>&-', '<&- >&- 2>&-') {
	sh("$pack -o $t/closed.shard $t/set/images $closed");
	ok(bytes("$t/closed.shard") eq bytes("$t/open.shard"), "$closed: the same shard");
}
($rc) = sh("./yolo-prep -t $t/open.shard >&-");
ok($rc == 1, 'a table that nobody gets is status 1', "status $rc");
my $train = './yolo-train -q -c test/small.cfg -d cpu -O threads=1 -O steps=3';
($rc, $out) = sh("$train -o $t/r0 $t/open.shard <&- 2>&-");
ok(!$rc, 'a run of which stdin and stderr are closed', $out);
ok(join(' ', sort map { m{([^/]+)$} } glob "$t/r0/*") !~ /tmp/ &&
    bytes("$t/r0/log.tsv") =~ /^#step[^#]*$/ && bytes("$t/r0/log.tsv") !~ /yolo-train/,
    'no message is in its log', bytes("$t/r0/log.tsv"));

# ---- temporary names ----

# Links under every name that was used before: of any process to come.
mkdir "$t/tmp";
put("$t/victim", 'mine');
symlink "$t/victim", "$t/tmp/out.shard.tmp.$_" for $$ .. $$ + 2000;
($rc, $out) = sh("$pack -q -o $t/tmp/out.shard $t/set/images");
ok(!$rc && bytes("$t/victim") eq 'mine', 'a link under the old temporary name is not followed',
    "status $rc", $out);
ok(bytes("$t/tmp/out.shard") eq bytes("$t/open.shard"), 'and the shard is there');
($rc, $out) = sh("strace -V");
if ($rc) {
	ok(1, 'O_EXCL | O_NOFOLLOW # SKIP no strace');
} else {
	($rc, $out) = sh("strace -f -e trace=open,openat $pack -q -o $t/s.shard $t/set/images");
	my @tmp = $out =~ /(.*\.tmp\.\d+\.[0-9a-f]{8}".*)/g;
	ok(@tmp && !(grep { !/O_EXCL/ || !/O_NOFOLLOW/ } @tmp), 'O_EXCL | O_NOFOLLOW', $out);
}

print "1..$n\n";
