#!/usr/bin/perl
# depthsize.t -- what a file can do to a program: keep it waiting, take its memory or its time,
# shrink under it; and what the program does then.
use strict;
use warnings;
use Cwd qw(getcwd);
use Compress::Zlib qw(crc32 compress);
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use POSIX qw(mkfifo :sys_wait_h);
use Test::More;
use Time::HiRes qw(time sleep);

my $b = getcwd();
my $dir = tempdir(CLEANUP => 1);
system("$b/tools/yolo-synth -q -n 4 -s 64 -o $dir/set") && die;
chdir $dir or die;
my $jpg = (glob 'set/images/*.jpg')[0];
$ENV{GOMP_SPINCOUNT} = 1000;
$SIG{ALRM} = sub { die "a test hangs\n" };
alarm 300;

sub put {
	my ($path, $bytes) = @_;
	open my $f, '>:raw', $path or die "$path: $!";
	print $f $bytes;
	close $f or die "$path: $!";
	return $path;
}

sub get {
	open my $f, '<:raw', $_[0] or return '';
	local $/;
	return scalar(<$f>) // '';
}

# Start a command; its messages go into err.
sub start {
	my $pid = fork // die;
	return $pid if $pid;
	open STDOUT, '>', 'out';
	open STDERR, '>', 'err';
	open STDIN, '<', '/dev/null';
	exec @_ or POSIX::_exit(127);
}

# Its status, as a shell says it, and the seconds it took; it is killed after so many.
sub end {
	my ($pid, $most) = @_;
	my $from = time;
	sleep .01 while waitpid($pid, WNOHANG) == 0 && time - $from < $most;
	my ($status, $took) = ($?, time - $from);
	if ($status == -1 || $took >= $most) {
		kill 'KILL', $pid;
		waitpid $pid, 0;
		return ('hangs', $took);
	}
	return ($status & 127 ? 128 + ($status & 127) : $status >> 8, $took);
}

sub run { my @end = end(start(@_), 60); return $end[0]; }

# ---- a read that waits

mkdir $_ for qw(a b c d);
mkfifo($_, 0600) for qw(fifo a/p.jpg b/p.txt d/n);
system("cp $jpg b/p.jpg; cp $jpg c/q.jpg; cp $jpg d/p.jpg");
put('d/p.txt', "0 .5 .5 .2 .2\n");
put('list', "a/p.jpg\nc/q.jpg\n");
for (['a picture', 'a/p.jpg', 'a'], ['a label', 'b/p.txt', 'b'], ['in a list', 'a/p.jpg', 'list']) {
	my ($what, $pipe, $in) = @$_;
	is(run("$b/yolo-prep", '-o', 'x.shard', $in), 1, "yolo-prep: a pipe as $what is refused");
	like(get('err'), qr/\b\Q$pipe\E: a pipe or a device, want a plain file/, 'by its name');
}
is(run("$b/yolo-prep", '-q', '-o', 'y.shard', 'set/images'), 0, 'pictures to train on');
my @net = ('-c', "$b/test/small.cfg", '-d', 'cpu', '-O', 'threads=1');
is(run("$b/yolo-train", '-q', @net, '-O', 'steps=1', '-o', 'r', 'y.shard'), 0, 'a network');
my @detect = ("$b/yolo-detect", '-q', '-d', 'cpu', '-w', 'r/last.safetensors');
is(run(@detect, 'list'), 1, 'yolo-detect: a pipe in a list');
like(get('err'), qr{a/p\.jpg: a pipe or a device}, 'named');
my @waits = (
	['yolo-prep: names', "$b/yolo-prep", '-n', 'd/n', '-o', 'o1', 'd'],
	['yolo-prep: a list', "$b/yolo-prep", '-o', 'o2', 'fifo'],
	['yolo-train: a list', "$b/yolo-train", '-q', @net, '-o', 'r1', 'fifo'],
	['yolo-train: a cfg', "$b/yolo-train", '-c', 'fifo', '-o', 'r2', 'y.shard'],
	['yolo-detect: weights', "$b/yolo-detect", @net, '-w', 'fifo', '-o', 'o3', $jpg],
	['yolo-detect: a cfg', "$b/yolo-detect", '-c', 'fifo', '-w', 'r/last.safetensors', '-o',
	    'o4', $jpg],
	['yolo-detect: an operand', @detect, '-o', 'o5', 'fifo'],
	['yolo-eval: detections', "$b/yolo-eval", '-o', 'o6', '-t', 'y.shard', 'fifo'],
	['yolo-eval: truth', "$b/yolo-eval", '-o', 'o7', '-t', 'fifo', 'list'],
);
my @sig = (['TERM', 143], ['INT', 130], ['HUP', 129]);
for my $i (0 .. $#waits) {
	my ($what, @cmd) = @{$waits[$i]};
	my ($sig, $want) = @{$sig[$i % 3]};
	my $pid = start(@cmd);
	sleep .25;
	my ($child) = split ' ', get("/proc/$pid/task/$pid/children");
	kill $sig, $pid;
	my ($status, $took) = end($pid, 5);
	is("$status " . ($took < 2 ? 'soon' : $took), "$want soon", "$what: $sig");
	sleep .02 while $child && kill(0, $child) && time - $^T < 300;
	is(join(' ', glob('o[1-9]* r[12]/*shard*')), '', 'nothing is left');
}

