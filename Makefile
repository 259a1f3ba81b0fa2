# make            build what this machine can (config.mk says what that is)
# make demo       draw a data set, train on it for two minutes or so, score, draw
# make check      run the tests       make golden   run the golden cases
# make fuzz       fuzz the parsers    make install  programs, cfgs and man pages (uninstall: away)
# make dist       a tar file          make deb      a Debian package
# make long       tests that take minutes: every published network trains a step
# SAN=1 sanitizers; CUDA=no CPU only; ARCH=all every GPU architecture
PREFIX  = /usr/local
VERSION = $(shell sed -n 's/^.define YOLO_VERSION "\(.*\)"/\1/p' base/base.h)
CFLAGS  = -std=c11 -D_GNU_SOURCE -O3 -g $(MARCH) -Wall -Wextra -Wpointer-arith -Wc++-compat \
	-Werror=vla -Werror=implicit-function-declaration $(FLAGS)
# The kernels' own licence to reorder sums; NaN and infinity keep their meaning.  Rows are short:
# a call of memset costs more than the loop that it stands for.
FAST    = -ffp-contract=fast -fassociative-math -fno-signed-zeros -fno-trapping-math \
	-fno-math-errno -fno-tree-loop-distribute-patterns
EMU     = g++ -std=c++17 -D_GNU_SOURCE -O2 -g -DEMU -Wall -Wextra -Wno-unused-function $(FLAGS)
NVFLAGS = -std=c++17 -O3 -D_GNU_SOURCE $(GENCODE) -Xcompiler -Wall
GOLDEN  = $(firstword $(wildcard ../shared/golden) test/golden-own)
PRECISION = fp32
WEIGHTS =

all: default
config.mk: probe.sh
	sh tools/deps
	CC='$(CC)' sh probe.sh >$@ || { rm -f $@; false; }
include config.mk

ifdef SAN
FLAGS = -fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined
endif
ifeq ($(CUDA),no)
NVCC =
endif
ifeq ($(ARCH),all)
GENCODE = $(GENCODE_ALL)
else
GENCODE = $(GENCODE_HERE)
endif

# The parts, from low to high; objects of all of them lie in obj/.
PART = base image model kernel sync labels loss shard device net loader detect eval score train \
	bench export
