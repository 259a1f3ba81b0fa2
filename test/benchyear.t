#!/usr/bin/perl
# benchyear.t -- nights of recorded noise with planted changes; test/long/benchyear.t has a year.
use strict;
use warnings;
our (@scenario, $year);
require './test/benchyear.pl';

my $n = 0;
sub ok {
	my ($good, $what) = @_;
	print $good ? '' : 'not ', 'ok ', ++$n, " - $what\n";
}

sub months {			# scenario, by instructions too?
	my ($name, $counted) = @_;
	my ($s) = grep { $_->[0] eq $name } @scenario;
	return $year->($s, 60, 40, 25, 43, 1, $counted);
}
my $r = months('unplanted', 0);
ok(!@{$r->{before}} && !@{$r->{after}} && !$r->{cannot}, 'nothing planted, nothing found');
for ('+1 %', '+3 %') {
	$r = months($_, 1);
	ok(!@{$r->{before}} && "@{$r->{after}}" =~ /^0 1/, "$_: by instructions the first night");
	ok(@{$r->{steps}} == 1 && abs($r->{steps}[0][0]) <= 1, "$_: steps has its place");
}
$r = months('one bad night', 0);
ok(!@{$r->{after}}, 'one bad night is no alarm');
$r = months('another machine', 0);
ok(!@{$r->{after}} && $r->{cannot} == 4, 'another machine is not compared');
print "1..$n\n";
