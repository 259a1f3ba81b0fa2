# detect.pl -- what the tests of yolo-detect share: running it, a network made by hand, pictures.
#
# The network looks at cells of 8x8 pixels: mean red says whether there is an object, mean green
# which of two classes, so the tests know every box beforehand.
use strict;
use warnings;
use JSON::PP;
use lib 'test';
use Tap qw(:DEFAULT run);

our $dir = $tmp;

sub detect { return run(ref $_[0] ? shift : (), './yolo-detect', '-q', @_); }

# Rows of the TSV as [image, class, name, score, x, y, w, h].
sub rows { return map { [ split /\t/, $_, -1 ] } grep { !/^#/ } split /\n/, $_[0]; }

# A PPM picture: black, and rectangles [x, y, w, h, r, g, b].
sub ppm {
	my ($path, $w, $h, @rect) = @_;
	my $px = "\0\0\0" x ($w * $h);
	for my $r (@rect) {
		my ($x, $y, $rw, $rh, @c) = @$r;
		substr($px, 3 * ($_ * $w + $x), 3 * $rw) = pack('C3', @c) x $rw
		    for $y .. $y + $rh - 1;
	}
	return spew($path, "P6\n$w $h\n255\n$px");
}

# Kernels of the one convolution: filter => [bias, red, green, blue], on means of the cell.
sub kernels {
	my (%k) = @_;
	my ($bias, @w) = ([], ());
	for my $f (0 .. 6) {
		my ($b, @c) = @{ $k{$f} || [ 0, 0, 0, 0 ] };
		push @$bias, $b;
		push @w, map { ($_ / 64) x 64 } @c;
	}
	return ($bias, \@w);
}

our %cells = (4 => [ -25, 40, 0, 0 ], 5 => [ 10, 0, -20, 0 ], 6 => [ -11, 0, 20, 0 ]);

sub weights {
	my ($path, %k) = @_;
	my ($bias, $w) = kernels(%k);
	return spew($path, pack('l<3 Q< f<*', 0, 2, 0, 0, @$bias, @$w));
}

sub cfg {
	my ($path, $head, $act, $side) = @_;
	my $s = $side || 32;
	$act ||= 'linear';
	$head ||= "[yolo]\nmask=0\nanchors=8,8\nclasses=2\nnum=1\n";
	return spew($path, "[net]\nwidth=$s\nheight=$s\nchannels=3\nbatch=1\n\n[convolutional]\n" .
	    "filters=7\nsize=8\nstride=8\npad=0\nactivation=$act\n\n$head");
}

# The same as a safetensors file with metadata; extra tensors by prefix: prefix => kernels.  Where
# the cfg asks for batch-norm it changes nothing.
sub safetensors {
	my ($path, $meta, %sets) = @_;
	my (%head, $data) = ();
	$head{__metadata__} = $meta;
	$data = '';
	for my $prefix (sort keys %sets) {
		my ($bias, $w) = kernels(%{ $sets{$prefix} });
		my @bn = $meta->{cfg} =~ /batch_normalize=1/ ? ([ 'gamma', [7], [ (1) x 7 ] ],
		    [ 'mean', [7], [ (0) x 7 ] ], [ 'var', [7], [ (1) x 7 ] ]) : ();
		for my $t ([ 'bias', [7], $bias ], [ 'weight', [ 7, 3, 8, 8 ], $w ], @bn) {
			my $at = length $data;
			$data .= pack('f<*', @{ $t->[2] });
			$head{"${prefix}layer.0.$t->[0]"} = { dtype => 'F32', shape => $t->[1],
				data_offsets => [ $at, length $data ] };
		}
	}
	my $json = JSON::PP->new->utf8->canonical->encode(\%head);
	$json .= ' ' while length($json) % 8;
	return spew($path, pack('Q<', length $json) . $json . $data);
}

sub s1 { return 1 / (1 + exp(-$_[0])); }

sub near { return abs($_[0] - $_[1]) <= $_[2]; }

1;
