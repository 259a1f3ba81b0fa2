#!/usr/bin/perl
# agree.t -- what one tool writes or reads, the others read alike.
use strict;
use warnings;
use JSON::PP;
use lib 'test';
use Tap;

# A truth of two boxes in one picture; the second has the flag.
sub truth
{
	my ($f, $id, $flag) = @_;
	return spew($f, qq({"images":[{"id":$id,"file_name":"a.ppm","width":64,"height":64}],
	    "categories":[{"id":1,"name":"x"}],"annotations":[
	    {"id":1,"image_id":$id,"category_id":1,"bbox":[1,1,20,20],"area":400,"iscrowd":0},
	    {"id":2,"image_id":$id,"category_id":1,"bbox":[30,30,20,20],"area":400,
	    "iscrowd":0$flag}]}));
}

sub found
{
	my ($f, $id) = @_;
	return spew($f, qq([{"image_id":$id,"category_id":1,"bbox":[1,1,20,20],"score":0.9}]));
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

spew('a.ppm', "P6\n64 64\n255\n", "\x80" x (64 * 64 * 3));

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
my $beyond = "9223372036854775808";
ap(truth("big.json", $beyond, ""), $dets);
like(`cat $tmp/err`, qr(beyond 64 bits), "a truth beyond them is refused, and why");
ap(truth("plain.json", 1, ""), found("bigd.json", $beyond));
like(`cat $tmp/err`, qr(beyond 64 bits), "detections too");

done_testing();
