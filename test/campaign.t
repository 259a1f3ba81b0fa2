#!/usr/bin/perl
# campaign.t -- tools/campaign on a made-up yolo-train: its table, what it repeats and refuses.
use strict;
use warnings;
use lib 'test';
use Tap;

mkdir "$tmp/$_" for qw(tools bin);
system('cp', 'tools/campaign', "$tmp/tools/campaign");
# Its AP: by set, recipe and seed; it fails once where a file asks for it.
spew('yolo-train', <<'!');
#!/usr/bin/perl
my $i = 0;
my %o = map { $i++; $_ => $ARGV[$i] } @ARGV;
open my $c, '>>', "$ENV{CALLS}"; print $c "@ARGV\n";
mkdir $o{-o};
open my $s, '>', "$o{-o}/last.safetensors";
exit 143 if -e $ENV{CALLS} . '.stop' && unlink $ENV{CALLS} . '.stop';
my ($base) = $o{-c} =~ /(\d+)/;
my $more = "@ARGV" =~ /lr=2/ ? 5 + $o{-S} : "@ARGV" =~ /lr=3/ ? -3 : 0;
my $ap = ($base + $more) / 100;
open my $v, '>', "$o{-o}/val.tsv";
print $v "#step\tepoch\tAP\tAP50\n1\t1\t.01\t.02\n2\t2\t$ap\t.5\n";
open my $l, '>', "$o{-o}/log.tsv";
print $l "#step\timages\timg_s\n1\t8\t4\n2\t16\t2\n";
!
chmod 0755, "$tmp/yolo-train";
$ENV{CALLS} = "$tmp/calls";
my $plan = spew('plan', <<'!');
# two sets
set large l.shard lv.shard c40.cfg -e 3
set small s.shard sv.shard c10.cfg
recipe base
recipe fast -O lr=2	# better by .05, .06, .07
recipe slow -O lr=3
!
sub campaign { return Tap::run("$tmp/tools/campaign", @_) }
sub calls { return scalar(() = (slurp("$tmp/calls") // '') =~ /\n/g) }

my ($rc, $out, $err) = campaign('-n', '-o', "$tmp/c", $plan);
is(() = $out =~ /\n/g, 18, 'two sets, three recipes, three seeds');
like($out, qr/-c c40\.cfg -e 3 -S 2 -O lr=2 -o \S+large-fast-2 -v lv\.shard l\.shard$/m,
    'a command');
is(calls(), 0, '-n runs nothing');
spew("$tmp/calls.stop", '');
($rc, $out, $err) = campaign('-o', "$tmp/c", $plan);
is($rc, 1, 'a run that ends ends the campaign');
like($err, qr/large-base-0: yolo-train ended with status 143/, 'and is named');
($rc, $out, $err) = campaign('-o', "$tmp/c", $plan);
is("$rc$err", 0, 'begun again');
is(calls(), 19, 'each run once more only if it had not ended');
like(slurp("$tmp/calls"), qr/^\S.*large-base-0 -R$/m, 'and that one goes on');
my @row = map { [split /\t/] } split /\n/, $out;
is("@{$row[1]}[1 .. 3]", '0.400 0.100 2.00', 'the first recipe: medians, mean rank');
is("@{$row[2]}[1 .. 3]", '0.460 0.160 1.00', 'a better one');
like($row[2][4], qr/^\+0\.060 \(\+0\.05\d to \+0\.06\d\)$/, 'the difference and its interval');
is($row[3][3], '3.00', 'a worse one');
like($row[3][4], qr/^-0\.030 \(-0\.030 to -0\.030\)$/, 'always by as much');
like(slurp("$tmp/c/runs.tsv"), qr/\A(\S+\t){5}6\.0\n/, 'seconds of the steps');
campaign('-o', "$tmp/c", $plan);
is(calls(), 19, 'nothing is repeated');

for (["set a b c\n", qr/plan:1: want set NAME/], ["recipe a\n", qr/want a set and a recipe/],
    ["recipe a\nrecipe a\n", qr/plan:2: recipe a a second time/]) {
	($rc, $out, $err) = campaign(spew('plan', $_->[0]));
	ok($rc == 1 && $err =~ $_->[1], "refused: $_->[0]") or diag $err;
}
is((campaign())[0], 2, 'usage');
done_testing();
