#!/usr/bin/perl
# who.t -- who may call whom: undefined symbols of every object against the one that defines them.
#
# The table is the rule.  A module may call itself, util and what stands in its last column; a file
# that is in no module, or a call that is in no row, fails.
use strict;
use warnings;

my @table = (			# module, its files, the modules it may call
	['util', 'util opt', ''],
	['cfg', 'cfglex cfgkeys cfgparse cfgsame cfgshape', ''],
	['image', 'image imagehead jpeg stb resize draw', ''],
	['box', 'box suppress', ''],
	['safetensors', 'safetensors', ''],
	['schedule', 'schedule optimplan', ''],
	['eval', 'evalap evalboot evalcurve evalerr evallist evalmap evalplot evalrows evalrule ' .
	    'evalsort evaltide evalultra', ''],
	# Kernels and their host code: dev.h, fn.h and util; never a net, never each other.
	['conv', 'conv convdirect convgemm winograd', ''],
	['batchnorm', 'batchnorm', ''],
	['layers', 'layers heads', ''],
	['loss', 'loss assign targets lossbase yololoss darkloss regionloss', ''],
	['optim', 'optim', ''],
	# A box is clipped to its picture, whose size stands in the picture's header.
	['labels', 'labels labelcoco labellist labelvoc labelvocpic labelwalk labelyaml ' .
	    'labelyolo cocoparse', 'image'],
	['shard', 'shard shardcodec shardstream shardwrite', ''],
	['pack', 'pack packjob unpack', 'labels shard image'],
	['augment', 'augment warp', 'image box'],
	['loader', 'loader album order', 'shard augment image'],
	['imageids', 'imageids', ''],
	['evalset', 'evalclass evalname evalnum evalother evalread evalscan evalset evalshape ' .
	    'evalside evaltext evaltruth', 'eval labels shard'],
	['report', 'report', ''],
	['evalreport', 'evalreport evalfigure', 'eval evalset report'],
	# The one place that knows every device's kernels; all others have a struct dev.
	['store', 'store', ''],
	['dev', 'dev cpu cpubf16 cuda', 'conv batchnorm layers loss optim store sync'],
	['sync', 'nccl_sync sync_join sync_meet sync_mpi sync_nccl sync_shm sync_world', ''],
	['weights', 'params weights weights_st transfer checkpoint', 'cfg safetensors'],
	# Batch-norm over ranks gives up through sync_fail().
	['net', 'net netplan netforward netbackward', 'cfg weights sync'],
	['inputs', 'source inputs', 'image shard'],
	['detect', 'detect', 'cfg net weights box'],
	['detwrite', 'detwrite', 'detect image imageids labels'],
	['recipe', 'recipe recipecfg recipeloss trainset cfguse',
	    'cfg loss augment schedule weights validate'],
	['trainer', 'trainer', 'cfg loader loss net schedule sync weights'],
	['validate', 'validate', 'detect eval evalset inputs net shard sync'],
	['train', 'traindata trainfit trainprep trainuse trainrun trainkeep',
	    'augment cfg dev image loader loss net recipe safetensors schedule shard sync ' .
	    'trainer validate weights'],
	['bench', 'bencheval benchops benchstep benchutil',
	    'cfg dev eval evalset loader net recipe shard trainer weights'],
);
my %library = (			# who may call it
	dnnl => 'cpu cpubf16', tj => 'jpeg', stbi => 'stb image resize draw',
	yajl => 'cocoparse safetensors', XML => 'labelvoc', yaml => 'labelyaml',
	XXH => 'pack safetensors shard shardcodec shardstream shardwrite', cuda => 'cuda sync_nccl',
	cublas => 'cuda', nccl => 'sync_nccl', MPI => 'sync_mpi',
);
# What a launch in a kernel's file becomes under nvcc (dev.h): its start, and whether it failed.
my $launch = qr/^cuda(LaunchKernel|LaunchKernelExC|GetLastError|GetErrorString)$/;
my ($n, %module, %may, %def, %use, %undef) = (0);

