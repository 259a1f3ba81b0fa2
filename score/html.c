/* html.c -- one HTML page that needs nothing else: text, tables, drawings in SVG.
 *
 * Style and the few lines of script that sort a table by a click stand in the page; it works
 * without them.  Whatever comes from a file goes through report_text: markup is escaped, and what
 * is no UTF-8 or no character of text becomes U+FFFD, so any bytes make a valid page. */
#include <math.h>
#include <string.h>

#include "score/int.h"

static const char style[] =
    ":root{--bg:#fff;--fg:#1c2430;--dim:#667085;--line:#d9dee7;--soft:#f4f6fa;--c0:#2563eb;"
    "--c1:#d9480f;--c2:#2b8a3e;--c3:#9c36b5;--c4:#0c8599;--c5:#e67700;--bad:#c92a2a;"
    "--good:#2b8a3e}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#12161d;--fg:#e3e8f0;--dim:#98a2b3;"
    "--line:#313a48;--soft:#1b212b;--c0:#6ea0ff;--c1:#ff8a5c;--c2:#69c57f;--c3:#d08ae6;"
    "--c4:#4fc3d5;--c5:#ffb454;--bad:#ff7b7b;--good:#69c57f}}\n"
    "*{box-sizing:border-box}body{margin:0 auto;padding:1.5rem;max-width:72rem;background:"
    "var(--bg);color:var(--fg);font:15px/1.45 system-ui,sans-serif}h1{font-size:1.6rem;margin:0}"
    "h2{font-size:1.15rem;margin:2.2rem 0 .3rem;padding-top:.8rem;border-top:1px solid "
    "var(--line)}h3{font-size:.95rem;margin:.8rem 0 .2rem;font-weight:600}"
    "p{margin:.2rem 0 .8rem;color:var(--dim);max-width:60rem}"
    ".cards{display:flex;flex-wrap:wrap;gap:.6rem;margin:1rem 0}.card{background:var(--soft);"
    "border-radius:.5rem;padding:.5rem .9rem;min-width:6rem}.card b{display:block;font-size:"
    "1.45rem;font-weight:600}.card span{color:var(--dim);font-size:.85rem}"
    ".row{display:flex;flex-wrap:wrap;gap:1.2rem;align-items:flex-start}"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-size:.86rem;margin:.4rem 0}"
    "th,td{padding:.18rem .6rem;text-align:right;border-bottom:1px solid var(--line);"
    "font-variant-numeric:tabular-nums;white-space:nowrap}th{color:var(--dim);font-weight:600}"
    "table.sort th{cursor:pointer}th:first-child,td:first-child,.t{text-align:left}"
    "td.t,td:first-child{white-space:normal;overflow-wrap:anywhere}tbody tr:hover{background:"
    "var(--soft)}.up{color:var(--good)}.down{color:var(--bad)}.bar{display:inline-block;"
    "width:4em;height:.55em;margin-right:.5em;vertical-align:middle;border-radius:2px;"
    "background:var(--soft)}.bar i{display:block;height:100%;border-radius:2px;background:"
    "var(--c0)}"
    "svg{max-width:100%;height:auto;display:block}svg text{fill:var(--fg);font:11px system-ui,"
    "sans-serif}svg .dim{fill:var(--dim)}.grid{stroke:var(--line);stroke-width:1}.axis{stroke:"
    "var(--dim);stroke-width:1}.l{fill:none;stroke-width:2}.thin{fill:none;stroke-width:1;"
    "stroke:var(--dim);opacity:.35}.thin:hover{opacity:1;stroke-width:2;stroke:var(--c1)}\n";

static const char script[] =
    "document.querySelectorAll('table.sort').forEach(function(t){var b=t.tBodies[0];"
    "t.querySelectorAll('th').forEach(function(h,i){h.onclick=function(){var d=h.d=h.d===-1?1:-1,"
    "v=function(r){var c=r.cells[i],x=c.dataset.v;return x===undefined?c.textContent:+x};"
    "Array.from(b.rows).sort(function(p,q){var x=v(p),y=v(q);return x<y?-d:x>y?d:0}).forEach("
    "function(r){b.appendChild(r)})}})})\n";

