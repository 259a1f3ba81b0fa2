#!/usr/bin/perl
# sameinput.t -- one input means the same to every program: lines of lists, the order of folders,
# files that cannot be read, and what comes out of a shard goes back in.
use strict;
use warnings;
use Cwd;
use lib 'test';
use Tap qw(:DEFAULT run);
require './test/detect.pl';

our ($dir, %cells);
my $top = getcwd();
my @m = ('-c', cfg("$dir/cells.cfg"), '-w', weights("$dir/cells.weights", %cells));
my ($prep, $detect, $eval) = map { "$top/yolo-$_" } qw(prep detect eval);
my ($rc, $out, $err);

sub picture { return ppm($_[0], 32, 32, [ 8, 16, 8, 8, 255, 0, 0 ]); }

# The pictures that yolo-prep and yolo-detect find, in their order.
sub prep_names {
	my @in = @_;
	($rc, $out, $err) = run($prep, '-q', '-o', "$dir/o.shard", @in);
	return "status $rc: $err" if $rc;
	return join '|', map { (split /\t/)[2] } grep { !/^#/ }
	    split /\n/, (run($prep, '-t', "$dir/o.shard"))[1];
}
sub detect_names {
	my %seen;
	($rc, $out, $err) = run($detect, '-q', @m, @_);
	return "status $rc: $err" if $rc;
	return join '|', grep { !$seen{$_}++ } map { (split /\t/)[0] }
	    grep { !/^#image\t/ } split /\n/, $out;
}

# ---- lines of a list ----
chdir $dir or die;
mkdir $_ for qw(l l/sub);
picture($_) for 'l/blank.ppm ', 'l/plain.ppm', 'l/#hash.ppm', 'l/sub/back.ppm';
spew('l/list.txt', "blank.ppm \n\tplain.ppm \t\r\n\n#hash.ppm\n# a comment\nsub\\back.ppm\n");
my $want = 'blank.ppm |plain.ppm|#hash.ppm|sub/back.ppm';
is(prep_names('l/list.txt'), $want, 'yolo-prep: blanks, comments, backslashes of a list');
is(detect_names('l/list.txt'), $want, 'yolo-detect: the same');

# ---- folders ----
mkdir $_ for qw(w w/a w/a-b);
picture("w/$_") for qw(a/z.ppm a-b/x.ppm a.ppm);
$want = 'w/a/z.ppm|w/a-b/x.ppm|w/a.ppm';
is(prep_names('w'), $want, 'yolo-prep: the names of each folder in order');
is(detect_names('w'), $want, 'yolo-detect: the same order');

# ---- threads ----
sub threads {
	local $ENV{OMP_NUM_THREADS} = $_[0];
	return (run($detect, '-V'))[1] =~ /cpu: (\d+) thread/ ? $1 : 'none said';
}
is(threads($_), 1, "OMP_NUM_THREADS=$_ is one thread") for '1', '1,1', '1,4';
is(threads('x'), threads(''), 'what is no number says nothing');

# ---- what is there and cannot be read ----
sub fails {			# program and arguments, pattern of stderr, what it is
	my ($cmd, $why, $what) = @_;
	($rc, $out, $err) = run(@$cmd);
	ok($rc == 1 && $err =~ $why, $what) or diag("status $rc: $err");
}
my $box = "0 .5 .5 .25 .25\n";
my @way = (			# how a label cannot be read, errno's words
	[ 'a folder', sub { mkdir $_[0] }, qr/Is a directory/ ],
	[ 'a loop of links', sub { symlink 'x.txt', $_[0] }, qr/Too many levels/ ],
	[ 'a dead link', sub { symlink 'nowhere', $_[0] }, qr/No such file/ ],
	[ 'EIO', sub { symlink '/proc/self/mem', $_[0] }, qr/Input\/output error/ ],
);
spew('names', "a\nb\n");
for (0 .. $#way) {
	my ($name, $make, $words) = @{$way[$_]};
	mkdir "r$_";
	picture("r$_/x.ppm");
	picture("r$_/a.ppm");
	spew("r$_/a.txt", $box);
	$make->("r$_/x.txt");
	my $why = qr/r$_\/x\.txt: $words/;
	fails([ $prep, '-q', '-o', 'no.shard', "r$_" ], $why, "yolo-prep: a label that is $name");
	ok(!-e 'no.shard', 'nothing written');
	is((run($prep, '-q', '-m', 1, '-o', 'one.shard', "r$_"))[0], 0, '-m 1 lets it pass');
	is(prep_names('one.shard'), "r$_/a.ppm", 'without its picture');
	spew("r$_.tsv", "#image\tclass\tname\tscore\tx\ty\tw\th\n");
	fails([ $eval, '-q', '-t', "r$_", '-n', 'names', "r$_.tsv" ], $why,
	    "yolo-eval: truth that is $name");
	mkdir "t$_";
	spew("t$_/a.txt", "0 1 2 3 4\n");
	$make->("t$_/x.txt");
	fails([ $eval, '-q', '-t', "t$_", "r$_.tsv" ], qr/t$_\/x\.txt: $words/,
	    "yolo-eval: a folder of txt, $name");
}
fails([ "$top/yolo-train", '-q', '-c', "$dir/cells.cfg", '-e', 1, '-o', 'run', 'r0' ],
    qr/r0\/x\.txt: Is a directory/, 'yolo-train');
mkdir 'io';
symlink '/proc/self/mem', 'io/x.ppm';
fails([ $prep, '-q', '-o', 'no.shard', 'io' ], qr/x\.ppm: Input\/output error/,
    'a picture and EIO: not an empty one');

# ---- out of a shard and in again ----
is((run("$top/tools/yolo-synth", '-q', '-n', 12, '-s', 96, '-S', 3, '-o', 'syn'))[0], 0, 'a set');
is((run($prep, '-q', '-n', 'syn/names', '-o', 's.shard', 'syn/images'))[0], 0, 'packed');
sub boxes { return join "\n", map { s/^(?:[^\t]*\t){4}//r } split /\n/, (run($prep, '-t', @_))[1]; }
{
	local $ENV{TMPDIR} = '/nowhere';
	is((run($prep, '-q', '-x', 'xc', '-f', 'coco', 's.shard'))[0], 0, 'unpacked as COCO');
}
is((run($prep, '-q', '-o', 'c.shard', 'xc/instances.json'))[0], 0, 'COCO packed again');
is(boxes('c.shard'), boxes('s.shard'), 'every box of it');
is((run($prep, '-q', '-x', 'xy', 's.shard'))[0], 0, 'unpacked as YOLO');
my @label = glob('syn/labels/*.txt');
@label = glob('syn/images/*.txt') if !@label;
my %was = map { m{([^/]+)$} => slurp($_) =~ s/(\.\d*?[1-9]?)0+\b/$1/gr } @label;
my %is = map { m{([^/]+)$} => slurp($_) } split /\n/, `find xy -name '*.txt' ! -name list.txt`;
ok(scalar(@label), 'labels');
is_deeply(\%is, \%was, 'the labels as they were, but for zeros at the ends');
is((run($prep, '-q', '-n', 'xy/names', '-o', 'y.shard', 'xy/images'))[0], 0, 'packed again');
is((run($prep, '-q', '-x', "co-$_", '-f', 'coco', "$_.shard"))[0], 0, "COCO of $_") for 's', 'y';
sub bboxes {
	return join "\n", slurp("co-$_[0]/instances.json") =~
	    /"bbox":\[[^\]]*\],"area":[^,]*/g;
}
is(bboxes('y'), bboxes('s'), 'and its boxes to the last bit');

# ---- names that JSON and XML cannot hold ----
for ("\xb9\xb7", "\xed\xa0\x80") {
	spew('gbk.names', "a\n$_\n");
	is((run($prep, '-q', '-n', 'gbk.names', '-o', 'g.shard', 'w'))[0], 0, 'packed');
	fails([ $prep, '-q', '-x', 'xg', '-f', $_->[0], 'g.shard' ],
	    qr/class '.*not UTF-8, $_->[1]/, $_->[1]) for [ 'coco', 'JSON' ], [ 'voc', 'XML' ];
}
is((run($prep, '-q', '-x', 'xg', 'g.shard'))[0], 0, 'YOLO holds any');
chdir $top;
done_testing();
