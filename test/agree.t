#!/usr/bin/perl
# agree.t -- what one tool writes or reads, the others read alike.
use strict;
use warnings;
use Cwd;
use File::Path qw(make_path);
use JSON::PP;
use lib 'test';
use Tap;
require './test/detect.pl';

our ($dir, %cells);

sub put
{
	my ($f, @s) = @_;
	make_path("$tmp/$f" =~ s([^/]*$)()r);
	return spew("$tmp/$f", join '', @s);
}

# A truth of two boxes in one picture; the second has the flag.
sub truth
{
	my ($f, $id, $flag) = @_;
	return put($f, qq({"images":[{"id":$id,"file_name":"a.ppm","width":64,"height":64}],
	    "categories":[{"id":1,"name":"x"}],"annotations":[
	    {"id":1,"image_id":$id,"category_id":1,"bbox":[1,1,20,20],"area":400,"iscrowd":0},
	    {"id":2,"image_id":$id,"category_id":1,"bbox":[30,30,20,20],"area":400,
	    "iscrowd":0$flag}]}));
}

sub found
{
	my ($f, $id) = @_;
	return put($f, qq([{"image_id":$id,"category_id":1,"bbox":[1,1,20,20],"score":0.9}]));
}

sub ap
{
	my ($truth, $dets) = @_;
	my $out = `./yolo-eval -q -m voc07 -t $truth $dets 2>$tmp/err`;
	return $out =~ /^voc07\t-\tm?AP\S*\t(\S+)/m ? $1 : "nothing: $out";
}

sub unpacked
{
	my ($json, $name) = @_;
	system("./yolo-prep -q -o $tmp/$name.shard $json 2>$tmp/err") and return '';
	system("./yolo-prep -q -x $tmp/$name -f coco $tmp/$name.shard 2>$tmp/err") and return '';
	my ($out) = split /\n/, `find $tmp/$name -name '*.json'`;
	return $out // '';
}

put('a.ppm', "P6\n64 64\n255\n", "\x80" x (64 * 64 * 3));

# COCO's "ignore" and "difficult" are one thing to both readers.
my $dets = found('d.json', 1);
my $half = ap(truth('plain.json', 1, ''), $dets);
cmp_ok($half, '<', .6, 'without a flag one of two truths is missed');
for my $key (qw(ignore difficult)) {
	my $t = truth("$key.json", 1, ",\"$key\":1");

	is(ap($t, $dets), 1, "yolo-eval: \"$key\" does not count");
	my $back = unpacked($t, $key);
	is(ap("$tmp/$key.shard", $dets), 1, "nor in the shard that yolo-prep packs of it");
	is(ap($back, $dets), 1, 'nor in the json that is unpacked from that');
}
is(ap(truth('both.json', 1, ',"ignore":1,"difficult":0'), $dets), 1, 'either is enough');

# Ids of all 64 bits, which doubles cannot tell apart.
for my $id (qw(9007199254740993 9223372036854775807)) {
	my $t = truth("big.json", $id, q(,"ignore":1));

	unpacked($t, "b$id");
	is(ap($t, found("bigd.json", $id)), 1, "id $id is read, truth and detections");
	is(ap("$tmp/b$id.shard", found("bigd.json", $id)), 1, "and by yolo-prep");
}
unlike(ap(truth("big.json", "9007199254740993", ""), found("bigd.json", "9007199254740992")),
    qr(^[.\d]+$), "the neighbour of an id is another picture");
# What is an id, and which: read by all, kept by shards and what is unpacked from them.
my @id = ([ -5, -5 ], [ '-9223372036854775807', '-9223372036854775807' ], [ '3.0', 3 ],
    [ '"9007199254740993"', '9007199254740993' ], [ '"-9223372036854775807"',
    '-9223372036854775807' ], [ '"0139"', 139 ], [ 0, 0 ]);
