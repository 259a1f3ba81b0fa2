#!/usr/bin/perl
# benchyear.t -- a year of nights with planted changes: what is detected, when, and false alarms.
use strict;
use warnings;
our (@scenario, $year);
require './test/benchyear.pl';

my $n = 0;
sub ok {
	my ($good, $what) = @_;
	print $good ? '' : 'not ', 'ok ', ++$n, " - $what\n";
}

my %of;
printf "# %-20s %-12s %8s %8s %6s %6s  %s\n", 'planted at night 180', 'by', 'false', 'first',
    'alarms', 'cannot', 'change points: nights after it, percent';
for my $s (@scenario) {
	for my $counted (0, 1) {
		my @from_to = $s->[0] eq 'unplanted' ? (12, 364) : (170, 280);
		my $r = $year->($s, 365, 180, @from_to, 1, $counted);
		$of{$s->[0]}[$counted] = $r;
		printf "# %-20s %-12s %8d %8s %6d %6d  %s\n", $s->[0],
		    $counted ? 'instructions' : 'time', scalar @{$r->{before}},
		    @{$r->{after}} ? '+' . $r->{after}[0] : '-', scalar @{$r->{after}},
		    $r->{cannot}, join ' ', map { sprintf '%+d:%s', @$_ } @{$r->{steps}};
	}
}
my ($time, $both) = @{$of{unplanted}};
ok(!@{$time->{before}} && !@{$time->{after}}, 'no alarm from time in the unplanted year');
ok(!@{$both->{before}} && !@{$both->{after}}, 'nor from instructions');
for ('+3 %', '+10 %', '+10 %, back in 40') {
	my $r = $of{$_}[1];
	ok(@{$r->{after}} && $r->{after}[0] <= 2, "$_: within three nights");
}
ok(@{$of{'one bad night'}[0]{after}} == 0, 'one bad night is no alarm');
ok(@{$of{'another machine'}[0]{after}} == 0 && $of{'another machine'}[0]{cannot} > 0,
    'another machine is not compared');
for ('+1 %', '+3 %', '+10 %', '+10 %, back in 40', 'drift, +5 % in 90') {
	my $r = $of{$_}[1];
	ok(scalar(@{$r->{steps}}) && abs($r->{steps}[0][0]) <= (/drift/ ? 90 : 1), "steps: $_");
}
print "1..$n\n";