# ---- headers that promise more than the bytes hold, bytes that hold more than the header says

sub chunk { return pack('N', length $_[1]) . "$_[0]$_[1]" . pack 'N', crc32("$_[0]$_[1]"); }

# A PNG of WxH, BITS of COLOUR type, with such data deflated.
sub png {
	my ($w, $h, $bits, $colour, $data) = @_;
	return "\x89PNG\r\n\x1a\n" . chunk('IHDR', pack('NNC5', $w, $h, $bits, $colour, 0, 0, 0)) .
	    chunk('IDAT', $data) . chunk('IEND', '');
}

sub gif {
	my ($w, $h, $fw, $fh) = @_;
	return 'GIF89a' . pack('vvC3', $w, $h, 0x80, 0, 0) . "\0\0\0\xff\xff\xff\x2c" .
	    pack('vvvvC', 0, 0, $fw, $fh, 0) . "\x02\x02\x44\x01\x00\x3b";
}

# A JPEG with SOS N times: the header of another, its scans repeated.
sub scans {
	my ($jpeg, $n) = @_;
	my ($head, $scan) = $jpeg =~ /\A(.*?)(\xff\xda.*)\xff\xd9\z/s or die;
	return $head . $scan x $n . "\xff\xd9";
}

my $zeros = compress("\0" x (64 << 20));
my $large = do { my $j = get($jpg); $j =~ s/(\xff\xc0..\x08).{4}/$1\x2d\x41\x2d\x41/s; $j };
(my $progressive = get($jpg)) =~ s/\xff\xc0/\xff\xc2/;
my @bombs = (
	['bomb.png', png(8, 8, 8, 2, $zeros), qr/more than the 8 x 8 pixels of its header/],
	['wide.png', png(1, 1, 16, 6, $zeros), qr/more than the 1 x 1 pixels of its header/],
	['few.png', png(11585, 11585, 8, 2, compress("\0" x 1000)), qr/bytes cannot hold/],
	['bits.png', png(11585, 11585, 1, 0, compress("\0" x 1000)), qr/bytes cannot hold/],
	['g.gif', gif(11585, 11585, 11585, 11585), qr/which \d+ bytes cannot hold/],
	['screen.gif', gif(11585, 11585, 1, 1), qr/which \d+ bytes cannot hold/],
	['j.jpg', $large, qr/11585 x 11585 pixels, which \d+ bytes cannot hold/],
	['s.jpg', scans($progressive, 500), qr/500 scans of 64 x 64 pixels/],
	['pay.png', png(9000, 9000, 16, 6, compress("\0" x (9000 * 72001))),
	    qr/9000 x 9000 pixels: \d+ MB for 4 threads, more than half of the memory/],
);
mkdir 'bombs';
for (@bombs) {
	my ($name, $bytes, $why) = @$_;
	put("bombs/$name", $bytes);
	for my $cmd ("$b/yolo-prep -j 4 -o x.shard", "@detect -j 4") {
		my ($status, $took) = end(start('sh', '-c',
		    "ulimit -v 3000000; exec $cmd bombs/$name"), 20);
		is("$status " . ($took < 2 ? 'soon' : $took), '1 soon', "$name: " . length $bytes);
		like(get('err'), $why, 'said in a line');
	}
	unlink "bombs/$name";
}
put('bombs/whole.png', png(4000, 4000, 8, 0, compress("\0" x (4000 * 4001))));
is(run("$b/yolo-prep", '-q', '-o', 'x.shard', 'bombs'), 0, 'as small as deflate can: is one');

