#!/usr/bin/perl
# One set of detections in every form gives the same numbers; what is wrong is named; the program's
# other outputs.
use strict;
use warnings;
use JSON::PP;
use lib 'test';
use Tap qw(:DEFAULT shell);

sub run { return shell('./yolo-eval', @_) }
# A set of our own: 12 pictures, 3 classes, boxes of quarters so that every form is exact.
my $x = 7;
sub rnd { $x = ($x * 1103515245 + 12345) & 0x7fffffff; return ($x >> 8) % $_[0] }
my @class = ([3, 'cat'], [7, 'traffic light'], [11, 'dog']);
my (@img, @ann, @det);
for my $i (1 .. 12) {
	push @img, { id => $i * 5, file_name => sprintf('val/%06d.jpg', $i * 5), width => 512,
	    height => 256 };
	for (1 .. 1 + rnd(4)) {
		my $c = rnd(3);
		my @b = (rnd(400), rnd(200), 16 + rnd(60), 16 + rnd(40));
		push @ann, { id => 1 + @ann, image_id => $i * 5,
		    category_id => $class[$c][0], bbox => [@b],
		    area => $b[2] * $b[3], iscrowd => rnd(12) ? 0 : 1 };
		for (0 .. rnd(4)) {
			my @d = ($b[0] + rnd(24) / 4, $b[1] + rnd(24) / 4, $b[2] + rnd(16) / 4,
			    $b[3]);
			push @det, { i => $i - 1, c => rnd(6) ? $c : rnd(3), s => rnd(64) / 64,
			    b => [@d] };
		}
	}
}
my $gt = spew('gt.json', encode_json({ images => \@img, annotations => \@ann,
    categories => [map { { id => $_->[0], name => $_->[1] } } @class] }));

sub coco { my $d = $_; return { image_id => $img[$d->{i}]{id}, category_id => $class[$d->{c}][0],
    bbox => $d->{b}, score => $d->{s} } }
my @coco = map { coco } @det;
my $js = JSON::PP->new->canonical;
my $array = spew('dt.json', $js->encode(\@coco));
my ($want, $rc) = run('-q', '-C', '-t', $gt, $array);
is($rc, 0, 'an array of results');
like($want, qr/^#rule\tclass\tmetric\tvalue\ncoco\t-\tAP\t0\.\d+\n/,
    'the header and the first row');

sub same { my ($what, @args) = @_; my ($got, $rc, $err) = run('-q', '-C', '-t', $gt, @args);
    ok($got eq $want && !$rc, $what) or diag($err) }

same('{"annotations": ...} with other keys',
    spew('wrap.json', $js->encode({ info => { a => [1, '}'] },
    annotations => \@coco, zzz => [[{}]] })));
same('white space everywhere', spew('pretty.json', JSON::PP->new->pretty->encode(\@coco)));
same('JSON lines', spew('lines.json', map { $js->encode($_), "\n" } @coco));
my @detect = map { { image => $img[$_->{i}]{file_name}, class => $_->{c} + 0,
    name => $class[$_->{c}][1],
    score => $_->{s}, bbox => $_->{b} } } @det;
same('yolo-detect -f json', spew('detect.json', map { $js->encode($_), "\n" } @detect));
my $head = "#image\tclass\tname\tscore\tx\ty\tw\th\n";
my @tsv = map { join("\t", "/data/$img[$_->{i}]{file_name}", $_->{c}, $class[$_->{c}][1], $_->{s},
    @{ $_->{b} }) . "\n" } @det;
