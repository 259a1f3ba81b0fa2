#!/usr/bin/perl
# benchcheck.t -- yolo-bench check, mark, steps and report on histories made here.
use strict;
use warnings;
use File::Temp 'tempdir';

my $t = tempdir(CLEANUP => 1);
my ($n, $seed, $out, $err, $status) = (0, 1);

sub ok {
	my ($good, $what) = @_;
	print $good ? '' : 'not ', 'ok ', ++$n, " - $what\n";
	print "# status $status: $out$err\n" if !$good;
}

sub noise {			# about normal, deviation 1
	my $sum = -6;
	for (1 .. 12) {
		$seed = ($seed * 69069 + 1) & 0xffffffff;
		$sum += $seed / 4294967296;
	}
	return $sum;
}

my @column = qw(time key command commit build host kernel median_ms instructions busy note end);
sub history {			# runs: hashes of what is not usual
	open my $f, '>', "$t/h" or die "$t/h: $!";
	print $f "#yolo-bench history, schema 1\n#", join("\t", @column), "\n";
	my $day = 0;
	for (@_) {
		my $date = sprintf '2025-%02d-%02d', 1 + $day / 28, 1 + $day % 28;
		my %run = (time => "${date}T03:00:00Z",
		    key => 'aaaa0001', command => 'step', commit => 'c' . int($day / 10),
		    build => 'b1', host => 'h', kernel => '6.1', median_ms => 100 + noise(),
		    instructions => '-', busy => '-', note => '-', end => '.', %$_);
		print $f join("\t", @run{@column}), "\n";
		$day++;
	}
	close $f;
}

sub bench {
	my @arg = map { "'$_'" } @_;
	$status = system("./yolo-bench @arg >$t/out 2>$t/err") >> 8;
	local $/;
	open my $o, '<', "$t/out" or die;
	open my $e, '<', "$t/err" or die;
	($out, $err) = (scalar <$o>, scalar <$e>);
	return $status;
}
my @usual = map { {} } 1 .. 40;
my @slow = map { { median_ms => 110 + noise() } } 1 .. 3;

history(@usual);
ok(bench('check', '-H', "$t/h") == 0 && $out eq '' && $err eq '', 'check: fine is silent');
history(@usual, $slow[0]);
ok(bench('check', '-H', "$t/h") == 0 && $out eq '', 'one bad night is none');
history(@usual, @slow[0, 1]);
ok(bench('check', '-H', "$t/h") == 1 && $out =~ /^worse: step.*median ms 1\d\d.*\n$/ &&
    $out =~ /commits c3\.\.c4/, 'two in a row are one line and 1, with the commits between');
ok(bench('check', '-H', "$t/h", '-O', 'wall=20') == 0, 'thresholds are options');
ok(bench('mark', '-H', "$t/h", 'a slower, better loss') == 0 &&
    bench('check', '-H', "$t/h") == 2 && $out =~ /1 runs since the mark/, 'mark begins anew');
history(@usual[0 .. 3]);
ok(bench('check', '-H', "$t/h") == 2 && $out =~ /^cannot say: .*4 runs/, 'too few runs: 2');
history(@usual, { busy => 'others' });
ok(bench('check', '-H', "$t/h") == 2 && $out =~ /busy: others/, 'a busy machine: 2');
history(@usual, @slow[0, 1], { busy => 'x', median_ms => 500 }, $slow[2]);
ok(bench('check', '-H', "$t/h") == 1, 'a busy run between two bad ones is passed over');
history(@usual, { time => '2999-01-01T00:00:00Z' });
ok(bench('check', '-H', "$t/h") == 2 && $out =~ /is to come/, 'a run from the future: 2');
history((map { { instructions => 1e9 + 2e6 * noise() } } 1 .. 40), { instructions => 1.012e9 });
ok(bench('check', '-H', "$t/h") == 1 && $out =~ /instructions 1\.012e\+09, \+1\.2/,
    'one percent more instructions: 1 at once');