for my $i (0 .. $#id) {
	my ($written, $id) = @{ $id[$i] };
	my $t = truth("id$i.json", $written, q(,"ignore":1));
	my @truth = ($t, "$tmp/id$i.shard", unpacked($t, "id$i"));

	is(join(' ', map { ap($_, found('idd.json', $id)) } @truth), '1 1 1', "id $written is $id");
	is(ap($truth[1], found('idd.json', "\"$id\"")), 1, "and $id in quotes");
	like(slurp($truth[2]), qr/"image_id":$id,.*"image_id":$id,/s, 'unpacked as it was');
}
for my $bad ([ '1.5', 'not a whole number' ], [ '9223372036854775808', 'beyond 64 bits' ],
    [ '-9223372036854775808', 'beyond 64 bits' ], [ '1e16', 'not written out in digits' ]) {
	my ($id, $why) = @$bad;

	my $t = truth('bad.json', $id, '');

	ap($t, $dets);
	like(slurp("$tmp/err"), qr/bad\.json:1: an id .*$why/, "yolo-eval: id $id is $why");
	system("./yolo-prep -q -o $tmp/bad.shard $t 2>$tmp/err");
	like(slurp("$tmp/err"), $why =~ /64/ ? qr/bad\.json:1: 1 images .*64 bits, as '$id'/ :
	    qr/bad\.json:1: an id .*$why/, "yolo-prep: id $id is $why");
	ap(truth("plain.json", 1, ""), found("bigd.json", $id));
	like(slurp("$tmp/err"), qr/bigd\.json:1: an id .*$why/, "detections too");
}
unpacked(truth('none.json', -1, ''), 'none');
like(slurp("$tmp/err"), qr/none\.json:1: .*-1, which stands for none/, 'a shard cannot hold -1');

# Which picture a name means.  Names of the truth, a name, the picture: 0 where it is not known
# which, or there is none.
my @named = (
	[ 'x/a.ppm y/a.ppm', 'y/a.ppm', 2 ], [ 'x/a.ppm y/a.ppm', 'q/y/a.ppm', 2 ],
	[ 'x/a.ppm y/a.ppm', 'z/a.ppm', 0 ], [ 'q/x/a.ppm q/y/a.ppm', 'x/a.ppm', 1 ],
	[ 'x\a.ppm y\a.ppm', 'y/a.ppm', 2 ], [ 'x/a.ppm y/a.ppm', 'q\y\a.ppm', 2 ],
	[ 'x/a.jpg y/b.jpg', 'a.ppm', 1 ], [ 'x/a.jpg y/a.png', 'q/y/a.ppm', 2 ],
	[ 'x/a.jpg y/a.png', 'z/a.ppm', 0 ], [ 'xy/a.ppm y/b.ppm', 'y/c.ppm', 0 ],
	[ '2007.000027.jpg 2007.000032.jpg', '2007.000032', 2 ],
	[ '2007.000027 x/b', '2007.000032', 0 ], [ 'p.v2.jpg q.jpg', 'p.v2', 1 ],
	[ 'x/a.jpg b.jpg x/a.jpg', 'x/a.jpg', 0 ], [ 'a.jpg b.jpg', '2', 2 ],
);
my ($top, $js) = (getcwd(), JSON::PP->new->canonical);
my @net = ('-c', cfg("$tmp/net.cfg"), '-w', weights("$tmp/net.weights", %cells));
my $cell = slurp(ppm("$tmp/cell.ppm", 32, 32, [ 8, 16, 8, 8, 255, 0, 0 ]));

