# Tap.pm -- what tests in Perl share: Test::More, a folder that goes with the test, files, programs.
#
# Tests run in the root of the tree: use lib 'test'; use Tap;
package Tap;
use strict;
use warnings;
use Exporter 'import';
use File::Temp 'tempdir';
use Test::More;

our $tmp = tempdir(CLEANUP => 1);
our @EXPORT = (@Test::More::EXPORT, qw($tmp slurp spew clean shared));
our @EXPORT_OK = qw(run shell);

sub slurp {			# the bytes of a file; undef: it cannot be read
	my ($path) = @_;
	open my $f, '<:raw', $path or return undef;
	local $/;
	return scalar(<$f>) // '';
}

sub spew {			# its path; a relative one is in $tmp
	my ($path, @bytes) = @_;
	$path = "$tmp/$path" unless $path =~ m{^/};
	open my $f, '>:raw', $path or die "$path: $!";
	print $f @bytes;
	close $f or die "$path: $!";
	return $path;
}

sub ended { return $? & 127 ? 128 + ($? & 127) : $? >> 8 }

# Run a program: (status, stdout, stderr).  The first argument may be {stdin => text}.
sub run {
	my $opt = ref $_[0] ? shift : {};
	my @cmd = @_;
	spew('.in', $opt->{stdin} // '');
	my $pid = fork();
	die "fork: $!" unless defined $pid;
	if (!$pid) {
		open STDIN, '<', "$tmp/.in";
		open STDOUT, '>', "$tmp/.out";
		open STDERR, '>', "$tmp/.err";
		exec { $cmd[0] } @cmd or exit 127;
	}
	waitpid $pid, 0;
	return (ended(), slurp("$tmp/.out"), slurp("$tmp/.err"));
}

# By a shell: (stdout, status, stderr).  A word may be <file, >file or |command.
sub shell {
	my $cmd = join ' ', map { /^[<>|]/ ? $_ : "'$_'" } @_;
	my $out = `$cmd 2>$tmp/.err`;
	return ($out, ended(), slurp("$tmp/.err"));
}

sub clean {			# a rule that each of @bad breaks
	my ($rule, @bad) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return ok(!@bad, $rule) || diag(join "\n", @bad);
}

sub shared {			# shared PATH: the whole test needs it; the path
	my ($path) = @_;
	plan skip_all => 'no ../shared' unless -e $path;
	return $path;
}

1;