history(@usual, map { { key => 'bbbb0002', host => 'other' } } 1 .. 3);
ok(bench('check', '-H', "$t/h") == 2 && $out =~ /other.*3 runs/ &&
    bench('check', '-H', "$t/h", '-k', 'aaaa') == 0 && bench('check', '-a', '-H', "$t/h") == 2,
    'a new machine has no baseline; -k and -a');
ok(bench('check', '-H', "$t/h", '-k', 'cccc') == 2 && $err =~ /no run of this key/, '-k of none');
ok(bench('check', '-H', "$t/none") == 2 && $err =~ /No such file/, 'no history: 2');
ok(bench('mark', '-H', "$t/h") == 2 && $err =~ /want a text/, 'mark wants a text');
ok(bench('mark', '-H', "$t/h", '-t', 'yesterday', 'x') == 2 && $err =~ /want a time/, 'and a time');

history(@usual, (map { { median_ms => 105 + noise(), kernel => '6.2' } } 1 .. 40),
    map { { median_ms => 95 + noise(), kernel => '6.2' } } 1 .. 40);
bench('steps', '-H', "$t/h");
my @step = map { [split /\t/] } grep { !/^#/ } split /\n/, $out;
ok(@step == 2 && abs($step[0][4] - 5) < 1 && abs($step[1][4] + 9.5) < 1 && $step[0][7] <= .005 &&
    $step[0][3] =~ /^2025-02-1[123]/, 'steps: both are found, their place and size');
ok($step[0][10] =~ /commits c\d\.\.c\d; kernel 6\.1 -> 6\.2|the same|c4/, 'and what is between');
bench('mark', '-H', "$t/h", '-t', '2025-02-13T00:00:00Z', '-k', 'aaaa', 'a <new> kernel & more');
ok(bench('report', '-H', "$t/h", '-o', "$t/r.html") == 0, 'report');
my $page = do { local $/; open my $f, '<', "$t/r.html" or die; <$f> };
ok($page =~ /a &lt;new&gt; kernel &amp; more/, 'what comes from the history is text');
ok($page !~ /(src|href)=|url\(|\@import/, 'it needs nothing else');
ok(($page =~ s/<circle//gr) ne $page && (() = $page =~ /<circle/g) == 120, 'a point a run');
ok($page =~ m{<h3>Marks</h3>.*<td class="t">2025-02-13T00:00:00Z</td>}s, 'marks too');
ok($page =~ /change since.*\+5\.\d/s, 'changes in a table');
$page =~ s{<script>.*?</script>}{}s;		# it sorts tables by a click, no more
my @open;
my $bad = 0;
while ($page =~ m{<(/?)(\w+)[^>]*?(/?)>}g) {
	next if $3 || $2 eq 'meta';
	if ($1) {
		$bad++ if !@open || pop @open ne $2;
	} else {
		push @open, $2;
	}
}
ok(!$bad && !@open, 'every element is closed');
ok(bench('report', '-H', "$t/h", '-o', "$t/h") == 1 && $err =~ /an output that is an input/,
    'the history is not written over');
# What cron runs, with a step of a stand-in: silent, busy, worse.
mkdir "$t/bin";
for (['fine', 'exit 0'], ['busy', 'echo busy >&2; exit 75'], ['bad', 'echo no >&2; exit 1']) {
	my ($what, $step) = @$_;
	open my $f, '>', "$t/bin/yolo-bench" or die;
	print $f qq{#!/bin/sh\n[ "\$1" = check ] && exec ./yolo-bench "\$@"\n$step\n};
	close $f;
	chmod 0755, "$t/bin/yolo-bench";
	history(@usual);
	$status = system("PATH=$t/bin:\$PATH TRY=0 doc/bench-night $t/h >$t/out 2>&1") >> 8;
	$out = do { local $/; open my $o, '<', "$t/out" or die; <$o> } // '';
	$err = '';
	ok($status == { fine => 0, busy => 75, bad => 1 }->{$what} &&
	    $out eq { fine => '', busy => "busy\n", bad => "no\n" }->{$what}, "bench-night: $what");
}
print "1..$n\n";
