#!/usr/bin/perl
# Published and recorded numbers: pycocotools' twelve, VOC's, darknet's, ultralytics'.
use strict;
use warnings;
use JSON::PP;
use lib 'test';
use Tap;

my $data = shared('../shared/data/eval');

my @names = qw(AP AP50 AP75 APs APm APl AR1 AR10 AR100 ARs ARm ARl);

sub score
{
	my %m;
	open my $f, '-|', './yolo-eval', '-q', @_ or die $!;
	while (<$f>) {
		chomp;
		my ($rule, $class, $metric, $value) = split /\t/;
		$m{$rule}{$metric} = $value if $class eq '-';
	}
	close $f;
	return $? ? undef : \%m;
}

sub near
{
	my ($got, $want, $tol, $what) = @_;
	my @bad = grep { !defined $got->{$_} || abs($got->{$_} - $want->{$_}) > $tol }
	    sort keys %$want;
	ok(!@bad, $what) or diag(map { sprintf "%s: %s, want %s\n", $_, $got->{$_} // 'none',
	    $want->{$_} } @bad);
}

sub twelve { my @v = @_; return { map { $names[$_] => $v[$_] } 0 .. 11 } }

# COCO
my $fake = "$data/coco-fake100";
my @fake = ('-t', "$fake/instances_val2014_100.json",
    "$fake/instances_val2014_fakebbox100_results.json");
my $all = 'coco,voc07,voc10,darknet,ultralytics,ultralytics-2019';
my $m = score('-m', $all, @fake);
near($m->{coco}, decode_json(slurp("$fake/expected.json"))->{bbox}, 1e-12, 'coco-fake100');
my $ign = "$data/coco-ignore-mixed-ids";
near(score('-O', 'score=0.1', '-t', "$ign/gt_ignore_test.json", "$ign/dt_ignore_test.json")->{coco},
    decode_json(slurp("$ign/expected.json"))->{bbox}, 1e-12, 'coco-ignore-mixed-ids');
my $cc = "$data/coco-cc-yolofastest";
near(score('-t', "$data/../datasets/coco-cc/instances_all53_cc.json",
    "$cc/dets-yolo-fastest-1.1.json")->{coco},
    decode_json(slurp("$cc/expected.json"))->{'yolo-fastest-1.1'}, 1e-12, 'coco-cc-yolofastest');
for my $want (sort glob "$data/edge/[es]*_expected.json") {
	my ($stem, $name) = $want =~ m{^(.*/([^/]+))_expected\.json$};
	next unless -e "${stem}_gt.json";
	my @opt = $name =~ /^e01/ ? ('-O', 'compat=pycocotools') : $name =~ /^e13/ ?
	    ('-O', 'compat=pycocotools', '-M', '1,10,300') : ();
	my $got = score(@opt, '-t', "${stem}_gt.json", "${stem}_dt.json");
	$got->{coco}{AR100} = $got->{coco}{AR300} if $name =~ /^e13/;
	near($got->{coco}, twelve(@{ decode_json(slurp($want)) }), 1e-12, $name);
}
my $one = score('-t', "$data/edge/e01_gtid0_gt.json", "$data/edge/e01_gtid0_dt.json");
ok(abs($one->{coco}{AP} - 1) < 1e-12, 'id 0 is an id like any other');
my $m300 = score('-M', '1,10,300', '-t', "$data/edge/e13_maxdets_300_first_stat_minus1_gt.json",
    "$data/edge/e13_maxdets_300_first_stat_minus1_dt.json");
ok($m300->{coco}{AP} > 0 && $m300->{coco}{maxdets} == 300,
    'AP follows the last of maxDets, and says so');
SKIP: {
	skip 'no python3', 1 if system('command -v python3 >/dev/null');
	system("cd $tmp && python3 $ENV{PWD}/$data/edge/syn.py 5000 80 7.3 7 2 s5k7 >/dev/null");
	near(score('-t', "$tmp/s5k7_gt.json", "$tmp/s5k7_dt.json")->{coco},
	    twelve(@{ decode_json(slurp("$data/edge/s5k7_expected.json")) }), 1e-12, 's5k7');
}

# The others on fake100 and s50
my @s50 = ('-t', "$data/edge/s50_gt.json", "$data/edge/s50_dt.json");
near($m->{voc07}, { mAP => 0.6916793146 }, 5e-11, 'fake100 voc07');
near($m->{voc10}, { mAP => 0.6974111754 }, 5e-11, 'fake100 voc10');
my $s = score('-m', $all, @s50);
near($s->{voc07}, { mAP => 0.3671525689 }, 5e-11, 's50 voc07');
near($s->{voc10}, { mAP => 0.3636072399 }, 5e-11, 's50 voc10');
my %dark = (0 => [0.6102347785, 0.3617561508], 11 => [0.6052194003, 0.3655227563],
    101 => [0.6099473938, 0.3620452473]);
for my $p (0, 11, 101) {
	near(score('-m', 'darknet', '-O', "points=$p", '-O', 'crowd=difficult', @fake)->{darknet},
	    { mAP => $dark{$p}[0] }, 5e-11, "fake100 darknet points=$p");
	near(score('-m', 'darknet', '-O', "points=$p", @s50)->{darknet}, { mAP => $dark{$p}[1] },
	    5e-11,
	    "s50 darknet points=$p");
}
near(score('-m', 'ultralytics', '-O', 'crowd=difficult', @fake)->{ultralytics},
    { AP50 => 0.779668, mAP => 0.595545, P => .813545, R => .771684, thr => 0 }, 5e-7,
    'fake100 ultralytics');
near($s->{ultralytics}, { AP50 => 0.377718, mAP => 0.320269, P => .357022, R => .512337 }, 5e-7,
    's50 ultralytics');
near($s->{ultralytics}, { thr => 0.5966 }, 5e-5, 's50 ultralytics threshold');

# voc-toy: a Python tool's numbers at four IoUs, cut after ten digits
my $toy = decode_json(slurp("$data/voc-toy/expected.json"));
$m = score('-m', 'voc07,voc10', '-O', 'recalls=python', '-i', '0.1,0.3,0.5,0.75', '-t',
    "$data/voc-toy/gts", "$data/voc-toy/dets");
for my $r (['voc07', 'eleven_point'], ['voc10', 'every_point']) {
	my %want = map { 'AP' . 100 * $_ => $toy->{$r->[1]}{$_} } keys %{ $toy->{$r->[1]} };
	near($m->{$r->[0]}, \%want, 1e-10, "voc-toy $r->[1]");
}
done_testing();