/* Bytes of the character at s, 0 if it is none that a page may hold: no control, no U+FFFE. */
static int
character(const unsigned char *s)
{
	int n = utf8_len((const char *)s);

	if (n == 1)
		return (s[0] >= ' ' && s[0] < 127) || s[0] == '\t' || s[0] == '\n';
	if (n == 2 && s[0] == 0xc2 && s[1] < 0xa0)
		return 0;
	return n == 3 && s[0] == 0xef && s[1] == 0xbf && s[2] >= 0xbe ? 0 : n;
}

/* At most so many characters, then an ellipsis. */
void
report_short(FILE *f, const char *text, int most)
{
	const unsigned char *s = (const unsigned char *)text;

	while (*s && most--) {
		int n = character(s);

		switch (n ? *s : 0) {
		case 0: fputs("\xef\xbf\xbd", f); break;
		case '&': fputs("&amp;", f); break;
		case '<': fputs("&lt;", f); break;
		case '>': fputs("&gt;", f); break;
		case '"': fputs("&quot;", f); break;
		case '\'': fputs("&#39;", f); break;
		default: fwrite(s, 1, (size_t)n, f);
		}
		s += n ? n : 1;
	}
	if (*s)
		fputs("\xe2\x80\xa6", f);
}

void
report_text(FILE *f, const char *text)
{
	report_short(f, text, -1);
}

void
report_open(FILE *f, const char *title)
{
	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
	    "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>", f);
	report_text(f, title);
	fprintf(f, "</title>\n<style>\n%s</style>\n</head>\n<body>\n", style);
}

void
report_close(FILE *f)
{
	fprintf(f, "<script>\n%s</script>\n</body>\n</html>\n", script);
}

void
report_section(FILE *f, const char *title, const char *note)
{
	fputs("<h2>", f);
	report_text(f, title);
	fputs("</h2>\n", f);
	if (note) {
		fputs("<p>", f);
		report_text(f, note);
		fputs("</p>\n", f);
	}
}

/* A cell of a table: what is undefined is a dash and sorts below all numbers. */
void
report_number(FILE *f, double v, int decimals)
{
	if (v == -1 || !isfinite(v))
		fputs("<td data-v=\"-1\">-</td>", f);
	else
		fprintf(f, "<td data-v=\"%.9g\">%.*f</td>", v, decimals, v);
}

void
report_cell(FILE *f, const char *text)
{
	fputs("<td class=\"t\">", f);
	report_text(f, text);
	fputs("</td>", f);
}

void
report_table(FILE *f, const char *heads)
{
	fputs("<div class=\"wide\"><table class=\"sort\"><thead><tr>", f);
	for (size_t n; *heads; heads += n + (heads[n] == '|')) {
		int text = *heads == '*';

		n = strcspn(heads, "|");
		fprintf(f, "<th%s>%.*s</th>", text ? " class=\"t\"" : "", (int)n - text,
		    heads + text);
	}
	fputs("</tr></thead><tbody>\n", f);
}

void
report_table_end(FILE *f)
{
	fputs("</tbody></table></div>\n", f);
}

/* ---- plots: both axes 0..1 ---- */

enum { LEFT = 36, TOP = 8, SIDE = 236, BELOW = 34, KEY = 82 };

static double
px(double x)
{
	return LEFT + x * SIDE;
}

static double
py(double y)
{
	return TOP + (1 - y) * SIDE;
}

void
plot_open(struct plot *p, FILE *f, const char *xname, const char *yname, const char *title)
{
	p->f = f;
	p->keys = 0;
	fprintf(f, "<svg width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\"><title>",
	    LEFT + SIDE + KEY, TOP + SIDE + BELOW, LEFT + SIDE + KEY, TOP + SIDE + BELOW);
	report_text(f, title);
	fputs("</title>\n", f);
	for (int i = 0; i <= 5; i++) {
		double v = i / 5.;

		fprintf(f, "<path class=\"%s\" d=\"M%g %gV%gM%g %gH%g\"/>", i ? "grid" : "axis",
		    px(v), py(0), py(1), px(0), py(v), px(1));
		fprintf(f, "<text class=\"dim\" x=\"%g\" y=\"%g\" text-anchor=\"middle\">%g</text>",
		    px(v), py(0) + 14, v);
		fprintf(f, "<text class=\"dim\" x=\"%g\" y=\"%g\" text-anchor=\"end\">%g</text>\n",
		    px(0) - 5, py(v) + 4, v);
	}
	fprintf(f, "<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">%s</text><text transform=\""
	    "translate(11 %g) rotate(-90)\" text-anchor=\"middle\">%s</text>\n", px(.5), py(0) + 29,
	    xname, py(.5), yname);
}

