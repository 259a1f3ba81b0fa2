#!/usr/bin/perl
# code.t -- doc/code.md is true: the parts are the folders, in who.t's order; the functions and
# files that it names exist.
use strict;
use warnings;
use lib 'test';
use Tap;

my $doc = slurp('doc/code.md');
my $code = join '', map { slurp($_) } glob('*.c *.cu */*.c */*.cu');
my ($parts, $way) = $doc =~ /\n\n((?:    \w+ [^\n]*\n)+).*?## The way.*?\n\n((?:    [^\n]*\n)+)/s;
my @part = $parts =~ /^    (\w+)/mg;
my @table = slurp('test/who.t') =~ /^\t\['(\w+)', '\w*', '[\w ]*'\],$/mg;
clean('the parts, low to high', "@part" eq "@table" ? () : ("doc: @part", "who.t: @table"));
clean('each is a folder with its header', grep { !-e "$_/$_.h" } @part);
my @function = ($way =~ /^    (\w+)/mg, $way =~ /\b([a-z]+_[a-z_]+)\b(?![.\/])/g);
clean('functions were found', @function > 10 ? () : "@function");
clean('they exist', grep { $code !~ /^\Q$_\E\(/m } @function);
my @file = grep { !/^part\// } $doc =~ m{\b((?:\w+/)?[\w-]+\.(?:c|cu|h|t))\b}g;
clean('files that it names exist',
    grep { !-e $_ && !glob("*/$_") } @file, @file ? () : 'none found');
my @tag = $doc =~ /`(?:enum|struct) (\w+)`/g;
my $headers = join '', map { slurp($_) } glob('*/*.h');
clean('types that it names exist', grep { $headers !~ /\b(enum|struct) $_ \{/ } @tag);
done_testing();
