# prep.sh -- for tests of yolo-prep from other folders; sourced by them.
prep=$PWD/yolo-prep
t=$(mktemp -d) || exit 1
trap 'rm -rf "$t"' EXIT
n=0
ok() {		# ok WHAT STATUS: 0 is good
	n=$((n + 1))
	if [ "$2" = 0 ]; then echo "ok $n - $1"; return; fi
	echo "not ok $n - $1"
	sed 's/^/# /' "$t/err"
}
status() {	# status WANT COMMAND...: does it end so?
	want=$1; shift
	"$@" >"$t/out" 2>"$t/err"
	[ $? = "$want" ]
}
