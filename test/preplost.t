#!/bin/sh
# preplost.t -- nothing is lost or swapped in silence: sets of shards, names of several inputs,
# labels and pictures that are nearly found, unpacking what does not fit a format.
detect=$PWD/yolo-detect
train=$PWD/yolo-train
anchors=$PWD/tools/yolo-anchors
cfg=$PWD/cfg/demo.cfg
. test/prep.sh
records() { "$prep" -t "$@" | grep -vc '^#'; }
said() { grep -q -- "$1" "$t/err"; }
tools/yolo-synth -q -n 40 -s 128 -o "$t/syn" || exit 1
cd "$t" || exit 1
p=syn/images
box='0 .5 .5 .2 .2'

# A set is one shard, however many of its pieces are named.
status 0 "$prep" -q -Z 64K -o set.shard syn && [ -e set-00002-of-00004.shard ] &&
    [ "$(records set-*.shard)" = 40 ]
ok "a table of all pieces has each record once" $?
status 0 "$prep" -C set-*.shard && [ "$(grep -c ok out)" = 1 ]; ok "so the check" $?
"$prep" -q -o whole.shard syn && status 0 "$prep" -o all.shard set-*.shard &&
    cmp -s all.shard whole.shard
ok "all pieces packed are the set" $?
status 0 "$prep" -q -x un set-*.shard && [ "$(ls un/images/syn/images | wc -l)" = 40 ]
ok "all pieces unpacked are the set" $?
status 0 "$anchors" -q -k 3 set-*.shard && cp out one && status 0 "$anchors" -q -k 3 whole.shard &&
    cmp -s one out
ok "anchors of all pieces" $?
mkdir links
ln -s ../set-00001-of-00004.shard links/any && [ "$(records links/any)" = 40 ]
ok "a link to a piece opens the set" $?
for in in set-00001-of-00004.shard 'set-*.shard'; do
	rm -rf run
	# shellcheck disable=SC2086
	status 0 "$train" -q -d cpu -c "$cfg" -O threads=1 -O steps=1 -b 2 -s 64 -o run $in &&
	    [ "$(records run/train.shard)" = 40 ] && [ -L run/train.shard ]
	ok "training on $in" $?
done
# A shard in the folder of the run, named as its data.
mkdir own
cp whole.shard own/train.shard
one() { "$train" -q -d cpu -c "$cfg" -O threads=1 -b 2 -s 64 "$@"; }
status 0 one -O steps=1 -o own own/train.shard && cmp -s own/train.shard whole.shard
ok "training in the folder of the shard: it stays" $?
status 0 one -R -O steps=2 -o own own/train.shard && cmp -s own/train.shard whole.shard
ok "also with -R" $?
for x in train val; do
	mkdir clash$x
	cp whole.shard clash$x/$x.shard
	status 1 one -O steps=1 -o clash$x -v whole.shard clash$x/$x.shard syn &&
	    said 'an input, which would be written over' && cmp -s clash$x/$x.shard whole.shard
	ok "$x.shard of the folder beside other inputs: refused" $?
done

# Names of several inputs.
mkdir -p a/images a/labels b/images b/labels
cp $p/000000.jpg a/images/x.jpg; echo "$box" >a/labels/x.txt
cp $p/000001.jpg b/images/y.jpg; echo "$box" >b/labels/y.txt
printf 'train: images\nnames: [cat, dog]\n' >a/data.yaml
printf 'train: images\nnames: [dog, bird]\n' >b/data.yaml
classes() { rm -rf c; "$prep" -q -x c -f coco "$1" && cat c/names && grep -o 'category_id":[0-9]*' \
    c/instances.json | cut -d: -f2; }
status 0 "$prep" -q -o n.shard a/data.yaml b/data.yaml &&
    [ "$(classes n.shard | tr '\n' ' ')" = 'cat dog bird 0 1 ' ]
ok "data.yaml after data.yaml: classes meet by name" $?
printf 'dog\nbird\n' >b/names; printf 'train = images\nnames = names\n' >b/x.data
status 0 "$prep" -q -o n.shard a/data.yaml b/x.data &&
    [ "$(classes n.shard | tr '\n' ' ')" = 'cat dog bird 0 1 ' ]
ok ".data after data.yaml likewise" $?
printf 'dog\n' >dog
status 0 "$prep" -o n.shard -n dog a/data.yaml b/data.yaml && said "'cat', is not among" &&
    said 'a/labels/x.txt:1: its class 0 is not among the names' &&
    [ "$(classes n.shard | tr '\n' ' ')" = 'dog 0 ' ]
ok "with -n, what it does not name is refused" $?
status 0 "$prep" -o n.shard a/data.yaml b/images && said "numbers are taken for those .*'cat'"
ok "numbers without names after names: noted" $?
mkdir -p m/images m/labels
cp $p/000002.jpg m/images/z.jpg; echo "2 .5 .5 .2 .2" >m/labels/z.txt
for i in 1 2; do printf 'train: images\nnames: [N/A, cat, N/A]\n' >m/$i.yaml; done
status 0 "$prep" -q -o n.shard m/1.yaml m/2.yaml &&
    [ "$(classes n.shard | tr '\n' ' ')" = 'N/A cat N/A 2 2 ' ]