for my $i (0 .. $#named) {
	my ($names, $asked, $want) = @{ $named[$i] };
	my @name = split ' ', $names;
	my $box = { id => 1, image_id => $want || 1, category_id => 1, bbox => [ 8, 16, 8, 8 ],
	    area => 64, iscrowd => 0 };
	my $t = put("n$i/t.json", $js->encode({ images => [ map { { id => $_ + 1, file_name =>
	    $name[$_], width => 32, height => 32 } } 0 .. $#name ], annotations => [ $box ],
	    categories => [ { id => 1, name => 'x' }, { id => 2, name => 'y' } ] }));
	my $d = put("n$i/d.json", $js->encode([ { image_id => $asked, category_id => 1, bbox =>
	    [ 8, 16, 8, 8 ], score => .9 } ]));
	put("n$i/$_", $cell) for @name;
	put("n$i/asked/$asked", $cell);
	system("./yolo-prep -q -o $tmp/n$i/t.shard $t 2>$tmp/err") and diag("no shard: $names");
	my @got = map { my $p = ap($_, $d); $p eq '1' ? $want : $p =~ /^nothing/ ? 0 : "AP $p" }
	    $t, "$tmp/n$i/t.shard";
	for my $ids ($t, "$tmp/n$i/t.shard") {
		my $detect = "$top/yolo-detect -q @net -f coco -O ids=$ids '$asked'";
		my $out = `cd $tmp/n$i/asked; $detect 2>$tmp/err`;

		push @got, $out =~ /"image_id":(\d+)/ ? $1 : 0;
	}
	is("@got", "$want $want $want $want", "$asked of $names");
}

# A class name that stands twice: numbers tell which is meant; a name alone does not.
my $twice = { images => [ map { { id => $_, file_name => "$_.ppm", width => 64, height => 64 } }
    1, 2 ], categories => [ { id => 3, name => 'x' }, { id => 5, name => 'y' }, { id => 9, name =>
    'x' } ], annotations => [ map { { id => $_->[0], image_id => $_->[0], category_id => $_->[1],
    bbox => [ 8, 16, 8, 8 ], area => 64, iscrowd => 0 } } [ 1, 3 ], [ 2, 9 ] ] };
my $t = put('twice/t.json', $js->encode($twice));
put("twice/$_.ppm", $cell) for 1, 2;
unpacked($t, 'twice');
my %by = (ids => $js->encode([ map { { image_id => $_->[0], category_id => $_->[1], bbox =>
    [ 8, 16, 8, 8 ], score => .9 } } [ 1, 3 ], [ 2, 9 ] ]),
    both => "#image\tclass\tname\tscore\tx\ty\tw\th\n1.ppm\t0\tx\t.9\t8\t16\t8\t8\n" .
    "2.ppm\t2\tx\t.9\t8\t16\t8\t8\n", names => "#image\tname\tscore\tx\ty\tw\th\n1.ppm\tx\t" .
    ".9\t8\t16\t8\t8\n2.ppm\tx\t.9\t8\t16\t8\t8\n");
for my $truth ($t, "$tmp/twice.shard", split /\n/, `find $tmp/twice -name '*.json'`) {
	my $kind = $truth =~ s/.*\.//r;
	for my $k (qw(ids both)) {
		is(ap($truth, put("twice/d", $by{$k})), 1, "a name twice, $kind, $k");
	}
	like(ap($truth, put("twice/d", $by{names})), qr/^nothing/, "a name twice, $kind, by name");
	like(`cat $tmp/err`, qr/class 'x' stands twice in the truth/, 'refused by name');
}
# The same in prep: names of -n, categories of another set, classes of VOC's.
put('twice.names', "x\ny\nx\n");
system("./yolo-prep -q -n $tmp/twice.names -o $tmp/tn.shard $t 2>$tmp/err");
is(ap("$tmp/tn.shard", put('twice/d', $by{ids})), 1, 'packed with the same names: by place');
put('twice.names', "y\nx\nx\n");
system("./yolo-prep -q -n $tmp/twice.names -o $tmp/tn.shard $t 2>$tmp/err");
like(`cat $tmp/err`, qr/t\.json:1: annotation 1 .*stands twice among the names/,
    'with another list: refused, with file and line');
put('voc/Annotations/1.xml', '<annotation><filename>1.ppm</filename><size><width>32</width>' .
    '<height>32</height></size><object><name>x</name><bndbox><xmin>8</xmin><ymin>16</ymin>' .
    '<xmax>16</xmax><ymax>24</ymax></bndbox></object></annotation>');
put('voc/JPEGImages/1.ppm', $cell);
system("./yolo-prep -q -n $tmp/twice.names -o $tmp/tn.shard $tmp/voc 2>$tmp/err");
like(`cat $tmp/err`, qr/1\.xml:1: object 1 \(x\): its class stands twice/, "VOC's too");

done_testing();
