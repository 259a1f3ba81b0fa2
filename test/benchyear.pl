# benchyear.pl -- a simulated year of nights: what yolo-bench check and steps say of planted
# changes.
#
# Times are those of test/bench-noise.tsv, runs of step on the demo net one after the other on a
# machine that others used too, in pieces of ten from a place drawn anew.  That machine has no
# counter of instructions: their noise is drawn, with a deviation of .2 percent.
use strict;
use warnings;
use File::Temp 'tempdir';

our @scenario = (		# name, factor of a night's work, of its time besides
	['unplanted', sub { 1 }],
	['+0.5 %', sub { $_[0] >= $_[1] ? 1.005 : 1 }],
	['+1 %', sub { $_[0] >= $_[1] ? 1.01 : 1 }],
	['+3 %', sub { $_[0] >= $_[1] ? 1.03 : 1 }],
	['+10 %', sub { $_[0] >= $_[1] ? 1.10 : 1 }],
	['drift, +5 % in 90', sub {
		my $d = $_[0] - $_[1];
		return 1 + .05 * ($d < 0 ? 0 : $d > 90 ? 1 : $d / 90);
	}],
	['one bad night', sub { 1 }, sub { $_[0] == $_[1] ? 2 : 1 }],
	['another machine', sub { 1 }, sub { $_[0] >= $_[1] ? .8 : 1 }],
	['+10 %, back in 40', sub { $_[0] >= $_[1] && $_[0] < $_[1] + 40 ? 1.10 : 1 }],
);
my $t = tempdir(CLEANUP => 1);
my @column = qw(time key command commit host cpu median_ms instructions busy end);
my $state = 1;

sub uniform {
	$state = ($state * 69069 + 1) & 0xffffffff;
	return $state / 4294967296;
}

sub recorded {			# times of the runs, each by their median
	my (@at, @ms);
	open my $f, '<', 'test/bench-noise.tsv' or die "test/bench-noise.tsv: $!";
	while (<$f>) {
		chomp;
		my @v = split /\t/;
		if (/^#time/) {
			@at = grep { $v[$_] eq 'median_ms' } 0 .. $#v;
		} elsif (!/^#/) {
			push @ms, $v[$at[0]];
		}
	}
	my $median = (sort { $a <=> $b } @ms)[@ms / 2];
	return map { $_ / $median } @ms;
}
my @noise = recorded();

sub nights {			# of a year, as [time, work]
	my ($scenario, $n, $change, $seed) = @_;
	my ($at, @night) = (0);
	$state = $seed;
	for my $i (0 .. $n - 1) {
		$at = $i % 10 ? ($at + 1) % @noise : int(uniform() * @noise);
		my $gauss = -6;
		$gauss += uniform() for 1 .. 12;
		my $work = $scenario->[1]->($i, $change);
		my $ms = 100 * $noise[$at] * $work;
		$ms *= $scenario->[2]->($i, $change) if $scenario->[2];
		push @night, [$ms, 1e9 * $work * (1 + .002 * $gauss)];
	}
	return @night;
}

sub date {
	my @t = gmtime(1735700400 + 86400 * $_[0]);
	return sprintf '%04d-%02d-%02dT%02d:00:00Z', $t[5] + 1900, $t[4] + 1, @t[3, 2];
}

# One year: alarms by check, from night $from to $to, before and after the change (nights since it),
# and what steps finds at its end.
our $year = sub {
	my ($scenario, $n, $change, $from, $to, $seed, $counted) = @_;
	my (@alarm, @step, $other);
	my $night = 0;
	open my $f, '>', "$t/h" or die;
	$f->autoflush(1);
	print $f "#yolo-bench history, schema 1\n#", join("\t", @column), "\n";
	for (nights($scenario, $n, $change, $seed)) {
		my $swap = $scenario->[0] eq 'another machine' && $night >= $change;
		print $f join("\t", date($night), $swap ? 'bbbb' : 'aaaa', 'step', "c$night", 'h',
		    $swap ? 'new' : 'old', sprintf('%.4f', $_->[0]),
		    $counted ? sprintf('%.0f', $_->[1]) : '-', '-', '.'), "\n";
		if ($night >= $from && $night <= $to) {
			my $r = system("./yolo-bench check -H $t/h >$t/out") >> 8;
			push @alarm, $night - $change if $r == 1;
			$other++ if $r > 1;
		}
		$night++;
	}
	close $f;
	for (`./yolo-bench steps -H $t/h`) {
		my @v = split /\t/;
		next if /^#/ || $counted != ($v[2] eq 'instructions');
		my ($k) = grep { date($_) eq $v[3] } 0 .. $n;
		push @step, [$k - $change, $v[4]];
	}
	return { before => [grep { $_ < 0 } @alarm], after => [grep { $_ >= 0 } @alarm],
	    steps => \@step, cannot => $other || 0 };
};
1;