same('TSV', spew('dt.tsv', $head, @tsv));
same('TSV without a header, CR LF', spew('crlf.tsv', map { s/\n/\r\n/r } @tsv));
same('TSVs one after the other, each with its header', spew('cat.tsv', $head, @tsv[0 .. 9], $head,
    $head, "#score\tname\tx\ty\tw\th\timage\n", map { my @f = split /[\t\n]/; join("\t",
    @f[3, 2, 4 .. 7, 0]) . "\n" } @tsv[10 .. $#tsv]));
same('TSV on stdin', '-', "<$tmp/dt.tsv");
same('no operand: stdin', "<$tmp/dt.tsv");
same('columns in another order', spew('cols.tsv', "#score\tname\tx\ty\tw\th\timage\n",
    map { my @f = split
    /[\t\n]/; join("\t", @f[3, 2, 4 .. 7, 0]) . "\n" } @tsv));
{
	my @shuffled = map { $det[$_] }
	    sort { ($a * 37) % @det <=> ($b * 37) % @det || $a <=> $b } 0 .. $#det;
	my ($file) = run('-q', '-t', $gt, spew('s1.json', $js->encode([map { coco } @shuffled])));
	my ($pipe) = run('-q', '-t', $gt, '-', "<$tmp/s1.json");
	is($file, $pipe, 'not sorted by picture: file and pipe agree');
	my @by = map { $_->[0] } sort { $a->[0]{i} <=> $b->[0]{i} || $a->[1] <=> $b->[1] }
	    map { [$shuffled[$_], $_] } 0 .. $#shuffled;
	my ($sorted) = run('-q', '-t', $gt, spew('s2.json', $js->encode([map { coco } @by])));
	is($file, $sorted, 'and equal the sorted file');
}
mkdir "$tmp/comp4";
for my $c (0 .. 2) {
	spew("comp4/comp4_det_val_$class[$c][1].txt",
	    map { sprintf("%06d %s %s %s %s %s\n", $img[$_->{i}]{id}, $_->{s},
	    $_->{b}[0], $_->{b}[1], $_->{b}[0] + $_->{b}[2], $_->{b}[1] + $_->{b}[3]) }
	    grep { $_->{c} == $c } @det);
}
same('a folder of VOC comp4 files', "$tmp/comp4");
same('comp4 files one by one', glob("$tmp/comp4/*cat.txt $tmp/comp4/*dog.txt"),
    "$tmp/comp4/comp4_det_val_traffic light.txt");
mkdir "$tmp/txt";
mkdir "$tmp/yolo";
for my $i (0 .. 11) {
	my $n = sprintf '%06d', $img[$i]{id};
	my @d = grep { $_->{i} == $i } @det;
	spew("txt/$n.txt", map { "$_->{c} $_->{s} @{ $_->{b} }\n" } @d);
	spew("yolo/$n.txt", map { my @b = @{ $_->{b} };
	    sprintf("%d %.17g %.17g %.17g %.17g %s\n", $_->{c}, ($b[0] + $b[2] / 2) / 512,
	    ($b[1] + $b[3] / 2) / 256, $b[2] / 512, $b[3] / 256, $_->{s}) } @d);
}
same('a folder of txt files', "$tmp/txt");
same('the same as fractions', "$tmp/yolo");
# What sticks out of its picture is no fraction of it, and stays a detection in fractions.
{
	my @out = map { my %d = %$_; $d{b} = [@{ $d{b} }]; \%d } @det;
	$out[$_]{b} = [-200, -100, 1400, 300 + $_] for 1, 3, 5, @out - 1;
	mkdir "$tmp/$_" for 'out', 'pixels', 'mixed';
	for my $i (0 .. 11) {
		my $n = sprintf '%06d.txt', $img[$i]{id};
		my @d = grep { $_->{i} == $i } @out;
		spew("out/$n", map { my @b = @{ $_->{b} };
		    sprintf("%d %.17g %.17g %.17g %.17g %s\n", $_->{c}, ($b[0] + $b[2] / 2) / 512,
		    ($b[1] + $b[3] / 2) / 256, $b[2] / 512, $b[3] / 256, $_->{s}) } @d);
		spew("pixels/$n", map { "$_->{c} $_->{s} @{ $_->{b} }\n" } @d);
		spew("mixed/$n", slurp("$tmp/yolo/$n"), $i == 3 ? "0 .5 10 20 30 40\n" : ());
	}
	my ($all) = run('-q', '-C', '-t', $gt, spew('out.json', $js->encode([map { coco } @out])));
	is((run('-q', '-C', '-t', $gt, "$tmp/out"))[0], $all, 'fractions of boxes that stick out');
	is((run('-q', '-C', '-t', $gt, "$tmp/pixels"))[0], $all, 'the same in pixels');
	isnt($all, $want, 'which are other boxes');
	spew('pixels/000005.txt', "0 .5 0 0 .5 .5\n");	# alone it would be a fraction
	spew('pixel.json', $js->encode([map { coco } { i => 0, c => 0, s => .5,
	    b => [0, 0, .5, .5] }, grep { $_->{i} } @out]));
	is((run('-q', '-C', '-t', $gt, "$tmp/pixels"))[0],
	    (run('-q', '-C', '-t', $gt, "$tmp/pixel.json"))[0], 'half a pixel among pixels');
	my ($none, $bad, $err) = run('-q', '-t', $gt, "$tmp/mixed");
	is("$none$bad", 1, 'pixels among fractions: exit 1');
	like($err, qr/mixed\/000020\.txt:\d+: 40 at the end is no score/, 'and named');
}
my @frames;
for my $i (0 .. 11) {
	push @frames, { frame_id => $i + 1, filename => "/x/$img[$i]{file_name}",
	    objects => [map { my @b = @{ $_->{b} };
	    { class_id => $_->{c}, name => $class[$_->{c}][1], confidence => $_->{s},
	    relative_coordinates => {
	    center_x => ($b[0] + $b[2] / 2) / 512, center_y => ($b[1] + $b[3] / 2) / 256,
	    width => $b[2] / 512,
	    height => $b[3] / 256 } } } grep { $_->{i} == $i } @det] };
}
same("darknet's JSON", spew('dark.json', $js->encode(\@frames)));

# numbers in strings, threads, outputs
my $str = $js->encode(\@coco);
$str =~ s/"image_id":(\d+)/"image_id":"$1"/g;
same('ids in quotes', spew('str.json', $str));
my ($one) = run('-q', '-j', 1, '-m', 'coco,voc07,voc10,darknet,ultralytics,ultralytics-2019',
    '-t', $gt, $array);
my ($three) = run('-q', '-j', 3, '-m', 'coco,voc07,voc10,darknet,ultralytics,ultralytics-2019',
    '-t', $gt, $array);
is($one, $three, 'threads change nothing');
my ($tide, undef, $err) = run('-q', '-C', '-O', 'errors=1',
    map({ ('-O', "$_=$tmp/$_.tsv") } qw(pr conf confusion worst suspects)),
    '-t', $gt, $array);
my ($ap50) = $want =~ /^coco\t-\tAP50\t(\S+)/m;
my ($tide50) = $tide =~ /^tide\t-\tAP50\t(\S+)/m;
ok(abs($ap50 - $tide50) < 1e-12, "TIDE begins at COCO's AP50");
my %d = $tide =~ /^tide\t-\t(\w+)\t(\S+)/mg;
is(join(' ', sort keys %d), 'AP50 Bkg Both Cls Dupe FalseNeg FalsePos Loc Miss', 'its kinds');
ok(!(grep { $_ < -1e-12 } values %d), 'mending never hurts');
like($tide, qr/^lrp\t-\toLRP\t0\.\d+\n/m, 'LRP');
like($tide, qr/^lrp\tcat\tthr\t0\.\d+\n/m, 'an operating threshold for a class');
for (qw(pr conf confusion worst suspects)) {
	ok(slurp("$tmp/$_.tsv") =~ /^#.+\n.+\n/, "-O $_ writes a table");
}
my ($cmp) = run('-q', '-O', 'bootstrap=50', '-D', $array, '-t', $gt, $array);
like($cmp, qr/^coco\t-\tAP\.diff\t0\ncoco\t-\tAP\.low\t0\ncoco\t-\tAP\.high\t0$/m,
    'against itself: no difference');
my $worse = spew('worse.json', $js->encode([grep { rnd(3) } @coco]));
my @cmp = map { (run('-q', '-S', 3, '-j', $_, '-O', 'bootstrap=50', '-D', $worse, '-t', $gt,
    $array))[0] } 1, 2;
is($cmp[0], $cmp[1], 'the interval is a function of the seed');
my %c = $cmp[0] =~ /^coco\t-\tAR100\.(\w+)\t(\S+)/mg;
ok($c{low} <= $c{diff} && $c{diff} <= $c{high} && $c{diff} > 0,
    'the interval holds the difference');

# what is wrong is named
sub fails
{
	my ($what, $re, @args) = @_;
	my ($out, $rc, $err) = run('-q', '-t', $gt, @args);
	ok($rc == 1 && $err =~ $re && $out eq '', $what) or diag("$rc: $err$out");
}
my $r = '"image_id":5,"category_id":3,"bbox":[1,2,3,4]';
fails('NaN', qr/nan\.json:2: a number is NaN or infinite/,
    spew('nan.json', "[\n{$r,\"score\":NaN}]"));
fails('infinity', qr/inf\.json:1: .*infinite/, spew('inf.json', "[{$r,\"score\":-Infinity}]"));
fails('too large', qr/big\.json:1: .*too large/, spew('big.json', "[{$r,\"score\":1e999}]"));
fails('NaN in TSV', qr/nan\.tsv:3: score 'nan'/, spew('nan.tsv', $head, $tsv[0],
    $tsv[1] =~ s/\t0[.\d]*\t/\tnan\t/r =~ s/(\t[^\t]+)\t[^\t]+((\t[^\t]+){4})$/$1\tnan$2/r));
fails('no score', qr/noscore\.json:1: a detection lacks "score"/, spew('noscore.json', "[{$r}]"));
fails('cut short', qr/cut\.json:1: the file ends early/,
    spew('cut.json', substr(slurp($array), 0, 500)));
fails('something behind', qr/behind\.json:1: something follows/, spew('behind.json', '[]]'));
fails('unknown pictures', qr/2 detections of 2 pictures that are not in the truth: 6, 8/,
    spew('unk.json', '[' . join(',', map {
    "{\"image_id\":$_,\"category_id\":3,\"bbox\":[1,2,3,4],\"score\":0.5}" } 6, 8) . ']'));
fails('an unknown class', qr/class 'wolf' .* not in the truth/,
    spew('wolf.tsv', $tsv[0] =~ s/\t[a-z ]+\t/\twolf\t/r));
fails('too few fields', qr/few\.tsv:2: .* fields, no h/, spew('few.tsv', $head,
    "a\t0\tcat\t.5\t1\t2\t3\n"));
fails('no such file', qr/nothere: No such file/, "$tmp/nothere");
my ($o1, $rc1, $e1) = run('-q', '-O', 'unknown=skip', '-t', $gt, "$tmp/unk.json");
ok($rc1 == 0 && $e1 =~ /left out/, 'unknown=skip counts them');
($o1, $rc1) = run('-q', '-t', $gt, spew('empty.json', '[]'));
ok($rc1 == 0 && $o1 =~ /^coco\t-\tAP\t0$/m, 'no detections: 0');
is((run('-q', '-t', $gt, spew('empty', '')))[0], $o1, 'nor in an empty file');
my @twice = map { my $i = $_; my @p = grep { $_->{image_id} == $i } @coco; (@p, @p) }
    map { $_->{id} } @img;
my ($o2, $rc2, $e2) = run('-q', '-t', $gt, spew('twice.json', $js->encode(\@twice)));
like($e2, qr/12 pictures have the same detections twice/, 'repeated blocks are found');
same('dup=first takes one', '-O', 'dup=first', "$tmp/twice.json");
fails('dup=error', qr/twice/, '-O', 'dup=error', "$tmp/twice.json");
is((run('-q', '-i', '2', '-t', $gt, $array))[1], 2, 'bad usage is 2');
is((run('-h'))[1], 0, '-h');

# by position
my %other = (cat => 'Katze', dog => 'Hund', 'traffic light' => 'Ampel');
my ($o3, $rc3, $e3) = run('-C', '-t', $gt, spew('de.tsv', $head,
    map { s/\t(cat|dog|traffic light)\t/\t$other{$1}\t/r } @tsv));
ok($o3 eq $want && $e3 =~ /by position/ && $e3 =~ /1 Ampel = traffic light/,
    'other names, as many: by position, said so');

# a truth of txt files
mkdir "$tmp/gts";
for my $i (0 .. 11) {
	spew(sprintf('gts/%06d.txt', $img[$i]{id}), map { my $a = $_;
	    my ($c) = grep { $class[$_][0] == $a->{category_id} } 0 .. 2;
	    "$c @{ $a->{bbox} }\n" } grep { $_->{image_id} == $img[$i]{id} } @ann);
}
my ($o4) = run('-q', '-t', "$tmp/gts", "$tmp/txt");
my ($o5) = run('-q', '-O', 'crowd=truth', '-t', $gt, $array);
is($o4, $o5, 'a truth of txt files');
my @ids = map { { image_id => $img[$_->{i}]{id}, category_id => $_->{c} + 1, bbox => $_->{b},
    score => $_->{s} } } @det;
my $plain = spew('plain.json', $js->encode(\@ids));
is((run('-q', '-t', "$tmp/gts", $plain))[0], $o4, 'numbers against a truth without ids');
spew('quoted.json', slurp($plain) =~ s/"image_id":(\d+)/"image_id":"$1"/gr);
is((run('-q', '-t', "$tmp/gts", "$tmp/quoted.json"))[0], $o4, 'and numbers in quotes');
fails('COCO ids against a truth without ids', qr/category_id 7 .* would be 1\.\.3/, '-t',
    "$tmp/gts", $array);

# truths that labels.c and shards bring
SKIP: {
	my $cc = '../shared/data/datasets/coco-cc';
	skip 'no ../shared', 2 unless -d $cc;
	skip 'no yolo-prep', 2 unless -x './yolo-prep';
	my @dets = ('-O', 'unknown=skip',
	    '../shared/data/eval/coco-cc-yolofastest/dets-yolo-fastest-1.1.json');
	my ($j) = run('-q', '-C', '-t', "$cc/instances_val2017_cc.json", @dets);
	is(system("./yolo-prep -q -o $tmp/cc.shard " .
	    "$cc/instances_val2017_cc.json:$cc/images/val2017 2>$tmp/stderr"), 0,
	    'packed');
	my ($s) = run('-q', '-C', '-t', "$tmp/cc.shard", @dets);
	is($s, $j, 'a shard is as good as its json');
}
SKIP: {
	my $b = '../shared/data/datasets/bccd';
	skip 'no ../shared', 1 unless -d $b;
	open my $f, '<', glob("$b/Annotations/*00000.xml") or die;
	my $xml = do { local $/; <$f> };
	my ($name) = $xml =~ m{<filename>([^<.]+)};
	my @o = map { my $t = $_; my ($n) = $t =~ m{<name>(\w+)};
	    [$n, map { $t =~ m{<$_>(\d+)}; $1 } qw(xmin ymin xmax ymax)] }
	    $xml =~ m{<object>(.*?)</object>}gs;
	my %by;
	push @{ $by{$_->[0]} }, $_ for @o;
	mkdir "$tmp/voc";
	spew("voc/comp4_det_x_$_.txt", map { "BloodImage_00000 0.5 @$_[1 .. 4]\n" } @{ $by{$_} })
	    for keys %by;
	my ($v, $rc, $err) = run('-q', '-m', 'voc10', '-t', "$b/Annotations/BloodImage_00000.xml",
	    "$tmp/voc");
	like($v, qr/^voc10\t-\tmAP\t1(\.0+)?$/m, 'VOC xml against its own boxes') or diag($err);
}
done_testing();
