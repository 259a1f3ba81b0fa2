#!/usr/bin/perl
# sameinput.t -- one input means the same to every program: lines of lists, the order of folders,
# files that cannot be read, and what comes out of a shard goes back in.
use strict;
use warnings;
use Cwd;
use Test::More;
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
is(threads($_), 1, "OMP_NUM_THREADS=$_ is one thread") for qw(1 1,1 1,4);
is(threads('x'), threads(''), 'what is no number says nothing');
chdir $top;
done_testing();
