#!/bin/sh
# fake.t -- cuda.c, sync_nccl.c and all host code on a CUDA without a GPU (test/fakecuda.h), which
# is stricter than a real one: host code may not touch its memory, new memory is NaN, nothing runs
# before the host waits.
[ -x test/fake/yolo-train ] || { echo '1..0 # SKIP no nvcc: no fake CUDA was built'; exit 0; }
. test/runs.sh
shard=$t/train.shard
fake() {	# fake [NAME=VALUE]... OPTION...: yolo-train on the fake
	set -- "$@" "$shard"
	vars=
	while case $1 in *=*) true;; *) false;; esac; do vars="$vars $1"; shift; done
	env $vars timeout 120 test/fake/yolo-train -q -c $cfg -b 8 -O threads=1 "$@" \
	    >"$t/out" 2>"$t/err"
}
fails() {	# fails LINE NAME [NAME=VALUE]... OPTION...: one line says why, status 1
	line=$1 name=$2
	shift 2
	rm -rf "$t/bad"
	fake "$@" -O steps=3 -o "$t/bad"
	status=$?
	grep -v 'not used with' "$t/err" >"$t/why"
	[ $status = 1 ] && [ "$(wc -l <"$t/why")" = 1 ] && grep -q -- "$line" "$t/why"
	ok $? "$name: $(sed 's/^yolo-train: //; s/#//g' "$t/why")"
}
near() {	# near A B: losses and gradient norms of two logs, relative
	paste "$1/log.tsv" "$2/log.tsv" | awk -F '\t' '!/^#/ {
		d = $6 / $19 - 1; g = $10 / $23 - 1; n++
		if (d > 1e-4 || d < -1e-4 || g > 1e-2 || g < -1e-2) bad = 1
	} END { exit bad || n != 4 }'
}
small_set; ok $? 'a small set, drawn and packed'

for p in conv layers optim loss; do
	EMUTEST_DEVICE=cuda test/fake/t-emu-$p >"$t/out" 2>"$t/err" &&
	    ! grep -q '^not' "$t/out" && grep -q '^ok' "$t/out"
	ok $? "kernels and products: $p, $(grep -c '^ok' "$t/out") results"
done
for p in layers optim; do
	if [ -d ../shared/golden/$p ]; then
		test/fake/golden -d cuda ../shared/golden/$p >"$t/out" 2>"$t/err"
		ok $? "golden: $p, $(grep -c '^ok' "$t/out") cases"
	else
		n=$((n + 1)); echo "ok $n # SKIP no ../shared/golden/$p"
	fi
done

# One rank, two, and with either stream late; the optimiser sees what NCCL summed, or it differs.
few='-O steps=4 -O syncbn=1 -O deterministic=1 -O bucket=1000'
fake -d cpu $few -v "$t/val.shard" -o "$t/cpu1"; ok $? 'four steps on the CPU'
fake -d cuda $few -v "$t/val.shard" -o "$t/cuda1" && near "$t/cpu1" "$t/cuda1"
ok $? '... and on cuda'
fake -d cuda $few -v "$t/val.shard" -o "$t/again" &&
    same "$t/cuda1/last.safetensors" "$t/again/last.safetensors"
ok $? '... twice: the same bytes'
fake -d cpu -g 2 $few -o "$t/cpu2" && fake -d cuda -g 2 $few -o "$t/cuda2" &&
    near "$t/cpu2" "$t/cuda2"
ok $? 'two ranks by NCCL, and on the CPU'
for s in 0 1; do
	fake FAKE_SLOW=$s -d cuda -g 2 $few -o "$t/slow$s" &&
	    same "$t/cuda2/last.safetensors" "$t/slow$s/last.safetensors"
	ok $? "... with stream $s late: the same bytes"
done
fake -d cuda:0 -g 2 $few -o "$t/one" && near "$t/cpu2" "$t/one"
ok $? 'two ranks on one GPU'
fake -d cuda:1,0 -g 2 $few -o "$t/list" && near "$t/cpu2" "$t/list"
ok $? 'a list of GPUs'
fake -p bf16 -d cpu -O emulate=1 -O steps=4 -o "$t/half" &&
    fake -p bf16 -d cuda -O steps=4 -o "$t/bf16" && near "$t/half" "$t/bf16"
ok $? 'bfloat16'
test/fake/yolo-detect -q -O eval=1 -d cuda -c "$t/cuda1/run.cfg" -w "$t/cuda1/last.safetensors" \
    "$t/val.shard" >"$t/a" 2>"$t/err" && [ "$(grep -vc '^#' "$t/a")" -gt 0 ]
ok $? "yolo-detect: $(grep -vc '^#' "$t/a") boxes"

fails '3 ranks want as many GPUs, there are 2' 'too few GPUs' -g 3
fails '2 devices for 3 ranks' 'a list too short' -d cuda:0,1 -g 3
fails 'invalid usage' 'a GPU listed twice' -d cuda:0,0 -g 2
fails 'cuda:5: there are 2 GPUs' 'no such GPU' -d cuda:5
fails 'cudafoo.: should be cpu, cuda or cuda:N' 'no such device' -d cudafoo
fails 'no usable GPU: no CUDA-capable' 'no GPU' FAKE_GPUS=0 -d cuda
fails 'no NVIDIA driver' 'no driver' FAKE_GPUS=-1 -d cuda
fails 'bf16 wants sm_80' 'a GPU without bfloat16, not named' FAKE_SM=75 -p bf16
fails 'cuda:0: cannot be used: out of memory' 'a GPU that is full' FAKE_MEM=1000000
fails 'out of memory on cuda:0: ' 'too little memory' FAKE_MEM=35000000 -d cuda
fails 'rank [01]: out of memory on cuda:[01]' 'too little on one rank' FAKE_MEM=35000000 -g 2
fails 'no algorithm (not supported) for the product' 'a product' FAKE_FAIL=heuristic@3
fails 'illegal memory access' 'a kernel' FAKE_FAIL=sync@30
fails 'summing gradients: nccl: sum: unhandled' 'a collective' FAKE_FAIL=collective@3 -g 2
fails 'version 2.17 is too old' 'an old NCCL' FAKE_NCCL=21700 -g 2

test/fake/yolo-train -q -c $cfg -b 8 -O threads=1 -O steps=100000 -d cuda -g 2 -o "$t/dies" \
    "$shard" >"$t/out" 2>"$t/err" &
pid=$!
i=0
while [ "$(grep -c . "$t/out")" -le 2 ] && [ $((i = i + 1)) -lt 100 ]; do sleep 1; done
kill -9 "$(pgrep -P $pid | tail -n 1)" || kill $pid
wait $pid
status=$?
grep -v 'not used with' "$t/err" >"$t/why"
[ $status = 1 ] && [ "$(cat "$t/why")" = 'yolo-train: rank 1 died: signal 9 (Killed)' ]
ok $? 'a rank that is killed takes the other along, which waits in NCCL'
echo "1..$n"