ok "a name that stands twice: the same list means the same classes" $?
printf 'train: images\nnames:\n  1: cat\n  2: dog\n' >a/some.yaml
echo "7 .5 .5 .3 .3" >>a/labels/x.txt
status 0 "$prep" -o n.shard a/some.yaml && said 'x.txt:2: class 7, but there are 3'
ok "a yaml that names some classes still has only so many" $?

# FILE:WORD only where there is something to choose.
for in in a/images a/images/x.jpg whole.shard; do
	status 1 "$prep" -o no.shard $in:val && said "$in" && [ ! -e no.shard ]
	ok "$in:val is refused" $?
done
mkdir 'co:lon'; cp $p/000000.jpg co:lon
printf '%s' '{"images":[{"id":1,"file_name":"000000.jpg"}],"annotations":[{"id":1,"image_id":1,' \
    '"category_id":1,"bbox":[1,2,30,20]}],"categories":[{"id":1,"name":"k"}]}' >i.json
status 0 "$prep" -q -o n.shard i.json:co:lon; ok "a picture folder with a colon" $?

# Labels and pictures that are nearly found.
mkdir d; cp $p/000000.jpg d/a.jpg; ln -s nowhere d/a.txt
status 1 "$prep" -o n.shard d && said 'd/a.txt: No such file'; ok "a label that is a dead link" $?
mkdir q; cp $p/000000.jpg q/a.jpg; cp $p/000001.jpg q/b.jpg; echo "$box" >q/a.TXT
status 0 "$prep" -o n.shard q && said 'q/a.TXT: a label without.*want .txt' &&
    said 'q: 2 of 2 pictures have no label file'
ok "labels that are called .TXT; pictures without a label are counted" $?
rm d/a.txt; printf '# size, then boxes\n%s\n' "$box" >d/a.txt; echo "$box" >d/b.txt
cp $p/000001.jpg d/picture; echo 'just 1 note' >d/notes.txt
status 0 "$prep" -o n.shard d && said 'a.txt:1: a comment' && said 'd/b.txt: a label without' &&
    said 'd/picture: holds a picture' && ! said notes.txt && said ' 0 labels refused'
ok "beside the pictures: a label too many, a picture without a picture's name" $?
cp $p/000001.jpg d/c.jfif
status 0 "$prep" -q -o n.shard d && [ "$(records n.shard)" = 2 ]; ok "jfif is a picture" $?
if [ -e "$cfg" ]; then
	mkdir e; cp $p/000001.jpg e/c.jfif; printf P4 >e/d.pbm
	"$detect" -d cpu -q -c "$cfg" -w run/last.safetensors e >out 2>err
	[ $? = 1 ] && said 'e/d.pbm: no picture format known' && ! said 'c.jfif'
	ok "in yolo-detect too" $?
	mkdir -p 'w/my pics'; cp $p/000000.jpg 'w/my pics/a b.jpg'; cp $p/000001.jpg w/c.jpg
	printf '\357\273\277my pics/a b.jpg \r\n# two\r\n\r\n  \r\n my pics\\a b.jpg\nc.jpg' \
	    >w/l.txt
	status 0 "$prep" -q -o w.shard w/l.txt && [ "$(records w.shard)" = 3 ] &&
	    status 0 "$detect" -d cpu -q -t 0 -c "$cfg" -w run/last.safetensors w/l.txt &&
	    [ "$(grep -v '^#' out | cut -f 1 | uniq | tr '\n' ,)" = 'my pics/a b.jpg,c.jpg,' ]
	ok "a list from Windows: both read the same pictures" $?
fi

