# tap.sh -- what tests in shell share; sourced by them: a folder $t that goes with the test, lines.
t=$(mktemp -d) || exit 1
trap 'rm -rf "$t"' EXIT
n=0 tap_bad=0
line() {	# line STATUS NAME: what was said last, $t/err and $t/why, stands below a failure
	n=$((n + 1))
	[ "$1" = 0 ] && { echo "ok $n - $2"; return; }
	tap_bad=1
	echo "not ok $n - $2"
	sed 's/^/# /' "$t/err" "$t/why" 2>/dev/null | tail -n 12
}
ok() { line "$1" "$2"; }
skip() { n=$((n + 1)); echo "ok $n - $1 # SKIP $2"; }	# skip NAME WHY
plan() { echo "1..$n"; exit "$tap_bad"; }		# the end of a test
