// What all pages share: the data, the theme, numbers as text, small elements, the tooltip.
"use strict";
const RL = (() => {
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById("data").textContent);
  const watchers = [];

  const dark = () => root.dataset.theme === "dark";
  function setTheme(name) {
    root.dataset.theme = name;
    const button = document.getElementById("theme");
    if (button) button.setAttribute("aria-pressed", String(name === "dark"));
    for (const call of watchers) call();
  }
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = false;
  system.addEventListener("change", () => chosen || setTheme(system.matches ? "dark" : "light"));
  document.addEventListener("click", (event) => {
    if (!event.target.closest("#theme")) return;
    chosen = true;
    setTheme(dark() ? "light" : "dark");
  });

  let colours = {};
  function colour(name) {
    const key = root.dataset.theme + name;
    return (colours[key] ??= getComputedStyle(root).getPropertyValue("--" + name).trim());
  }

  // el("td.num", {title: "..."}, "text", child...)
  function el(what, attributes, ...children) {
    const [tag, ...classes] = what.split(".");
    const made = document.createElement(tag);
    if (classes.length) made.className = classes.join(" ");
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined) made.setAttribute(name, value);
    }
    made.append(...children.filter((c) => c !== null && c !== undefined));
    return made;
  }

  function significant(value, digits = 3) {
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (!Number.isFinite(size)) return String(value).replace("Infinity", "∞");
    if (size >= 1e6 || size < 1e-4) {
      return value.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e").replace("-", "−");
    }
    const places = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
    return value.toLocaleString("en", { maximumFractionDigits: places }).replace("-", "−");
  }
  const scaled = (value, base, units) => {
    let at = 0;
    let size = Math.abs(value);
    while (size >= base && at < units.length - 1) { size /= base; at++; }
    return significant(Math.sign(value) * size) + " " + units[at];
  };
  const bytes = (n) => scaled(n, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
  const count = (n) => (Math.abs(n) < 1e4 ? Math.round(n).toLocaleString("en") : scaled(n, 1000, ["", "k", "M", "G", "T"]));
  const seconds = (s) => {
    const size = Math.abs(s);
    if (size === 0) return "0 s";
    if (size < 1e-6) return significant(s * 1e9) + " ns";
    if (size < 1e-3) return significant(s * 1e6) + " µs";
    if (size < 1) return significant(s * 1e3) + " ms";
    if (size < 120) return significant(s) + " s";
    return size < 7200 ? significant(s / 60) + " min" : significant(s / 3600) + " h";
  };
  const percent = (x) => (x > 0 && x < 0.001 ? "<0.1 %" : significant(100 * x, x < 0.1 ? 2 : 3) + " %");

  let tip = null;
  function showTip(x, y, content) {
    if (!tip) {
      tip = el("div.tip", { role: "status", "aria-live": "off" });
      document.body.append(tip);
    }
    tip.hidden = false;
    tip.replaceChildren(...[].concat(content));
    const box = tip.getBoundingClientRect();
    const left = x + 14 + box.width > innerWidth ? x - box.width - 12 : x + 14;
    const top = y + 14 + box.height > innerHeight ? y - box.height - 10 : y + 14;
    tip.style.left = Math.max(4, left) + "px";
    tip.style.top = Math.max(4, top) + "px";
  }
  const hideTip = () => tip && (tip.hidden = true);

  // A table whose columns are {title, get, num, node}.
  function table(columns, rows, caption) {
    const head = el("tr", {}, ...columns.map((c) => el(c.num ? "th.num" : "th", { scope: "col" }, c.title)));
    const body = rows.map((row) =>
      el("tr", {}, ...columns.map((c) => {
        const cell = el(c.num ? "td.num" : "td");
        cell.append(c.get(row) ?? "");
        return cell;
      })),
    );
    return el("table.data", {}, caption ? el("caption.sr", {}, caption) : null,
      el("thead", {}, head), el("tbody", {}, ...body));
  }

  const announce = (text) => {
    const live = document.getElementById("live");
    if (live) live.textContent = text;
  };

  return {
    data, dark, colour, el, significant, bytes, count, seconds, percent, showTip, hideTip, table,
    announce, setTheme, onTheme: (call) => watchers.push(call),
  };
})();