# ---- time: n log n in what a file holds

sub soon {
	my ($what, $want, @cmd) = @_;
	my (undef, undef, $user, $sys) = times;
	my ($status) = end(start(@cmd), 60);
	my $took = (times)[2] + (times)[3] - $user - $sys;
	is("$status " . ($took < 3 ? 'soon' : $took), "$want soon", $what);
}

mkdir $_ for qw(many classes again big);
system("cp $jpg many/p.jpg; cp $jpg classes/p.jpg");
my $line = sub { sprintf "%d .5 .5 %.6f .2\n", $_[0], .1 + $_[0] / 1e6 };
put('many/p.txt', join '', map { "0 .5 .5 " . ($_ / 1e6 + .01) . " .2\n" } 1 .. 100000);
soon('100,000 boxes of one picture', 0, "$b/yolo-prep", '-q', '-o', 'm.shard', 'many');
put('classes/p.txt', "99999 .5 .5 .1 .1\n");
soon('100,000 classes without names', 0, "$b/yolo-prep", '-q', '-o', 'c.shard', 'classes');
put('names', join '', map { "class$_\n" } 1 .. 40000);
my $n = 40000;
my ($cats, $anns) = map { join ',', @$_ } [ map { qq({"id":$_,"name":"class$_"}) } 1 .. $n ],
    [ map { qq({"id":$_,"image_id":1,"category_id":$_,"bbox":[60,60,20,20]}) } 1 .. $n ];
put('coco.json', qq({"images":[{"id":1,"file_name":"$jpg","width":64,"height":64}],) .
    qq("categories":[$cats],"annotations":[$anns]}));
soon('40,000 categories and names, boxes that stick out', 0, "$b/yolo-prep", '-q', '-l', 'rep.tsv',
    '-n', 'names', '-o', 'k.shard', 'coco.json');
put('again/list', "../$jpg\n" x 3000);
is(run("$b/yolo-prep", '-q', '-o', 'l.shard', 'again/list'), 0, 'a picture 3000 times');
soon('unpacked', 0, "$b/yolo-prep", '-q', '-x', 'un', 'l.shard');
is(scalar(my @all = glob 'un/images/*.jpg un/images/*/*/*.jpg un/images/*/*/*/*.jpg'), 3000,
    'all of them');

# ---- what a format cannot hold

sub coco {
	my ($name, $box, $more) = @_;
	put('odd.json', qq({"images":[{"id":1,"file_name":"$jpg"}],"categories":[{"id":1,) .
	    qq("name":"$name"}],"annotations":[{"id":1,"image_id":1,"category_id":1,) .
	    qq("bbox":[$box]$more}]}));
	return run("$b/yolo-prep", '-o', 'odd.shard', 'odd.json') . ' ' . get('err');
}
for (['a\\nb', 'of more than one line'], ['', 'empty'], ['a\\u001b[31m', 'control characters'],
    ['a\\u0000b', 'a zero byte'], ['a\\u007f', 'control characters']) {
	my ($name, $why) = @$_;
	like(coco($name, '1,1,9,9', ''), qr/^1 [^\e\n]*$why[^\e\n]*\n/, "a category '$name'");
}
like(coco('a', '1,1,1e200,1e200', ''), qr/not a finite number/, 'a box of infinite area');
like(coco('a', '1,1,9,9', ',"area":1e999'), qr/^0 /, 'an infinite area: that of the box');
is(run("$b/yolo-prep", '-q', '-x', 'odd', '-f', 'coco', 'odd.shard'), 0, 'unpacked');
like(get('odd/instances.json'), qr/"area":81,/, 'as a number');
make_path('voc/Annotations', 'voc/JPEGImages');
system("cp $jpg voc/JPEGImages/a.jpg");
put('voc/Annotations/a.xml', '<annotation><filename>a.jpg</filename><object><name>traffic' .
    "\n\tlight</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>30</xmax><ymax>40</ymax>" .
    '</bndbox></object></annotation>');
