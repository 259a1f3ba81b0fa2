#!/bin/sh
# Manual pages: clean, and their options and settings are those of the programs.
. test/tap.sh
for m in man/*.[157]; do
	if command -v mandoc >/dev/null; then
		out=$(mandoc -T lint -W warning "$m" 2>&1); status=$?
		[ -n "$out" ] && echo "$out" | sed 's/^/# /'
		ok $status "$m is clean"
	else
		skip "$m" 'no mandoc'
	fi
done
for p in yolo-*.c; do
	p=${p%.c}
	[ -e "man/$p.1" ]; ok $? "$p has a page"
	"./$p" -h >/dev/null 2>&1; ok $? "$p -h"
	"./$p" -V | grep -q "^$p "; ok $? "$p -V"
	bad=
	case $p in
	yolo-bench)
		keys=$(for c in step eval; do ./yolo-bench $c -O help | sed 1d | cut -f 1; done);;
	*) keys=$("./$p" -O help | sed 1d | cut -f 1);;
	esac
	for k in $keys; do grep -q "^\.\(It \)\?Cm .*\b$k\b" "man/$p.1" || bad="$bad $k"; done
	[ -z "$bad" ]; ok $? "$p: every setting is in its page$bad"
	bad=
	for o in $("./$p" -h 2>/dev/null | grep -o '\[-[A-Za-z0-9]*' | sed 's/\[-//; s/./& /g'); do
		grep -q "^\.It Fl $o\b" "man/$p.1" || bad="$bad -$o"
	done
	[ -z "$bad" ]; ok $? "$p: every option is in its page$bad"
done
plan
