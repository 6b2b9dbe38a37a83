"""The page's style and script, kept apart from what it says."""

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; form-action 'none'; base-uri 'none'"
)
"""What the browser holds the page to: nothing is loaded, from anywhere."""

STYLE = """
:root { color-scheme: light dark; --ink: #1c1f24; --soft: #5b6470; --paper: #ffffff;
  --line: #d7dbe0; --tint: #f4f6f8; --link: #0b5cad; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --soft: #a2abb6; --paper: #15181c;
  --line: #363c44; --tint: #1e2227; --link: #7db8f5; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 80rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; }
main > p, main > ul { max-width: 48rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0.5rem 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.35rem; margin: 2.75rem 0 0.75rem; padding-bottom: 0.3rem;
  border-bottom: 1px solid var(--line); }
h3 { font-size: 1.08rem; margin: 1.75rem 0 0.35rem; overflow-wrap: anywhere; }
h4 { font-size: 0.95rem; margin: 1.25rem 0 0.25rem; overflow-wrap: anywhere; }
h4:target { background: var(--tint); outline: 2px solid var(--link); outline-offset: 3px; }
a { color: var(--link); text-decoration-thickness: 1px; text-underline-offset: 2px; }
.note, .notes, figcaption, h3 + p { color: var(--soft); font-size: 0.88rem; }
.note, h3 + p { margin: 0 0 0.6rem; }
td small { display: block; color: var(--soft); font-size: 0.92em; white-space: nowrap; }
td a { text-decoration-color: var(--line); }
p.notes { margin: 0.5rem 0 0; } ol.notes { margin: 0.1rem 0 0; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; font-size: 0.82rem; width: 100%; }
th, td { padding: 0.35rem 0.5rem; text-align: left; vertical-align: top; }
th { font-weight: 600; background: var(--tint); vertical-align: bottom; white-space: nowrap; }
th.over { text-align: center; border-left: 1px solid var(--line);
  border-bottom: 1px solid var(--line); }
tbody tr { border-top: 1px solid var(--line); }
td.number, th.number { text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
figure { margin: 2rem 0; } figcaption { margin-top: 0.4rem; }
.plot { min-height: 500px; border: 1px solid var(--line); border-radius: 6px; }
.plot.failed { min-height: 0; padding: 1rem; color: #c0392b; }
details { border-left: 3px solid var(--line); padding: 0.15rem 0.75rem; margin: 0.3rem 0; }
summary { cursor: pointer; } pre { max-height: 30rem; overflow: auto; font-size: 0.78rem;
  background: var(--tint); padding: 0.75rem; border-radius: 6px; }
"""

SCRIPT = """
"use strict";
const drawings = JSON.parse(document.getElementById("drawings").textContent);
const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const theme = () => ({
  "font": {color: ink("--ink"), size: 13},
  "modebar": {bgcolor: "rgba(0,0,0,0)", color: ink("--soft"), activecolor: ink("--link")},
  "hoverlabel": {bgcolor: ink("--tint"), bordercolor: ink("--line"), font: {color: ink("--ink")}},
});
const options = {responsive: true, displaylogo: false,
  modeBarButtons: [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]]};
const draw = async (slug, {data, layout}) => {
  const box = document.getElementById(slug);
  box.replaceChildren();
  try {
    await Plotly.newPlot(box, data, {...layout, ...theme()}, options);
    box.dataset.drawn = "yes";
  } catch (error) {
    box.classList.add("failed");
    box.textContent = "This figure could not be drawn (" + error + "); see the files below.";
  }
};
for (const [slug, drawing] of Object.entries(drawings)) draw(slug, drawing);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const slug of Object.keys(drawings)) Plotly.relayout(slug, theme());
});
const open = () => {
  const heading = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!heading || heading.tagName !== "H4") return;
  for (let next = heading.nextElementSibling; next && next.tagName === "DETAILS";
       next = next.nextElementSibling) next.open = true;
};
addEventListener("hashchange", open);
open();
"""
