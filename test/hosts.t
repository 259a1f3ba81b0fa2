#!/bin/sh
# hosts.t -- ranks on two hosts: the numbers of one host, and an end in time whatever breaks.
#
# Hosts are network namespaces with a cable between them, where root can make them; else two sets of
# ranks that know each other by the loopback address only (HOSTS=loopback asks for that).
. test/runs.sh
a=yolo-a$$ b=yolo-b$$ net=
away() {
	[ -z "$pids" ] || kill -9 $pids 2>/dev/null
	ip netns del $a 2>/dev/null; ip netns del $b 2>/dev/null
	rm -rf "$t"
}
trap away EXIT
pids=
if [ "$HOSTS" != loopback ] && [ "$(id -u)" = 0 ] && unshare -u true 2>/dev/null &&
    ip netns add $a 2>/dev/null && ip netns add $b &&
    ip link add ya$$ netns $a type veth peer name yb$$ netns $b 2>/dev/null
then
	net=1 addr=10.77.0.1
	ip -n $a addr add 10.77.0.1/24 dev ya$$; ip -n $b addr add 10.77.0.2/24 dev yb$$
	for i in $a $b; do ip -n $i link set lo up; done
	ip -n $a link set ya$$ up; ip -n $b link set yb$$ up
else
	addr=127.0.0.1
	echo '# no network namespaces here: two hosts by the loopback address'
fi
port=$((20000 + $$ % 20000))
YOLO_TOKEN=0123456789abcdef0123; export YOLO_TOKEN
on() {	# on HOST COMMAND...: 0 or 1
	h=$1; shift
	if [ $net ]; then
		[ "$h" = 0 ] && ns=$a || ns=$b
		exec ip netns exec $ns unshare -u sh -c 'hostname '"host$h"'; exec "$@"' - "$@"
	fi
	exec "$@"
}
rank() {	# rank LAUNCHER RANK SIZE OPTION...: one of two on its host
	how=$1 r=$2 size=$3 host=$(($2 / 2)) local=$(($2 % 2)); shift 3
	case $how in
	torchrun) set -- RANK=$r WORLD_SIZE=$size LOCAL_RANK=$local LOCAL_WORLD_SIZE=2 \
	    MASTER_ADDR=$addr MASTER_PORT=$port TORCHELASTIC_USE_AGENT_STORE=True \
	    TORCHELASTIC_RUN_ID=t$$ -- "$@";;
	srun) set -- SLURM_PROCID=$r SLURM_STEP_NUM_TASKS=$size SLURM_LOCALID=$local \
	    SLURM_STEP_NUM_NODES=2 SLURM_STEP_TASKS_PER_NODE='2(x2)' SLURM_NODEID=$host \
	    SLURM_STEP_NODELIST=$addr SLURM_JOB_ID=$port SLURM_STEP_ID=0 -- "$@";;
	mpirun) set -- OMPI_COMM_WORLD_RANK=$r OMPI_COMM_WORLD_SIZE=$size PMIX_NAMESPACE=n$$ \
	    OMPI_COMM_WORLD_LOCAL_RANK=$local OMPI_COMM_WORLD_LOCAL_SIZE=2 \
	    MASTER_ADDR=$addr MASTER_PORT=$port -- "$@";;
	esac
	env=
	while [ "$1" != -- ]; do env="$env $1"; shift; done
	shift
	(on $host env $env ./yolo-train -q -c "$cfg" -O threads=1 -d cpu "$@") \
	    >"$t/out$r" 2>"$t/err$r" &
}
start() {	# start LAUNCHER OPTION...: four ranks
	l=$1 pids=; shift
	for i in 0 1 2 3; do rank $l $i 4 "$@"; eval p$i=$!; pids="$pids $!"; done
}
finish() {	# all of them: $ends is their statuses
	ends=
	for i in $pids; do wait $i 2>/dev/null; ends="$ends $?"; done
	pids=
	cat "$t"/err? >"$t/err"
}
numbers() { cut -f 1-4 "$1/log.tsv"; }
within() {	# within SECONDS: do all end?
	n0=$(date +%s)
	( sleep $(($1 + 10)); kill -9 $pids ) 2>/dev/null & guard=$!
	finish
	kill $guard 2>/dev/null
	[ $(($(date +%s) - n0)) -le "$1" ]
}
under_way() {	# until the run in $1 has taken three steps
	for i in $(seq 200); do
		[ -e "$1/log.tsv" ] && [ "$(wc -l <"$1/log.tsv")" -gt 3 ] && return
		sleep .1
	done
}
small_set; ok $? 'a small set'
run="-O steps=6 -O syncbn=1 -v $t/val.shard -e 2"
train $run -g 4 -o "$t/one" "$t/train.shard"; ok $? 'four ranks on one host'
for l in torchrun srun mpirun; do
	start $l $run -o "$t/$l" "$t/train.shard"; finish
	[ "$ends" = ' 0 0 0 0' ] && same "$t/one/val.tsv" "$t/$l/val.tsv" &&
	    equal "$t/one/last.safetensors" "$t/$l/last.safetensors"
	ok $? "two on each of two hosts, as $l starts them: the same bits ($ends )"