vpath %.c $(PART)
vpath %.cu $(PART)
PROG = $(basename $(wildcard yolo-*.c))
TOOL = $(basename $(wildcard tools/yolo-*.c))
DEV  = $(basename $(notdir $(wildcard *.cu $(PART:=/*.cu))))
# What touches activations is compiled once more, for bfloat16 (dev.h).
DEV16 = batchnorm conv convdirect convgemm layers store
MOD  = $(filter-out $(PROG) cuda sync_nccl $(MPIMOD),\
	$(basename $(notdir $(wildcard *.c $(PART:=/*.c)))))
GPUMOD = cuda $(if $(NCCL),sync_nccl)
MPIMOD = sync_mpi
TEST = $(basename $(wildcard test/t-*.c))
# Those that test/kernels.t runs are not run twice.
PROVED = test/t-emu-graph $(filter-out test/t-emu-% test/t-export,$(TEST))
LIBS = $(DNNL) $(JPEG) $(XXHASH) $(ZLIB) $(YAJL) $(EXPAT) $(YAML) -lm -lpthread -ldl
ifneq ($(NVCC),)
HAVE += -DCUDA $(if $(NCCL),-DNCCL)
NVOBJ = $(GPUMOD:%=obj/%.o) $(DEV:%=obj/%.cuda.o) $(DEV16:%=obj/%.cuda16.o)
CUDALIB = -L$(CUDA_HOME)/lib64 -lcudart_static -lrt -lstdc++
endif
ifneq ($(MPI),)
HAVE += -DMPI
endif
CPPFLAGS += -I. $(HAVE) $(DNNL_FLAGS) $(STB)
LINK = $(CC) $(CFLAGS) $(OPENMP)

# Objects of another kind of build (SAN=1, CUDA=no, ARCH=all, MARCH=) are made anew.
KIND = $(NVCC) $(GENCODE) $(MARCH) $(FLAGS)
$(shell echo '$(KIND)' | cmp -s - .kind || echo '$(KIND)' >.kind)

# Which source a figure of yolo-bench was of; "-" outside a repository.
COMMIT := $(or $(shell git describe --always --dirty --abbrev=12 --exclude '*' 2>/dev/null),-)
$(shell echo '$(COMMIT)' | cmp -s - .commit || echo '$(COMMIT)' >.commit)
obj/yolo-bench.o: CPPFLAGS += -DCOMMIT='"$(COMMIT)"'
obj/yolo-bench.o: .commit

default: programs demo-data
programs: $(PROG) $(TOOL)

libyolo.a: $(MOD:%=obj/%.o) $(DEV:%=obj/%.cpu.o) $(DEV16:%=obj/%.cpu16.o) $(NVOBJ)
	rm -f $@; ar rcs $@ $^
test/libemu.a: $(DEV:%=test/%.emu.o) $(DEV16:%=test/%.emu16.o) test/emu.o
	rm -f $@; ar rcs $@ $^

%.o: %.c .kind
	$(CC) $(CPPFLAGS) $(CFLAGS) $(OPENMP) -MMD -c $< -o $@
obj/%.o: %.c .kind | obj
	$(CC) $(CPPFLAGS) $(CFLAGS) $(OPENMP) -MMD -c $< -o $@
obj:
	mkdir -p $@
obj/warp.o: CFLAGS += -fno-trapping-math	# selects of floats without a branch
obj/cuda.o obj/sync_nccl.o: CPPFLAGS += -I$(CUDA_HOME)/include
obj/%.cpu.o: %.cu .kind | obj
	$(CC) $(CPPFLAGS) $(CFLAGS) $(FAST) $(OPENMP) -MMD -x c -c $< -o $@
obj/%.cpu16.o: %.cu .kind | obj
	$(CC) $(CPPFLAGS) -DBF16 $(CFLAGS) $(FAST) $(OPENMP) -MMD -x c -c $< -o $@
obj/%.cuda.o: %.cu .kind | obj
	$(NVCC) $(CPPFLAGS) $(NVFLAGS) -MMD -c $< -o $@
obj/%.cuda16.o: %.cu .kind | obj
	$(NVCC) $(CPPFLAGS) -DBF16 $(NVFLAGS) -MMD -c $< -o $@
test/%.emu.o: %.cu .kind
	$(EMU) $(CPPFLAGS) -MMD -x c++ -c $< -o $@
test/%.emu16.o: %.cu .kind
	$(EMU) $(CPPFLAGS) -DBF16 -MMD -x c++ -c $< -o $@
test/emu.o: test/emu.cc .kind
	$(EMU) $(CPPFLAGS) -MMD -c $< -o $@

# The programs on a CUDA without a GPU (test/fakecuda.h): cuda.o and sync_nccl.o as they are, the
# emulator's kernels under CUDA's names, and one library for cudart, cublasLt and NCCL.
FAKE = $(EMU) -DFAKE -O3 -fPIC -I$(CUDA_HOME)/include $(CPPFLAGS)
FAKEOBJ = $(DEV:%=test/fake/%.o) $(DEV16:%=test/fake/%.bf16.o)
FAKELIB = test/fake/libfakecuda.so
FAKEPROG = $(addprefix test/fake/,yolo-train yolo-detect golden t-emu-conv t-emu-layers \
	t-emu-loss t-emu-optim)
test/fake/%.o: %.cu .kind
	@mkdir -p test/fake
	$(FAKE) -MMD -x c++ -c $< -o $@
test/fake/%.bf16.o: %.cu .kind
	@mkdir -p test/fake
	$(FAKE) -DBF16 -MMD -x c++ -c $< -o $@
$(FAKELIB): test/fakecuda.cc test/fakedevice.cc test/fakeblas.cc test/fakenccl.cc test/fakecuda.h \
    test/fakedevice.h .kind
	@mkdir -p test/fake
	$(FAKE) -shared -Wl,-soname,libfakecuda.so $(filter %.cc,$^) -o $@ -lpthread
	for l in cublasLt.so.12 cublasLt.so.13 nccl.so.2; do \
	    ln -sf libfakecuda.so test/fake/lib$$l; done
$(filter test/fake/yolo-%,$(FAKEPROG)): test/fake/%: obj/%.o
$(filter test/fake/t-%,$(FAKEPROG)): test/fake/%: test/%.o test/libemu.a
test/fake/golden: $(patsubst %.c,%.o,$(wildcard test/golden*.c))
$(FAKEPROG): $(FAKEOBJ) $(FAKELIB) libyolo.a
	$(LINK) $(filter-out %.a %.so,$^) $(filter %.a,$^) $(LIBS) $(FAKELIB) -lstdc++ \
	    -Wl,-rpath,'$$ORIGIN' -o $@

$(PROG): %: obj/%.o libyolo.a
	$(LINK) $^ $(LIBS) $(CUDALIB) -o $@
$(TOOL): %: %.o libyolo.a
	$(LINK) $^ $(LIBS) $(CUDALIB) -o $@
test/t-emu%: test/t-emu%.o test/libemu.a libyolo.a
	$(LINK) $^ $(LIBS) $(CUDALIB) -lstdc++ -o $@
test/t-%: test/t-%.o libyolo.a
	$(LINK) $^ $(LIBS) $(CUDALIB) -o $@
test/golden: $(patsubst %.c,%.o,$(wildcard test/golden*.c)) libyolo.a
	$(LINK) $^ $(LIBS) $(CUDALIB) -o $@

check: default $(TEST) test/golden $(if $(SAN),,$(if $(NVCC),$(if $(NCCL),$(FAKEPROG))))
	test/check -e '' $(PROVE) test/*.t $(PROVED)
long: default $(TEST)
	prove -e '' $(PROVE) test/long/*.t
golden: test/golden
	test/golden -p $(PRECISION) $(GOLDEN) $(WEIGHTS)
clean:
	rm -f *.a tools/*.o tools/*.d test/*.o test/*.d test/*.a $(PROG) $(TOOL) $(TEST) \
	    test/golden config.mk .kind .commit
	rm -rf obj test/fake completion
# From a git tree, as committed; the package needs debhelper (DEB_BUILD_OPTIONS=parallel=N).
dist:
	git archive --prefix=yolo-$(VERSION)/ -o yolo-$(VERSION).tar.gz HEAD
deb:
	dpkg-buildpackage -us -uc -b
completion/yolo.bash completion/_yolo: tools/completion $(wildcard yolo-*.c tools/yolo-*.c)
	@mkdir -p completion
	tools/completion $(if $(findstring bash,$@),bash,zsh) >$@
EXAMPLE = $(addprefix doc/,bench-night crontab.example yolo-bench.service yolo-bench.timer)
install: programs completion/yolo.bash completion/_yolo
	mkdir -p $(addprefix $(DESTDIR)$(PREFIX)/,bin share/man/man1 share/man/man5 \
	    share/yolo/cfg share/yolo/examples share/bash-completion/completions \
	    share/zsh/vendor-completions)
	cp $(PROG) $(TOOL) $(DESTDIR)$(PREFIX)/bin
	cp man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1
	cp man/*.5 $(DESTDIR)$(PREFIX)/share/man/man5
	cp cfg/*.cfg $(DESTDIR)$(PREFIX)/share/yolo/cfg
	cp $(EXAMPLE) $(DESTDIR)$(PREFIX)/share/yolo/examples
	for p in $(notdir $(PROG) $(TOOL)); do \
	    cp completion/yolo.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/$$p; done
	cp completion/_yolo $(DESTDIR)$(PREFIX)/share/zsh/vendor-completions/_yolo
uninstall:
	rm -f $(PROG:%=$(DESTDIR)$(PREFIX)/bin/%) $(TOOL:tools/%=$(DESTDIR)$(PREFIX)/bin/%) \
	    $(patsubst man/%,$(DESTDIR)$(PREFIX)/share/man/man1/%,$(wildcard man/*.1)) \
	    $(patsubst man/%,$(DESTDIR)$(PREFIX)/share/man/man5/%,$(wildcard man/*.5))
	rm -f $(patsubst %,$(DESTDIR)$(PREFIX)/share/bash-completion/completions/%,\
	    $(notdir $(PROG) $(TOOL))) $(DESTDIR)$(PREFIX)/share/zsh/vendor-completions/_yolo
	rm -rf $(DESTDIR)$(PREFIX)/share/yolo

# The set that plain ./yolo-train trains on: drawn, not downloaded.
demo-data: data/demo.shard data/demo-val.shard
data/demo.shard: tools/yolo-synth yolo-prep
	tools/yolo-synth -q -n 1200 -S 1 -o data/demo
	./yolo-prep -q -n data/demo/names -o $@ data/demo/images
data/demo-val.shard: tools/yolo-synth yolo-prep
	tools/yolo-synth -q -n 160 -S 2 -o data/demo-val
	./yolo-prep -q -n data/demo-val/names -o $@ data/demo-val/images
demo: default
	sh tools/demo
fuzz:
	sh test/fuzz/run.sh
.PHONY: all default programs check long golden clean install uninstall dist deb demo-data demo \
    fuzz
.SECONDARY:
-include $(wildcard obj/*.d tools/*.d test/*.d test/fake/*.d)
