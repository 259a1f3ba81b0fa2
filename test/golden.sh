# golden.sh -- for tests of golden cases: where they lie; sourced by them.
golden=../shared/golden
[ -d $golden ] || golden=test/golden-own
