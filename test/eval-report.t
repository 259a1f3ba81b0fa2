#!/usr/bin/perl
# yolo-eval -r: one page that needs nothing else, whatever the names; yolo-bench eval.
use strict;
use warnings;
use JSON::PP;
use lib 'test';
use Tap qw(:DEFAULT shell);

# Tags that open are closed, in order; attributes are quoted; nothing comes from elsewhere.
sub page
{
	my ($file, $what) = @_;
	my ($html, @open, @bad) = (slurp($file));
	push @bad, 'no doctype' unless $html =~ /^<!DOCTYPE html>\n/;
	push @bad,
	    "points elsewhere: $1" if $html =~ m{((?:https?:|//|src=|href=|url\(|\@import).{0,40})};
	push @bad, 'not UTF-8' unless utf8::decode(my $copy = $html);
	push @bad, 'a control character' if $html =~ /[\x00-\x08\x0b-\x1f\x7f]/;
	push @bad, 'NaN or infinity' if $html =~ /[">]-?(nan|inf)\b/;
	my $body = $html =~ s{^<!DOCTYPE html>}{}r =~ s{<(style|script)>.*?</\1>}{}gsr;
	while ($body =~ m{<(/?)([a-zA-Z0-9]+)((?:\s+[a-zA-Z-]+="[^"<>]*")*)\s*(/?)>|(<)}g) {
		if ($5) { push @bad, 'a bare < at ' . substr($body, pos($body) - 1, 40); last }
		next if $4 || $2 eq 'meta' || $2 eq 'br';
		if (!$1) { push @open, $2; next }
		my $was = pop(@open) // '';
		push @bad, "</$2> closes <$was>" and last if $was ne $2;
	}
	push @bad, "left open: @open" if @open && !@bad;
	ok(!@bad, "$what: a page by itself") or diag(@bad);
	return $html;
}

# names that would break out of a page or a line, the last two no UTF-8
my @name = ('<script>alert(1)</script>', "tab\there",
    'a&b"c\'d', "\xff\xfe bad \xc3", "line\nbreak \x01", 'plain');
my @esc = ('&lt;script&gt;alert(1)&lt;/script&gt;', "tab\there", 'a&amp;b&quot;c&#39;d',
    "\xef\xbf\xbd\xef\xbf\xbd bad \xef\xbf\xbd");
sub str { my $s = shift; $s =~ s/(["\\])/\\$1/g; $s =~ s/([\x00-\x1f])/sprintf '\\u%04x',
    ord $1/ge; "\"$s\"" }
my (@img, @ann, @det);
for my $i (0 .. 5) {
	push @img, sprintf '{"id":%d,"width":640,"height":480,"file_name":%s}', $i + 1,
	    str("p/$name[$i].jpg");
	for my $c (0 .. 5) {
		my $x = 100 * $c;
		push @ann,
		    sprintf '{"id":%d,"image_id":%d,"category_id":%d,"bbox":[%d,10,90,200],' .
		    '"area":18000,"iscrowd":0}',
		    1 + @ann, $i + 1, $c + 1, $x unless ($i + $c) % 5 == 4;
		push @det,
		    sprintf '{"image_id":%d,"category_id":%d,"bbox":[%d,12,90,200],"score":0.%d%d}',
		    $i + 1, $c + 1,
		    $x + 11 * ($i % 4), 9 - $c, $i unless $i * $c == 6;
		push @det,
		    sprintf '{"image_id":%d,"category_id":%d,"bbox":[%d,300,30,30],"score":0.6}',
		    $i + 1, $c + 1, $x
		    if $i == $c;
	}
}
my $gt = spew('gt.json', '{"images":[', join(',', @img), '],"annotations":[', join(',', @ann),
    '],"categories":[',
    join(',', map { sprintf '{"id":%d,"name":%s}', $_ + 1, str($name[$_]) } 0 .. 5), ']}');
my $dt = spew('dt.json', '[', join(",\n", @det), ']');
my $base = spew('base.json', '[', join(",\n", map { $_ % 3 ? $det[$_] : () } 0 .. $#det), ']');
my $all = 'coco,voc07,voc10,darknet,ultralytics,ultralytics-2019';

my ($tsv, $rc) = shell('./yolo-eval', '-q', '-m', $all, '-r', "$tmp/r.html", '-t', $gt, $dt);
is($rc, 0, '-r');
my $html = page("$tmp/r.html", 'odd names');
is((shell('./yolo-eval', '-q', '-m', $all, '-t', $gt, $dt))[0], $tsv,
    'the numbers on stdout are the same with it');
ok(index($html, $_) >= 0, 'escaped: ' . ($_ =~ s/[^ -~]/?/gr)) for @esc;
unlike($html, qr/<script>alert/, 'no name becomes a script');
like($html, qr/<h2>$_</, $_) for 'Numbers by rule', 'Curves', 'Where it fails', 'Confusion',
    'Classes', 'Worst pictures',
    'Suspicious labels';
unlike($html, qr/Comparison/, 'no comparison without -D');
my @missing;
for (split /\n/, $tsv) {
	my ($rule, $class, $metric, $value) = split /\t/;
	next if $rule =~ /^#/;
	my $cell = $value == -1 ? '-' : sprintf $metric =~ /^(TP|FP|FN)$/ ? '%d' : '%.4f', $value;
	my ($table) = $html =~ m{<th>\Q$rule\E</th>.*?<tbody>(.*?)</tbody>}s;
	push @missing, "$rule $metric $value"
	    unless $table =~ m{<td>\Q$metric\E</td><td data-v="[^"]*">\Q$cell\E</td>};
}
clean('every number on stdout is in its table', @missing);
cmp_ok(-s "$tmp/r.html", '<', 100_000, 'small');
shell('./yolo-eval', '-q', '-m', $all, '-r', "$tmp/again.html", '-t', $gt, $dt);
is(slurp("$tmp/again.html"), $html, 'a function of its inputs');
shell('./yolo-eval', '-q', '-j', 3, '-m', $all, '-r', "$tmp/again.html", '-t', $gt, $dt);
is(slurp("$tmp/again.html"), $html, 'whatever the threads');

shell('./yolo-eval', '-q', '-m', 'coco,darknet', '-O', 'bootstrap=40', '-r', "$tmp/d.html", '-D',
    $base, '-t', $gt, $dt);
$html = page("$tmp/d.html", 'with -D');
like($html, qr/<h2>Comparison<.*coco AP50.*largest changes/s, 'the comparison');
my $count = qr/<td>darknet TP<.td>(<td data-v="[-\d]*">[-\d]+<.td>){2}<td class="\w*" data-v=/;
like($html, qr/$count"[-\d]*">[-+]\d+</, 'counts have no decimals');
(undef, $rc) = shell('./yolo-eval', '-q', '-m', 'voc07', '-r', "$tmp/v.html", '-t', $gt, $dt);
is($rc, 0, 'without COCO');
unlike(page("$tmp/v.html", 'without COCO'), qr/<h2>Curves/, 'and then no curves');
my $none = spew('none.json',
    '{"images":[{"id":1}],"annotations":[],"categories":[{"id":1,"name":"a"}]}');
for my $case (['no truth, no detection', $none, spew('e.json', '[]')],
    ['no truth', $none, spew('one.json',
    '[{"image_id":1,"category_id":1,"bbox":[0,0,9,9],"score":0.5}]')], ['no detection', $gt,
    "$tmp/e.json"],
    ['nothing at all', spew('void.json', '{"images":[],"annotations":[],"categories":[]}'),
    "$tmp/e.json"]) {
	(undef, $rc, my $err) = shell('./yolo-eval', '-q', '-m', $all, '-r', "$tmp/n.html", '-D',
	    $case->[2], '-O', 'bootstrap=5',
	    '-t', @$case[1, 2]);
	is($rc, 0, $case->[0]) or diag($err);
	page("$tmp/n.html", $case->[0]);
}
my $many = spew('many.json', '{"images":[{"id":1}],"annotations":[', join(',', map {
    "{\"id\":$_,\"image_id\":1,\"category_id\":$_,\"bbox\":[0,0,9,9]," .
    '"iscrowd":0,"area":81}' } 1 .. 2000),
    '],"categories":[', join(',', map { "{\"id\":$_,\"name\":\"class number $_\"}" } 1 .. 2000),
    ']}');
my $some = spew('some.json', '[',
    join(',', map { "{\"image_id\":1,\"category_id\":$_,\"bbox\":[0,0,9,9],\"score\":0.5}" }
    1 .. 2000), ']');
shell('./yolo-eval', '-q', '-r', "$tmp/m.html", '-t', $many, $some);
like(page("$tmp/m.html", '2000 classes'), qr/Only the first classes/,
    'the table is cut and says so');
cmp_ok(-s "$tmp/m.html", '<', 500_000, 'and the page stays small');
(undef, $rc, my $err) = shell('./yolo-eval', '-q', '-r', "$tmp/nothere/r.html", '-t', $gt, $dt);
ok($rc == 1 && $err =~ /nothere/, 'a folder that is not there');
is(join(' ', glob "$tmp/*.tmp.*"), '', 'nothing half written is left');

# yolo-bench eval
sub row { my ($head, $first) = split /\n/, $_[0]; my @h = split /\t/, $head =~ s/^#//r; my %r;
    @r{@h} = split /\t/, $first; \%r }
$ENV{TMPDIR} = $tmp;
my ($out, $brc, $berr) = shell('./yolo-bench', 'eval', '-q', '-t', $gt, '-O', 'n=2', $dt);
my $r = row($out);
is($brc, 0, 'yolo-bench eval') or diag($berr);
ok($r->{images} == 6 && $r->{detections} == @det && $r->{threads} == 1, 'what it timed');
ok($r->{ms} > 0 && $r->{min_ms} <= $r->{ms} && $r->{mb_s} > 0 && $r->{ceiling_mb_s} > 0 &&
    $r->{mem_mb} > 0, 'its figures');
ok(abs($r->{share} - $r->{mb_s} / $r->{ceiling_mb_s}) < .02,
    'the share is of the ceiling of the same run');
for my $f ('json', 'tsv') {
	($out, $brc) = shell('./yolo-bench', 'eval', '-q', '-C', '-f', $f, '-O', 'n=1', '-O',
	    'images=20', '-O', 'dets=30', '-j', 2);
	$r = row($out);
	ok($brc == 0 && $r->{images} == 20 && $r->{detections} == 600 && $r->{dets} eq "dets.$f",
	    "a made-up set, $f");
	like($out, qr/^#stage\tms\tshare\ntruth\t.*\nparse\t.*\nmatch\t.*\nnumbers\t.*\n\z/m,
	    'its stages');
}
is(join(' ', glob "$tmp/yolo-bench*"), '', 'and it is gone');
is((shell('./yolo-bench', 'eval', '-t', $gt))[1], 2, 'a truth without detections is wrong usage');
is((shell('./yolo-bench', 'eval', '-q', '-t', $gt, "$tmp/not-there"))[1], 1,
    'a file that is not there');
done_testing();
