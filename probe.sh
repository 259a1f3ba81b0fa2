#!/bin/sh
# probe.sh -- find out what this machine can build; the Makefile keeps the answer in config.mk,
# which is yours to edit.  "make -B config.mk" asks again.
cc=${CC:-cc}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
missing=

try() {		# try NAME FLAGS: does the program on stdin compile and link with these flags?
	name=$1; shift
	if cat >"$tmp/a.c" && $cc "$tmp/a.c" -o "$tmp/a" "$@" 2>/dev/null
	then echo "$name = $*"; echo "probe: $name: yes" >&2; return 0
	else echo "$name ="; echo "probe: $name: no" >&2; return 1
	fi
}
need() {	# need PACKAGE NAME FLAGS: the same, for what cannot be done without
	pkg=$1; shift
	try "$@" || missing="$missing $pkg"
}

try MARCH -march=native <<!
int main(void) { return 0; }
!
need gcc OPENMP -fopenmp <<!
#include <omp.h>
int main(void) { return omp_get_max_threads() < 1; }
!
need libdnnl-dev DNNL -ldnnl <<!
#include <dnnl.h>
int main(void) { return dnnl_version()->major < 2; }
!
need libjpeg-dev JPEG -ljpeg <<!
#include <stdio.h>
#include <jpeglib.h>
int main(void) { struct jpeg_error_mgr e; return !jpeg_std_error(&e); }
!
need libstb-dev STB -I/usr/include/stb <<!
#include <stdio.h>
#include <stb_image.h>
#include <stb_image_resize.h>
int main(void) { return 0; }
!
need libxxhash-dev XXHASH -lxxhash <<!
#include <xxhash.h>
int main(void) { return XXH3_64bits("a", 1) == 0; }
!
need zlib1g-dev ZLIB -lz <<!
#include <zlib.h>
int main(void) { return crc32(0, 0, 0) != 0; }
!
need libyajl-dev YAJL -lyajl <<!
#include <yajl/yajl_parse.h>
int main(void) { yajl_free(yajl_alloc(0, 0, 0)); return 0; }
!
need libexpat1-dev EXPAT -lexpat <<!
#include <expat.h>
int main(void) { XML_ParserFree(XML_ParserCreate(0)); return 0; }
!
need libyaml-dev YAML -lyaml <<!
#include <yaml.h>
int main(void) { yaml_parser_t p; return !yaml_parser_initialize(&p); }
!
if [ -n "$missing" ]; then
	echo "probe: missing:$missing; tools/deps installs what this program needs" >&2
	exit 1
fi

nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
real=$(readlink -f "$nvcc")
include=${real%/bin/nvcc}/include
header() { echo "#include <$1>" | $cc -I"$include" -E - >/dev/null 2>&1; }
if [ -n "$nvcc" ] && ! header cublasLt.h; then
	echo "probe: $nvcc is there, cublasLt.h is not (package libcublas-dev-*): no CUDA" >&2
	nvcc=
fi
echo "NVCC = $nvcc"
echo "probe: NVCC: ${nvcc:-no}" >&2
[ -n "$nvcc" ] || exit 0
echo "CUDA_HOME = ${real%/bin/nvcc}"
if header nccl.h
then echo "NCCL = yes"; echo "probe: NCCL: yes" >&2
else echo "NCCL ="; echo "probe: NCCL: no (package libnccl-dev): GPUs sum through the host" >&2
fi
code() { for s in $*; do printf ' -gencode arch=compute_%s,code=sm_%s' "$s" "$s"; done; }
archs=$("$nvcc" --list-gpu-arch | sed -n 's/^compute_\([0-9]*\)$/\1/p' | sort -nu)
last=$(echo "$archs" | tail -n 1)
all=$(for a in $archs; do [ "$a" -ge 70 ] && echo "$a"; done)
here=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d . | sort -nu)
case $here in *[!0-9[:space:]]*) here=;; esac
for s in $here; do		# a GPU newer than this nvcc takes the newest PTX
	echo "$archs" | grep -qx "$s" || here=
done
echo "GENCODE_ALL =$(code $all) -gencode arch=compute_$last,code=compute_$last"
if [ -n "$here" ]
then echo "GENCODE_HERE =$(code $here)"
else echo "GENCODE_HERE =$(code 80 90) -gencode arch=compute_90,code=compute_90"
fi