# VOC: folders below, pictures without an annotation, names with blanks, a damaged xml.
xml() { echo "<annotation><filename>$1.jpg</filename><object><name>k</name><bndbox><xmin>1</xmin>
<ymin>2</ymin><xmax>30</xmax><ymax>40</ymax></bndbox></object></annotation>"; }
mkdir -p v/Annotations/sub v/JPEGImages/sub v/ImageSets/Main
for i in a 'my pic' c; do cp $p/000000.jpg "v/JPEGImages/$i.jpg"; done
cp $p/000001.jpg v/JPEGImages/sub/a.jpg
xml a >v/Annotations/a.xml; xml 'my pic' >'v/Annotations/my pic.xml'
xml a >v/Annotations/sub/a.xml
status 0 "$prep" -o n.shard v// && [ "$(records n.shard)" = 3 ] && said 'JPEGImages: 1 pictures' &&
    said 'as c.jpg' && "$prep" -t n.shard | grep -q 'sub/a.jpg' &&
    [ "$("$prep" -t n.shard | awk -F '\t' '$3 == "sub/a.jpg" { print $9 }')" = \
	"$(($(wc -c <$p/000001.jpg)))" ]
ok "VOC: annotations in folders below; pictures without one are counted" $?
printf 'a\r\nmy pic  \na -1\nsub/a\n' >v/ImageSets/Main/l.txt
status 0 "$prep" -q -o n.shard v/ImageSets/Main/l.txt && [ "$(records n.shard)" = 4 ]
ok "a split file: stems with blanks, stems with a flag" $?
xml a | head -c 60 >v/Annotations/a.xml
status 1 "$prep" -o n.shard v && said 'a.xml:1' && said '1 pictures left out'
ok "a damaged xml leaves out a picture, so nothing is written" $?

# A pipe by name is a stream like the one on stdout.
mkfifo pipe
"$prep" -q -o piped.shard - <pipe &
status 0 "$prep" -q -o pipe syn; r=$?
wait $! && [ $r = 0 ] && cmp -s piped.shard whole.shard; ok "through a named pipe" $?
if [ -e /dev/full ]; then
	status 1 "$prep" -o /dev/full syn && said full; ok "a full device" $?
fi

# Unpacking.
mkdir f; cp $p/000000.jpg f/a.jpg; cp $p/000001.jpg f/a.jpeg; echo "$box" >f/a.txt
"$prep" -q -o f.shard f 2>err && status 0 "$prep" -q -x fv -f voc f.shard &&
    [ "$(ls fv/Annotations fv/JPEGImages | tr '\n' ' ')" = \
	'fv/Annotations: a-2.xml a.xml  fv/JPEGImages: a-2.jpg a.jpeg ' ] &&
    "$prep" -q -o fv.shard fv && [ "$(records fv.shard)" = 2 ]
ok "two pictures of one stem as VOC" $?
xml a | sed 's/<bnd/<difficult>1<\/difficult>&/' >v/Annotations/a.xml
cp $p/000002.jpg v/JPEGImages/a.jpg
"$prep" -q -o dv.shard v/Annotations/a.xml && "$prep" -q -x dc -f coco dv.shard &&
    "$prep" -q -o dc.shard dc/instances.json && "$prep" -q -x dcv -f voc dc.shard &&
    status 0 grep -q '<difficult>1' dcv/Annotations/a.xml
ok "difficult goes through COCO and back" $?
status 0 "$prep" -x dy dv.shard && said '1 difficult boxes'; ok "and YOLO says that it cannot" $?
sed 's/000000/000001/' i.json >j.json
"$prep" -q -o g.shard i.json:$p j.json:$p && status 0 "$prep" -x g -f coco g.shard &&
    said numbered && status 0 "$prep" -q -o g2.shard g/instances.json &&
    [ "$(records g2.shard)" = 2 ] && [ "$(grep -o '"image_id":2' g/instances.json)" ]
ok "two COCO sets with the same ids: unpacked they are apart" $?
printf 'n\nk\nl\n' >nkl
"$prep" -q -n nkl -o g.shard i.json:$p && rm -rf g && status 0 "$prep" -q -x g -f coco g.shard &&
    [ "$(grep -o '"id":[0-9]*,"name":"[a-z]"' g/instances.json | tr '\n' ' ')" = \
	'"id":0,"name":"n" "id":1,"name":"k" "id":2,"name":"l" ' ] &&
    printf 'k\nl\n' >kl && "$prep" -q -n kl -o g.shard i.json:$p && rm -rf g &&
    "$prep" -q -x g -f coco g.shard && status 0 "$prep" -q -o g2.shard g/instances.json
ok "COCO ids on the names of -n: no two classes get one" $?
long=$(printf '%250s' '' | tr ' ' n)
mkdir h; cp $p/000000.jpg h/$long.jpg; echo "$box" >h/$long.txt
"$prep" -q -o h.shard h && status 0 "$prep" -q -x hx h.shard &&
    status 0 "$prep" -q -o h2.shard hx/images && [ "$(records h2.shard | tr -d ' ')" = 1 ] &&
    [ "$("$prep" -t h2.shard | awk -F '\t' 'NR > 1 { print $10 }')" = 1 ]
ok "a name of 254 bytes stays a picture's, and finds its label" $?
mkdir many; for i in 0 1 2 3 4 5 6 7 8 9; do cp -r syn many/$i; done
"$prep" -q -o many.shard many 2>err
"$prep" -q -x stopped many.shard 2>err &
pid=$!
while [ -z "$(ls -d stopped* 2>/dev/null)" ] && kill -0 $pid 2>/dev/null; do :; done
kill -TERM $pid; wait $pid; r=$?
left=$(ls -d stopped* 2>/dev/null)
[ "$r$left" = 143 ] || [ "$r$left" = 0stopped ]	# or it was quicker than the signal
ok "SIGTERM: nothing half unpacked is left" $?
status 1 "$prep" -x '' f.shard; ok "no folder to unpack into" $?
echo "1..$n"
