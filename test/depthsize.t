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

# ---- a file that shrinks: none is mapped, so that none can end a program by SIGBUS

my @maps = grep { !m{/(sync|test)/} && get($_) =~ /\bmmap\([^;]*\bfd\b/ } glob "$b/*.c $b/*/*.c";
is("@maps", '', 'no file is mapped');
done_testing();