done

# Strangers come first: some mute, some talk nonsense, one is a run with another token.
start torchrun $run -O stall=20 -o "$t/strange" "$t/train.shard"
kill -STOP $p2 $p3
cat >"$t/stranger" <<'END'
use IO::Socket::INET;
$SIG{PIPE} = 'IGNORE';
my ($addr, $port) = @ARGV;
sub visit { for (1 .. 100) { my $s = IO::Socket::INET->new(PeerAddr => $addr,
    PeerPort => $port); return $s if $s; select undef, undef, undef, .1 } die "nobody" }
my @mute = map { visit() } 1 .. 80;
for (1 .. 20) { my $s = visit(); print $s "GET / HTTP/1.0\r\n\r\n" x 50; push @mute, $s if $_ % 2 }
for (1 .. 20) { my $s = visit(); read $s, my $c, 40; print $s $c, "\0" x 300; }
print "ok\n"; sleep 2;
END
(on 1 perl "$t/stranger" $addr $((port + 1))) >"$t/said" 2>&1 & other=$!
(on 1 env YOLO_TOKEN=ffffffffffffffffffffffff RANK=2 WORLD_SIZE=4 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 \
    MASTER_ADDR=$addr MASTER_PORT=$((port + 1)) TORCHELASTIC_RUN_ID=liar \
    ./yolo-train -q -c $cfg -O stall=1 -o "$t/x" "$t/train.shard") >"$t/liar" 2>&1; liar=$?
sleep 1; kill -CONT $p2 $p3
finish; wait $other
[ "$ends" = ' 0 0 0 0' ] && grep -q ok "$t/said" && same "$t/one/val.tsv" "$t/strange/val.tsv" &&
    equal "$t/one/last.safetensors" "$t/strange/last.safetensors"
ok $? "strangers on the port change nothing ($ends )"
cp "$t/liar" "$t/err"; [ $liar = 1 ] && has 'YOLO_TOKEN'
ok $? 'another token is not taken in, and is told so'

long="-e 2000 -O stall=3"
start torchrun $long -o "$t/kill" "$t/train.shard"; under_way "$t/kill"
kill -9 $p3; within 4 && [ "$ends" = ' 1 1 1 137' ] &&
    has 'rank 3 .*ended.*step' && grep -q 'rank 3 .*ended.*step' "$t/err0"
ok $? "a rank killed: all end, both hosts say which and the step ($ends )"
start torchrun $long -o "$t/kill2" "$t/train.shard"; under_way "$t/kill2"
kill -9 $p2; within 4 && [ "$ends" = ' 1 1 137 1' ] && grep -q 'rank 2 .*ended.*step' "$t/err0"
ok $? "the first of a host killed: all end ($ends )"
start torchrun $long -o "$t/stop" "$t/train.shard"; under_way "$t/stop"
kill -STOP $p3; (sleep 7; kill -9 $p3) & within 8
[ "$ends" = ' 1 1 1 137' ] && grep -q 'rank 3 stalled for 3 s.*step' "$t/err0"
ok $? "a rank stopped: the others end ($ends )"
what='the cable between the hosts cut: all end'
if [ $net ]; then
	start torchrun $long -o "$t/cut" "$t/train.shard"; under_way "$t/cut"
	ip -n $b link set yb$$ down; within 6
	[ "$ends" = ' 1 1 1 1' ] && grep -q 'on host1 .*cut.*step' "$t/err0" &&
	    grep -q 'on host0 .*cut' "$t/err2"
	ok $? "$what ($ends )"
else
	skip "$what" 'no network namespaces'
fi
plan
