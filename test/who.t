#!/usr/bin/perl
# who.t -- who may call whom: undefined symbols of every object against the one that defines them,
# and the #includes of every file.
#
# The table is the rule: parts from low to high, each with its door and the lower parts that it may
# use.  A call or an include that goes up, or stands in no row, fails; so does a permission that
# nobody uses, a folder's file that calls its own door, and another part's int.h.
use strict;
use warnings;
use lib 'test';
use Tap;

my @table = (			# part, its door, the parts below that it may use besides base
	['base', '', ''],
	['image', '', ''],
	['model', 'cfgparse', ''],
	['kernel', 'conv', ''],
	['sync', 'nccl_sync', 'kernel'],
	# A box is clipped to its picture, whose size stands in the picture's header.
	['labels', '', 'image'],
	['loss', 'yololoss', 'model kernel'],
	['shard', '', 'image labels'],
	# The one place that knows every device's kernels; all others have a struct dev.
	['device', '', 'kernel sync loss'],
	# Batch-norm over ranks gives up through sync_fail().
	['net', 'net', 'model kernel sync loss'],
	['loader', 'loader', 'image labels loss shard'],
	['detect', '', 'image model kernel labels loss shard net'],
	['eval', 'evalmap', 'labels'],
	['score', '', 'labels shard eval'],
	['train', '', 'image model kernel sync loss shard device net loader detect eval score'],
	['bench', '', 'image model kernel sync labels shard device net loader eval score train'],
	['export', '', 'model kernel net detect'],
);
my %library = (			# which files may call it
	dnnl => 'cpu', jpeg_std => 'jpeg', jpeg_Create => 'jpeg', stbi => 'stb image resize draw',
	yajl => 'cocoparse safetensors', XML => 'labelvoc', yaml => 'labelyaml',
	crc32 => 'imagehead',
	XXH => 'export pack safetensors shard shardcodec shardstream shardwrite',
	cuda => 'cuda sync_nccl', cublas => 'cuda', nccl => 'sync_nccl', MPI => 'sync_mpi',
);
# What a launch in a kernel's file becomes under nvcc (dev.h): its start, and whether it failed.
my $launch = qr/^cuda(LaunchKernel|LaunchKernelExC|GetLastError|GetErrorString)$/;
my (%part, %may, %rank, %door, %used);

# ---- the table

for (@table) {
	my ($p, $door, $may) = @$_;
	$rank{$p} = keys %rank;
	$may{$p} = { map { $_ => 1 } $p, 'base', split ' ', $may };
	m{([^/]+)\.cu?$} and $part{$1} = $p for glob("$p/*.c $p/*.cu");
	$door{$door} = $part{$door} = $p if $door;
}
sub above {			# entries that name a part of their own height or above
	return map { my $p = $_->[0]; map { "$p may use $_" }
	    grep { !defined $rank{$_} || $rank{$_} >= $rank{$p} } split ' ', $_->[2] } @_;
}
clean('the table goes down only', above(@table));
clean('an entry that goes up is seen', above(['net', '', 'train']) ? () : 'it is not');
clean('every source is in a part, a program or a tool', grep {
	my ($name) = m{([^/]+)\.cu?$};
	!$part{$name} && $name !~ /^yolo-/;
} glob('*.c *.cu'));

# ---- calls

my @objects = grep { !m{/yolo-} } glob('obj/*.o');
my @programs = glob('obj/yolo-*.o tools/yolo-*.o');
if (!@objects || system('nm --version >/dev/null 2>&1')) {
	SKIP: { skip(@objects ? 'no nm' : 'nothing is built here', 1) }
	done_testing();
	exit 0;
}
# A kernel's object is FILE.cpu.o, FILE.cuda.o or the same for bfloat16, which count as FILE.
my (%def, %use, @global);	# @global: variables that may change
open my $nm, '-|', "nm -A --format=sysv @objects @programs" or die "nm: $!";
while (<$nm>) {
	my ($at, undef, $class, undef, undef, undef, $section) = split /\s*\|\s*/;
	next if !defined $section;
	my ($o, $name) = $at =~ m{([^/]+?)(?:\.(?:cpu|cuda)(?:16)?)?\.o:(\S+)$} or next;
	next if $name =~ /^__(odr_)?asan|^__ubsan|^main$/;
	push @global, "$o: $name" if $class =~ /^[BDCbdc]$/ && $section !~ /rel\.ro/ &&
	    $name !~ /^(stbi_.*|stbir_.*|__.*|_Z.*|prog|quiet)$/;
	next if $class !~ /^[A-Zw]$/;
	$class =~ /[Uw]/ ? ($use{$o}{$name} = 1) : ($def{$name}{$o} = 1);
}
close $nm;

my @call;			# [from, name, to]
for my $from (sort keys %use) {
	for my $name (sort grep { $def{$_} } keys %{$use{$from}}) {
		push @call, [$from, $name, $_] for sort keys %{$def{$name}};
	}
}

sub calls {			# those that the rule is true for
	my ($rule) = @_;
	return map { "$_->[0] calls $_->[1] of $_->[2]" } grep { $rule->($_->[0], $_->[2]) } @call;
}

