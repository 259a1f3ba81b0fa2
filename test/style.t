#!/usr/bin/perl
# style.t -- the house style that can be counted: lengths of lines, functions and files, three
# headers, comments that open files, nothing left to do, no path of somebody's machine.
use strict;
use warnings;
use lib 'test';
use Tap;

my @c = (glob('*.c *.cu *.h */*.c */*.cu */*.h test/*.cc test/fuzz/*.c'));
my @script = (glob('Makefile probe.sh tools/* test/*.t test/*.p[lm] test/tap.sh test/check ' .
    'test/long/* test/fuzz/*.sh .ci/run'));
my (%text);

sub width {			# columns, a tab going to the next multiple of 8
	my ($col) = 0;
	for my $part (split /(\t)/, $_[0]) {
		$col = $part eq "\t" ? $col + 8 - $col % 8 : $col + length $part;
	}
	return $col;
}

for my $f (@c, @script) {
	next if $f =~ /\.[ado]$/ || !-T $f || -d $f;
	open my $h, '<:encoding(UTF-8)', $f or die "$f: $!";
	$text{$f} = [<$h>];
	chomp @{$text{$f}};
}
@c = grep { $text{$_} } @c;

sub lines {			# every line for which the test holds, as file:line: what
	my ($test, @file) = @_;
	my @bad;
	for my $f (@file) {
		my $at = 0;
		for (@{$text{$f}}) {
			$at++;
			my $why = $test->($f, $_);
			push @bad, "$f:$at: $why" if $why;
		}
	}
	return @bad;
}

sub long_functions {
	my ($limit, @bad, $name, $from) = (shift);
	for my $f (@_) {
		my $at = 0;
		($name, $from) = ();
		for (@{$text{$f}}) {
			$at++;
			if (/^(\w+)\(/ && !defined $from) {
				($name, $from) = ($1, $at);
			} elsif (/;$/ && !/^\s/ && defined $from && /^[^{}]*$/) {
				$from = undef;
			} elsif (/^\}/) {
				my $long = defined $from ? $at - $from + 1 : 0;
				push @bad, "$f:$from: $name has $long lines" if $long > $limit;
				$from = undef;
			}
		}
	}
	return @bad;
}

clean('files of at most 1,000 lines', map { "$_: " . @{$text{$_}} }
    grep { @{$text{$_}} > 1000 } sort keys %text);
clean('functions of at most 60 lines', long_functions(60, @c));
clean('a function this test should find', long_functions(8, 'base/util.c') ? () : 'none in util.c');
clean('lines of at most 100 columns', lines(sub {
	my $w = width($_[1]);
	return $w > 100 ? "$w columns" : '';
}, sort keys %text));
my $type = 'void|int|long|char|float|double|size_t|u?int\d+_t';
clean('return types on a line of their own', lines(sub {
	return $_[1] =~ /^((static|inline|const|unsigned|struct \w+|$type)\s+)+\**\w+\([^;]*$/ &&
	    $_[1] !~ /=|\}$|\\$/ ? $_[1] : '';
}, grep { !/\.h$|\.cc$/ } @c));
clean('no spaces at the ends of lines',
    lines(sub { $_[1] =~ /\s$/ ? 'space' : '' }, sort keys %text));
clean('no empty line at the end', grep { @{$text{$_}} && $text{$_}[-1] eq '' } sort keys %text);
clean('files open with their name and what they are', map { "$_: $text{$_}[0]" } grep {
	my ($base) = m{([^/]+)$};
	$text{$_}[0] !~ m{^/\* \Q$base\E -- \S};
} @c);
clean('a header for each part, and one that it keeps to itself', map { "$_ is one too many" }
    grep { !m{^(kernel/dev|base/fn|yolo|(\w+)/(\2|int))\.h$} && !/^test/ } glob('*.h */*.h'));
my $todo = join '|', map { "\\b$_\\b" } 'TO' . 'DO', 'FIX' . 'ME', 'X' . 'XX', 'HA' . 'CK';
clean('nothing left to do', lines(sub { $_[1] =~ /($todo)/ ? $1 : '' }, sort keys %text));
my $path = join '|', '/ho' . 'me/', '/wo' . 'rk/', '/ro' . 'ot/', '/Us' . 'ers/';
clean("no path of somebody's machine",
    lines(sub { $_[1] =~ m{($path)} ? $1 : '' }, sort keys %text));
clean('no typedef but of functions', lines(sub {
	return $_[1] =~ /^\s*typedef\b/ && $_[1] !~ /typedef \w+ \*?\w+\(/ ? $_[1] : '';
}, @c));
# They lose an error of the stream, or write where nobody looked for room.
clean('no rewind, no tmpfile', lines(sub { $_[1] =~ /\b(rewind|tmpfile)\(/ ? $1 : '' },
    grep { !m{^test/} } @c));
clean('no comments of //', lines(sub { $_[1] =~ m{^\s*//|[;{}]\s*// } ? $_[1] : '' }, @c));
done_testing();
