#!/usr/bin/perl
# help.t -- the settings in a manual page are those of -O help: order, range, default, meaning; more
# may be said about one after that.
use strict;
use warnings;
use lib 'test';
use Tap;

my @page = (['yolo-train'], ['yolo-detect'], ['yolo-eval'], ['yolo-prep'], ['yolo-bench', 'step'],
    ['yolo-export'],
    ['tools/yolo-show']);

sub in_page {			# key, range, then the words of an item
	my ($path, $on, @item) = @_;
	open my $f, '<', $path or die "$path: $!";
	while (<$f>) {
		chomp;
		$on = /SETTINGS/ if /^\.Sh/;
		next if !$on || /^\.(Sh|Bl|El|Fl)/;
		if (/^\.It Cm (\S+) Pq (.*)/) {
			push @item, [$1, $2, ''];
		} elsif (@item) {
			$item[-1][2] .= ($item[-1][2] eq '' ? '' : ' ') . $_;
		}
	}
	return @item;
}

for (@page) {
	my $prog = "@$_";
	my ($page) = $_->[0] =~ m{([^/]+)$};
	my $path = "man/$page.1";
	my @want = map { [split /\t/] } grep { !/^#/ } split /\n/, `./$prog -O help`;
	my @have = in_page($path);
	ok(@want && @want == @have, "$path has the settings of $prog -O help: " . @have);
	for my $i (0 .. $#want) {
		my ($key, $default, $range, $meaning) = @{$want[$i]};
		my $text = ucfirst($meaning) . '.';
		$text .= " The default is $default." if $default ne '-';
		my ($k, $r, $t) = @{$have[$i] || ['', '', '']};
		my $same = $k eq $key && $r eq $range && index($t, $text) == 0;
		ok($same, "$prog -O $key") or
		    diag("page:    $k $r $t\nprogram: $key $range $text");
	}
}
done_testing();