/* A line through the points; those with y < 0 are not there.  Points in a straight row are left
 * out.  colour -1: a thin one, named when pointed at. */
void
plot_line(struct plot *p, const double *x, const double *y, int n, int colour, const char *name)
{
	int pen = 0;

	if (colour < 0)
		fputs("<path class=\"thin\" d=\"", p->f);
	else
		fprintf(p->f, "<path class=\"l\" style=\"stroke:var(--c%d)\" d=\"", colour % 6);
	for (int i = 0; i < n; i++) {
		int inner = pen && i + 1 < n && y[i + 1] >= 0;

		if (y[i] < 0) {
			pen = 0;
			continue;
		}
		if (inner && y[i] == y[i - 1] && y[i] == y[i + 1])
			continue;
		fprintf(p->f, "%c%.4g %.4g", pen ? 'L' : 'M', px(x[i]), py(y[i]));
		pen = 1;
	}
	fputs("\"><title>", p->f);
	report_text(p->f, name);
	fputs("</title></path>\n", p->f);
	if (colour < 0)
		return;
	fprintf(p->f,
	    "<path class=\"l\" style=\"stroke:var(--c%d)\" d=\"M%d %dh16\"/><text x=\"%d\" "
	    "y=\"%d\">",
	    colour % 6, LEFT + SIDE + 10, TOP + 8 + 17 * p->keys, LEFT + SIDE + 31,
	    TOP + 12 + 17 * p->keys);
	report_text(p->f, name);
	fputs("</text>\n", p->f);
	p->keys++;
}

void
plot_point(struct plot *p, double x, double y, const char *name)
{
	fprintf(p->f, "<circle cx=\"%.4g\" cy=\"%.4g\" r=\"4\" style=\"fill:var(--bad)\"><title>",
	    px(x), py(y));
	report_text(p->f, name);
	fputs("</title></circle>\n", p->f);
}

void
plot_close(struct plot *p)
{
	fputs("</svg>\n", p->f);
}

/* ---- bars ---- */

/* A row for each value, from a common zero; negative ones to the left.  low, high: whiskers or
 * NULL.  good: colour by sign. */
void
report_bars(FILE *f, const struct report_bar *b, int n, int good)
{
	double most = 1e-12, least = 0;
	int wide = 220, left = 136, h = 20;

	for (int i = 0; i < n; i++) {
		most = fmax(most, fmax(b[i].value, b[i].whiskers ? b[i].high : 0));
		least = fmin(least, fmin(b[i].value, b[i].whiskers ? b[i].low : 0));
	}
	fprintf(f, "<svg width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\">\n",
	    left + wide + 90, n * h + 4, left + wide + 90, n * h + 4);
	for (int i = 0; i < n; i++) {
		double scale = wide / (most - least), zero = left - least * scale, y = 2 + i * h;
		double v = b[i].value, x = fmin(zero, zero + v * scale);

		fprintf(f, "<text x=\"%d\" y=\"%g\" text-anchor=\"end\">", left - 8, y + 14);
		report_short(f, b[i].name, 22);
		fprintf(f, "</text><rect x=\"%.4g\" y=\"%g\" width=\"%.4g\" height=\"12\" rx=\"2\" "
		    "style=\"fill:var(--%s)\"/>", x, y + 4, fabs(v) * scale,
		    !good ? b[i].colour ? b[i].colour : "c0" : b[i].whiskers && b[i].low <= 0 &&
		    b[i].high >= 0 ? "dim" : v >= 0 ? "good" : "bad");
		if (b[i].whiskers)
			fprintf(f, "<path class=\"axis\" d=\"M%.4g %gH%.4gM%.4g %gv8M%.4g %gv8\"/>",
			    zero + b[i].low * scale, y + 10, zero + b[i].high * scale,
			    zero + b[i].low * scale, y + 6, zero + b[i].high * scale, y + 6);
		fprintf(f, "<text class=\"dim\" x=\"%d\" y=\"%g\">%s%.4f</text>\n", left + wide + 8,
		    y + 14, good && v > 0 ? "+" : "", v);
	}
	fputs("</svg>\n", f);
}