sub ok {
	my ($what, @bad) = @_;
	print @bad ? 'not ' : '', 'ok ', ++$n, " - $what\n";
	print "# $_\n" for @bad;
}

for (@table) {
	my ($m, $files, $may) = @$_;
	$module{$_} = $m for split ' ', $files;
	$may{$m} = { map { $_ => 1 } $m, 'util', split ' ', $may };
}

# A kernel's object is FILE.cpu.o, FILE.cuda.o or the same for bfloat16, which count as FILE.
my @objects = grep { !m{/yolo-} } glob('obj/*.o');
my @programs = glob('obj/yolo-*.o tools/yolo-*.o');
if (!@objects || system('nm --version >/dev/null 2>&1')) {
	print '1..0 # SKIP ', @objects ? 'no nm' : 'nothing is built here', "\n";
	exit 0;
}
my @global;			# variables that may change
open my $nm, '-|', "nm -A -g --format=sysv @objects @programs" or die "nm: $!";
while (<$nm>) {
	my ($at, undef, $class, undef, undef, undef, $section) = split /\s*\|\s*/;
	next if !defined $section;
	my ($o, $name) = $at =~ m{([^/]+?)(?:\.(?:cpu|cuda)(?:16)?)?\.o:(\S+)$} or next;
	next if $name =~ /^__(odr_)?asan|^__ubsan|^main$/;
	$class =~ /[Uw]/ ? ($use{$o}{$name} = 1) : ($def{$name}{$o} = 1);
	push @global, "$o: $name" if $class =~ /[BDC]/ && $section !~ /rel\.ro/ &&
	    $name !~ /^(stbi_.*|__.*|prog|quiet)$/;
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

sub allowed {
	my ($from, $to) = @_;
	return 1 if $from eq $to || !$module{$from} || !$module{$to};
	return $may{$module{$from}}{$module{$to}};
}

my %program = map { m{([^/]+)\.o$} => 1 } @programs;
ok('every file is in the table', map { "$_ is in no module" }
    grep { !$module{$_} && !$program{$_} } sort keys %use);
ok('modules call what they may', calls(sub { !allowed(@_) }));
ok('no program is used by another file', calls(sub { $program{$_[1]} && $_[0] ne $_[1] }));
ok('a rule against what is done is seen to be broken',
    !allowed('box', 'cfgparse') && calls(sub { $_[1] eq 'cfgparse' }) ? () : 'it is not seen');
my @lib;
my %kernel = map { m{([^/]+)\.cu$} => 1 } glob('*.cu */*.cu');
for my $from (sort keys %use) {
	my @outside = grep { !$def{$_} } keys %{$use{$from}};
	for my $lib (sort keys %library) {
		next if grep { $_ eq $from } split ' ', $library{$lib};
		push @lib, map { "$from calls $_" } grep { /^\Q$lib\E[A-Z0-9_]/ &&
		    !($kernel{$from} && /$launch/) } @outside;
	}
}
ok('libraries are called from one place each', @lib);

ok('no mutable globals but name and verbosity', @global);

my (@dev, @ifdef);
for my $f (grep { !m{^(test|tools)/} } glob('*.c *.cu *.h */*.c */*.cu */*.h')) {
	open my $h, '<', $f or die "$f: $!";
	while (<$h>) {
		push @dev, "$f:$.: $_" if /^#include "dev\.h"/ && $f !~ /\.cu$/;
		push @ifdef, "$f:$.: $_" if /^#\s*if.*\b(CUDA|MPI)\b/ && $f ne 'device/dev.c' ||
		    /^#\s*if.*\b(EMU|__CUDACC__)\b/ && $f !~ /\.cu$|^kernel\/dev\.h$/;
	}
}
chomp(@dev, @ifdef);
ok('only kernel files include dev.h', @dev);
ok('what is built is chosen by the Makefile: no #ifdef of a device elsewhere', @ifdef);
print "1..$n\n";
