"""What files and variables look like in terminals and notebooks."""

import re
from html.parser import HTMLParser

import numpy as np

import thalweg


class Tags(HTMLParser):
    """Fails where a tag is not closed."""

    def __init__(self):
        super().__init__()
        self.open = []
        self.text = ""

    def handle_starttag(self, tag, attributes):
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag != "br":
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data + "\n"


def text_of(html):
    parser = Tags()
    parser.feed(html)
    assert not parser.open
    return parser.text


def test_a_file_shows_its_variables(run):
    text = repr(thalweg.open(run))
    assert re.search(r"^  T +double +24 x 32 +4 +16 +0 +3767$", text, re.M), text
    assert re.search(r"^  title +string +text +4 +4 +Schritt 3 ü$", text, re.M), text
    assert "4 steps, 7 variables, 4 attributes" in text
    html = text_of(thalweg.open(run)._repr_html_())
    for word in ("particles", "24 x 32", "3767", "T/units", "heat"):
        assert word in html


def test_a_variable_shows_its_characteristics(run):
    f = thalweg.open(run)
    html = text_of(f["T"]._repr_html_())
    for word in ("double (float64)", "global array", "(4, 24, 32)", "2 x 2 per step", "step, y, x", "24.0 KiB", "units"):
        assert word in html, word
    assert "to 3" in text_of(f["psi"]._repr_html_())
    assert "Schritt 3" in text_of(f["title"]._repr_html_())
    assert repr(f["T"]) == "<variable 'T': double, global array 24 x 32, 4 steps>"
    assert "step 3: [12, 16] at [0, 0] by rank 0, 3000 to 3367" in repr(f["T"].blocks()[0])
    assert "T, time" in repr(f.steps[0])


def test_names_are_no_html(path):
    with thalweg.Writer(path) as w:
        w.attribute("note", "<b>&")
        with w.step() as s:
            s["<script>x"] = 1
            s["text"] = "<i>"
    html = thalweg.open(path)._repr_html_()
    assert "<script>" not in html
    assert "<i>" not in html
    assert "<b>&" not in html


def test_names_steer_no_terminal(path):
    name = "T\x1b[31m\u202e\n\x9b2J"
    with thalweg.Writer(path) as w:
        w.attribute(name, name)
        with w.step() as s:
            s[name] = 1
            s["text"] = name
            s["a"] = np.arange(3.0)
    f = thalweg.open(path)
    schema = thalweg.Schema(name).array(name, "f8", count=(4,))
    shown = [f, f[name], f["text"], f.attrs, f.steps, f.steps[0], f["a"].blocks()[0], schema]
    for text in [repr(s) for s in shown] + [f._repr_html_(), f[name]._repr_html_()]:
        assert all(c.isprintable() or c == "\n" for c in text), repr(text)
    assert name in f


def test_a_name_with_two_slashes_is_written_as_it_is_defined(path):
    names = ["a//b", "//b", "a///b/c"]
    with thalweg.Writer(path) as w:
        with w.step() as s:
            for i, name in enumerate(names):
                s[name] = np.full(3, float(i))
    f = thalweg.open(path)
    for i, name in enumerate(names):
        assert f[name][0].tolist() == [float(i)] * 3


def test_a_writer_and_a_schema_show_themselves(path):
    schema = thalweg.Schema("g").array("T", "f8", count=("rows", 4), shape=("all", 4), offset=("first", 0), transform="zlib")
    assert "T: double  [rows, 4] of [all, 4] at [first, 0]  zlib" in repr(schema)
    w = thalweg.Writer(path)
    assert "rank 0 of 1" in repr(w)
    w.close()
    assert "closed" in repr(w)