is(run("$b/yolo-prep", '-q', '-o', 'voc.shard', 'voc') . run("$b/yolo-prep", '-q', '-x', 'unvoc',
    'voc.shard') . get('unvoc/names'), "00traffic light\n", 'a VOC name over two lines is one');
put('two.yaml', "train: set/images\nnames: [a, b, c, d]\nnames: [d, c, b, a]\n");
is(run("$b/yolo-prep", '-o', 'x.shard', 'two.yaml'), 1, 'a key twice in data.yaml');
like(get('err'), qr/two\.yaml:3: 'names:' a second time/, 'with its line');
put('two.yaml', "train: set/images\nnames: ['', b, c, d]\n");
is(run("$b/yolo-prep", '-o', 'x.shard', 'two.yaml'), 1, 'an empty name in data.yaml');

my $long = 'x' x 251;
system("cp $jpg $long.jpg");
put("$long.txt", "0 .5 .5 .2 .2\n");
is(run("$b/yolo-prep", '-q', '-o', 'long.shard', "$long.jpg"), 0, 'a name of 255 bytes');
is(run(@detect, '-f', 'yolo', '-o', 'dl', '-x', 'draw', 'long.shard'), 0, 'detected');
is(join(' ', map { s{.*/}{}r } glob 'dl/* draw/*'), "$long.txt $long.jpg", 'written');
is(run("$b/yolo-prep", '-q', '-o', 'y' x 255, "$long.jpg"), 0, 'an output of 255 bytes');

# ---- models of other programs

my @foreign = (
	['a.pt', "PK\3\4" . "\0" x 26 . 'archive/data.pkl', 'PyTorch'],
	['b.pth', "\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.", 'PyTorch'],
	['c.onnx', "\x08\x07\x12\x07pytorch\x1a\x051.9.1:\x10", 'ONNX'],
	['d.h5', "\x89HDF\r\n\x1a\n\0\0\0\0", 'Keras'],
	['e.pb', "\x0a\x1b\x0a\x05input\x12\x0bPlaceholder", 'TensorFlow'],
	['f.tflite', "\x1c\0\0\0TFL3" . "\0" x 20, 'TensorFlow Lite'],
	['g.engine', "ftrt\0\0\0\0" . "\0" x 20, 'TensorRT'],
	['h.npz', "PK\3\4" . "\0" x 26 . 'arr_0.npy', 'a zip archive'],
);
for (@foreign) {
	my ($name, $bytes, $what) = @$_;
	put($name, $bytes . "\x55" x 200);
	is(run("$b/yolo-detect", '-w', $name, $jpg), 1, $name);
	like(get('err'), qr/\Q$name\E: .*\b$what.* which is not read: want .*\.weights/, 'named');
	is(run("$b/yolo-train", @net, '-w', $name, '-o', 'rw', 'y.shard'), 1, 'by yolo-train');
	like(get('err'), qr/which is not read: want/, 'too');
}

# ---- a file that shrinks: none is mapped, so that none can end a program by SIGBUS

my @maps = grep { !m{/(sync|test)/} && get($_) =~ /\bmmap\([^;]*\bfd\b/ }
    glob "$b/*.c $b/*/*.c";
is("@maps", '', 'no file is mapped');
done_testing();
