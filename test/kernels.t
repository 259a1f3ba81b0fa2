#!/usr/bin/perl
# kernels.t -- every kernel of every .cu file runs under the emulator at block sizes 1, 4, 32, 64
# and 256, on data whose results must be the CPU build's bits.  The tests t-emu-* are run here; they
# say what they ran.
use strict;
use warnings;

my @sizes = (1, 4, 32, 64, 256);
my (%kernel, %ran, %exact, $n);

for my $f (glob('*.cu */*.cu')) {
	open my $h, '<', $f or die "$f: $!";
	my @line = <$h>;
	for my $i (0 .. $#line - 1) {
		next unless $line[$i] =~ /^KERNEL$/;
		my ($name) = $line[$i + 1] =~ /^(\w+)\(/ or die "$f:$i: KERNEL, but no name";
		$kernel{"$f $name"} = 1;
	}
}
my @tests = grep { -x } map { "test/t-emu-$_" } qw(conv layers loss optim);
for my $t (@tests) {
	open my $h, '-|', "$t" or die "$t: $!";
	my ($good, @bad) = (0);
	while (<$h>) {
		$good++ if /^ok/;
		push @bad, $_ if /^not ok/ || @bad && /^# \[/;
		my ($k, $ran, $exact) = /^# kernel (\S+ \S+) ran([ \d]*) exact([ \d]*)$/ or next;
		$ran{$k}{$_} = 1 for split ' ', $ran;
		$exact{$k}{$_} = 1 for split ' ', $exact;
	}
	close $h;
	print $? || @bad || !$good ? 'not ' : '', 'ok ', ++$n, " - $t: $good results\n";
	print "# $_" for @bad;
}
if (!@tests) {
	print "1..0 # SKIP no emulator test is built\n";
	exit 0;
}
for my $k (sort keys %kernel) {
	my @no = grep { !$ran{$k}{$_} } @sizes;
	my @near = grep { !$exact{$k}{$_} } @sizes;
	print @no || @near ? 'not ' : '', 'ok ', ++$n, " - $k\n";
	print "# does not run at @no\n" if @no;
	print "# is not compared bit for bit at @near\n" if @near;
}
my @other = grep { !$kernel{$_} } sort keys %ran;
print @other ? 'not ' : '', 'ok ', ++$n, " - nothing else runs\n";
print "# $_\n" for @other;
print "1..$n\n";