sub allowed {			# may this file use that one's part?
	my ($from, $to) = @_;
	my ($p, $q) = ($part{$from}, $part{$to});
	return 1 if !$p || !$q;
	$used{$p}{$q} = 1 if $p ne $q;
	return $may{$p}{$q};
}

my %program = map { m{([^/]+)\.o$} => 1 } @programs;
clean('every object is of a part', map { "$_ is of none" }
    grep { !$part{$_} && !$program{$_} } sort keys %use);
clean('parts call what they may', calls(sub { !allowed(@_) }));
clean('nobody inside a folder calls its door', calls(sub {
	my ($from, $to) = @_;
	return $door{$to} && $from ne $to && ($part{$from} || '') eq $door{$to};
}));
clean('no program is used by another file', calls(sub { $program{$_[1]} && $_[0] ne $_[1] }));

# Public for a test alone: a table or a step of a computation that no program shows by itself.
my %for_tests = map { $_ => 1 } qw(cfg_knows cfg_unused eval_read_scan eval_truth_coco image_load
    label_yolo net_moments nms_decoded scan_memory st_get);
my %for_nccl = map { $_ => 1 } qw(meet_beats meet_id meet_noted meet_slept shm_barrier
    shm_bcast_host shm_sum_host);
my (%called, %tested);
$called{$_->[1]} = 1 for grep { $_->[0] ne $_->[2] } @call;
for (`nm -A -u test/*.o 2>/dev/null`) { $tested{$1} = 1 if /\bU (\S+)$/ }
my @lonely = grep { !$called{$_} && !/^(stbir?_|_Z|DW\.)/ && grep { $part{$_} } keys %{$def{$_}} }
    sort keys %def;
SKIP: {
	skip('no test in C is built', 1) unless %tested;
	clean('every public function has a user in another file', (map { "$_ has none" }
	    grep { !$for_tests{$_} && !($for_nccl{$_} && !$use{sync_nccl}) } @lonely),
	    map { "$_ is public for no test" } grep { $for_tests{$_} && !$tested{$_} } @lonely);
}
{
	local $may{train} = { base => 1 };
	clean('a call against the table is seen', calls(sub { !allowed(@_) }) ? () : 'it is not');
}

my %kernel = map { m{([^/]+)\.cu$} => 1 } glob('*.cu */*.cu');
my @lib;
for my $from (sort keys %use) {
	my @outside = grep { !$def{$_} } keys %{$use{$from}};
	for my $lib (sort keys %library) {
		next if grep { $_ eq $from } split ' ', $library{$lib};
		push @lib, map { "$from calls $_" } grep { /^\Q$lib\E[A-Z0-9_]/ &&
		    !($kernel{$from} && /$launch/) } @outside;
	}
}
clean('libraries are called from one place each', @lib);

# What a handler of signals sets; what util knows of the process itself (its locale, its line on the
# terminal), and end (its signals, files being written); operands that stand for none given, as
# char ** wants them; stb's own.
my $fine = qr/^(bencheval|trainrun|yolo-detect|yolo-prep):\ (asked|stop|stopped_by)\b |
	^yolo-detect:\ running |
	^util:\ (c|progress_len|stdout_told)\b |
	^end:\ (end|set)\b | ^stb:\ (firstmap|mapping|limit)\b | ^image:\ threads\b |
	^(trainprep|yolo-eval|yolo-prep):\ (demo|standard|from_stdin)\b/x;
clean('no mutable variables, static ones too, but those named here', grep { !/$fine/ } @global);

# ---- includes

my (@up, @foreign, @dev, @ifdef);
for my $f (grep { !m{^(test|tools)/} } glob('*.c *.cu *.h */*.c */*.cu */*.h')) {
	my ($base) = $f =~ m{([^/]+)\.\w+$};
	my $p = $f =~ m{^(\w+)/} ? $1 : $door{$base};
	open my $h, '<', $f or die "$f: $!";
	while (<$h>) {
		if (m{^#include "(\w+)/(\w+)\.h"} && $p) {
			push @up, "$f:$.: $1" if !$may{$p}{$1} && $1 ne 'test';
			push @foreign, "$f:$.: $_" if $2 eq 'int' && $1 ne $p;
			$used{$p}{$1} = 1 if $1 ne 'test';
		}
		push @up, "$f:$.: yolo.h" if $p && /^#include "yolo\.h"/;
		push @dev, "$f:$.: $_" if m{^#include "kernel/dev\.h"} && $f !~ /\.cu$/;
		push @ifdef, "$f:$.: $_" if /^#\s*if.*\b(CUDA|MPI)\b/ && $f ne 'device/dev.c' ||
		    /^#\s*if.*\b(EMU|__CUDACC__)\b/ && $f !~ /\.cu$|^kernel\/dev\.h$/;
	}
}
chomp(@foreign, @dev, @ifdef);
clean('parts include what they may', @up);
clean('a part keeps its int.h to itself', @foreign);
clean('only kernel files include dev.h', @dev);
clean('what is built is chosen by the Makefile: no #ifdef of a device elsewhere', @ifdef);
clean('no permission that nobody uses', map { my $p = $_->[0]; map { "$p may use $_" }
    grep { !$used{$p}{$_} } split ' ', $_->[2] } @table);
done_testing();
