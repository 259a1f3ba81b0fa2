#!/bin/bash
# Completions know every option and setting; a build for a newer processor is taken where it lies.
n=0
t=$(mktemp -d) || exit 1
trap 'rm -rf "$t"' EXIT
ok() { n=$((n + 1)); if [ "$1" = 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi; }
complete_to() {	# complete_to WORDS...: what bash offers for the last of them
	COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
	_yolo "$1" 2>/dev/null
	got=" ${COMPREPLY[*]} "
}

tools/completion bash >"$t/bash" && . "$t/bash"; ok $? "completions for bash are bash"
for p in yolo-train yolo-detect yolo-eval yolo-prep yolo-show yolo-synth yolo-anchors; do
	f=$p; [ -x "$f" ] || f=tools/$p
	complete_to "$f" -
	missing=
	for o in $(sed -n 's/^\.It Fl \(.\) ,.*/\1/p' "man/$p.1"); do
		case $got in *" -$o "*) ;; *) missing="$missing $o";; esac
	done
	[ -z "$missing" ]; ok $? "$p: every letter of its page$missing"
done
complete_to yolo-bench ''; case $got in *' step '*) true;; *) false;; esac
ok $? "commands of yolo-bench"
complete_to ./yolo-train -O ''
want=$(./yolo-train -O help | grep -vc '^#')
[ "$want" -gt 50 ] && [ "${#COMPREPLY[@]}" = "$want" ]; ok $? "all $want settings of yolo-train"
complete_to ./yolo-train -O warm; [ "$got" = ' warmup= ' ]; ok $? "one of them"
complete_to ./yolo-prep -n test/small.c; [ "$got" = ' test/small.cfg ' ]; ok $? "files"
if command -v zsh >/dev/null; then
	tools/completion zsh >"$t/zsh" && zsh -n "$t/zsh"; ok $? "completions for zsh are zsh"
else
	n=$((n + 1)); echo "ok $n # SKIP no zsh"
fi
tools/completion >/dev/null 2>&1; [ $? = 2 ]; ok $? "tools/completion: usage"

# bin/P starts lib/yolo/LEVEL/P where the processor has that level.
mkdir -p "$t/bin" "$t/lib/yolo/x86-64-v3" "$t/lib/yolo/x86-64-v4"
cp yolo-train "$t/bin"
for l in v3 v4; do
	printf '#!/bin/sh\necho %s $GOMP_SPINCOUNT "$@"\n' $l >"$t/lib/yolo/x86-64-$l/yolo-train"
	chmod +x "$t/lib/yolo/x86-64-$l/yolo-train"
done
flags=" $(grep -m 1 '^flags' /proc/cpuinfo) "
case $flags in *' avx2 '*) level=v3;; *) level=;; esac
case $flags in *' avx512vl '*) level=v4;; esac
if [ -n "$level" ]; then
	[ "$(env -u GOMP_SPINCOUNT "$t/bin/yolo-train" -V x)" = "$level 1000 -V x" ]
	ok $? "the build of $level is started"
	[ "$(GOMP_SPINCOUNT=7 "$t/bin/yolo-train" -V)" = "$level 7 -V" ]
	ok $? "also when threads are calm already"
	rm -r "$t/lib"
	"$t/bin/yolo-train" -V | grep -q '^yolo-train '; ok $? "without it the plain one goes on"
else
	for i in 1 2 3; do n=$((n + 1)); echo "ok $n # SKIP no newer level"; done
fi

# Stock files are found by their short names.
(cd "$t" && "$OLDPWD/yolo-bench" ops -c nuclei.cfg) | grep -q '^total	nuclei.cfg'
ok $? "-c nuclei.cfg is cfg/nuclei.cfg"
echo "1..$n"
