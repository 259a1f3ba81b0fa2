# prep.sh -- for tests of yolo-prep from other folders; sourced by them.
. test/tap.sh
prep=$PWD/yolo-prep
ok() { line "$2" "$1"; }	# ok WHAT STATUS: 0 is good
status() {	# status WANT COMMAND...: does it end so?
	want=$1; shift
	"$@" >"$t/out" 2>"$t/err"
	[ $? = "$want" ]
}
