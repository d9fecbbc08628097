// The page around the drawing: views, colours, search, facts, keys, the memory of the pass.
(() => {
  const { el, bytes, seconds, significant } = RL;
  const { steps, text } = G;
  const get = (id) => document.getElementById(id);
  const facts = get("facts"), search = get("search"), viewBox = get("view"), colourBox = get("colour");
  const shown = () => Stage.state.view;

  // ---- views and colours
  G.views.forEach((view, i) => {
    const many = view.x.length;
    viewBox.append(el("option", { value: i }, `${view.title} (${many.toLocaleString("en")})`));
  });
  for (const name of ["time", "norm"]) {
    const option = colourBox.querySelector(`[value=${name}]`);
    if (!steps[name].some((v) => v !== null)) {
      option.disabled = true;
      option.textContent += " (not measured)";
    }
  }
  if (!steps.bytes.some((v) => v > 0)) colourBox.querySelector("[value=bytes]").disabled = true;

  function recolour() {
    const ends = Stage.paint();
    const scale = get("scale");
    scale.hidden = !ends;
    if (ends) {
      const write = { bytes, time: seconds, norm: significant }[Stage.state.colour];
      get("low").textContent = write(ends[0]);
      get("high").textContent = write(ends[1]);
      scale.querySelector("i").style.background = `linear-gradient(90deg, ${Stage.ramp(0)[0]}, ${Stage.ramp(1)[0]})`;
    }
    Stage.plan();
  }
  function setView(number, keep) {
    Stage.state.view = G.views[number];
    viewBox.value = String(number);
    Stage.state.selected = -1;
    recolour();
    lightUp();
    if (!keep) Stage.begin();
  }
  viewBox.addEventListener("change", () => {
    const before = Stage.state.selected >= 0 ? shown().members[Stage.state.selected][0] : null;
    setView(Number(viewBox.value));
    if (before !== null) Stage.select(shown().boxOf[before]); else tell(-1);
    RL.announce(`${shown().title}: ${shown().x.length} boxes`);
  });
  colourBox.addEventListener("change", () => { Stage.state.colour = colourBox.value; recolour(); });
  RL.onTheme(() => { recolour(); timeline(); });

  // ---- search: what matches stays bright, Enter goes through it
  let matches = null, at = -1, within = null; // steps that match; those of a module that is in focus
  function lightUp() {
    const chosen = matches ?? within;
    Stage.state.lit = chosen ? new Set(chosen.map((i) => shown().boxOf[i])) : null;
    Stage.plan();
  }
  function look() {
    const words = search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    matches = words.length ? [] : null;
    if (matches) {
      G.haystack.forEach((hay, i) => { if (words.every((w) => hay.includes(w))) matches.push(i); });
    }
    at = -1;
    get("found").textContent = matches ? `${matches.length.toLocaleString("en")} found` : "";
    lightUp();
  }
  search.addEventListener("input", look);
  search.addEventListener("keydown", (e) => {
    if (e.key === "Enter" && matches?.length) {
      at = (at + (e.shiftKey ? matches.length - 1 : 1)) % matches.length;
      Stage.select(shown().boxOf[matches[at]]);
      get("found").textContent = `${at + 1} of ${matches.length.toLocaleString("en")}`;
    } else if (e.key === "Escape") { search.value = ""; look(); Stage.canvas.focus(); }
  });

  // ---- facts
  const go = (step) => { Stage.select(shown().boxOf[step]); };
  function row(list, name, value) {
    if (value !== null && value !== undefined && value !== "") list.append(el("dt", {}, name), el("dd", {}, value));
  }
  function links(title, numbers) {
    if (!numbers.length) return [];
    const most = 12;
    const list = el("ul", {}, ...numbers.slice(0, most).map((i) =>
      el("li", {}, el("button", { type: "button", onclick: () => go(i) }, text("label", i)), " ",
        el("span.quiet", {}, [text("shape", i), text("line", i)].filter(Boolean).join(" · ")))));
    if (numbers.length > most) list.append(el("li.quiet", {}, `and ${numbers.length - most} more`));
    return [el("h3", {}, title), list];
  }
  function focusOn(path) {
    within = [];
    steps.module.forEach((_, i) => { const m = text("module", i); if (m === path || m.startsWith(path + ".")) within.push(i); });
    search.value = ""; matches = null; get("found").textContent = "";
    lightUp();
    Stage.fitBoxes(new Set(within.map((i) => shown().boxOf[i])));
    RL.announce(`${path}: ${within.length} steps`);
  }
  function crumbs(path) {
    if (!path) return null;
    const parts = path.split(".");
    return el("span.crumbs", {}, ...parts.map((part, i) =>
      el("button", { type: "button", title: "Look at this module alone", onclick: () => focusOn(parts.slice(0, i + 1).join(".")) }, part)));
  }
  function tell(box) {
    facts.replaceChildren(...(box < 0 ? overview() : shown().members[box].length > 1 ? ofGroup(box) : ofStep(shown().members[box][0])));
    facts.scrollTop = 0;
  }
  function ofStep(i) {
    const kind = text("kind", i);
    const list = el("dl");
    row(list, "Shape", text("shape", i));
    row(list, "Type", text("dtype", i));
    row(list, "Module", crumbs(text("module", i)));
    row(list, "Line", text("line", i) && el("span.loc", { title: text("file", i) }, text("line", i) + (text("function", i) ? `, in ${text("function", i)}` : "")));
    const isOp = kind === "op" || kind === "output";
    if (isOp) row(list, "Keeps", steps.freed[i] ? "freed" : bytes(steps.bytes[i]));
    row(list, "Backward", steps.time[i] === null ? null : seconds(steps.time[i]));
    row(list, "Gradient norm", steps.norm[i] === null ? null : significant(Number(steps.norm[i]), 4));
    const parts = [el("h2", {}, text("label", i)), el("p.quiet", {}, isOp ? text("name", i) : kind === "parameter" ? "a parameter" : "a leaf"), list];
    if (text("source", i)) parts.push(el("pre", {}, text("source", i)));
    if (steps.saved[i].length) {
      parts.push(el("h3", {}, "Saved for backward"), el("ul", {}, ...steps.saved[i].map(([t, b]) =>
        el("li.mono", {}, G.texts[t], " ", el("span.quiet", {}, b ? bytes(b) : "")))));
    }
    return [...parts, ...links("Computed from", steps.inputs[i]), ...links("Used by", G.users[i])];
  }
  function ofGroup(box) {
    const view = shown(), members = view.members[box];
    const list = el("dl");
    const parameters = members.filter((i) => text("kind", i) === "parameter");
    row(list, "Operations", String(members.length - parameters.length));
    row(list, "Parameters", parameters.length ? String(parameters.length) : null);
    row(list, "Keeps", bytes(view.values.bytes[box] || 0));
    row(list, "Backward", view.values.time[box] === null ? null : seconds(view.values.time[box]));
    row(list, "Largest gradient", view.values.norm[box] === null ? null : significant(view.values.norm[box], 4));
    const open = el("button", { type: "button", onclick: () => {
      within = members; matches = null; search.value = "";
      setView(0, true);
      Stage.fitBoxes(members.map((i) => shown().boxOf[i]));
      tell(-1);
    } }, "Show its operations");
    const first = members.find((i) => text("source", i));
    const parts = [el("h2", {}, G.label(view, box)), el("p.quiet", {}, view.title.startsWith("Modules") ? "a module" : "a source line"), list];
    if (first !== undefined) parts.push(el("pre", {}, text("source", first)));
    parts.push(el("p", { style: "margin-top:12px" }, open));
    return [...parts, ...links("Its steps", members)];
  }
  function overview() {
    const lines = new Map();
    steps.bytes.forEach((b, i) => {
      if (!b) return;
      const key = text("file", i);
      const entry = lines.get(key) || { step: i, total: 0, largest: 0 };
      entry.total += b;
      if (b > entry.largest) { entry.largest = b; entry.step = i; }
      lines.set(key, entry);
    });
    const most = [...lines.values()].sort((a, b) => b.total - a.total).slice(0, 12);
    const parts = [el("h2", { style: "font-family:inherit" }, "Overview"), el("p.quiet", {}, RL.data.head)];
    if (within) parts.push(el("p", {}, el("button", { type: "button", onclick: () => { within = null; lightUp(); Stage.fitAll(); tell(-1); } }, "Show everything again")));
    if (most.length) {
      parts.push(el("h3", {}, "Lines that keep most for backward"), RL.table([
        { title: "Line", get: (e) => el("button", { type: "button", title: text("source", e.step), onclick: () => go(e.step) }, text("line", e.step) || text("label", e.step)) },
        { title: "Bytes", num: true, get: (e) => bytes(e.total) },
      ], most, "Lines that keep most for backward"));
    }
    parts.push(el("h3", {}, "Legend"), el("ul", {},
      ...[["good-soft", "output"], ["card", "operation"], ["accent-soft", "parameter"], ["note-soft", "other leaf"]].map(([c, name]) =>
        el("li", {}, el("span", { style: `display:inline-block;width:22px;height:13px;border:1px solid var(--line-2);border-radius:3px;background:var(--${c});vertical-align:-2px;margin-right:8px` }), name))));
    parts.push(el("p.quiet", { style: "margin-top:14px" }, "Data flows downwards; gradients flow up. Select a box for its facts."));
    return parts;
  }

  // ---- selection, keys, tooltip
  const speak = (box) => {
    const view = shown(), i = view.members[box][0];
    const one = view.members[box].length === 1;
    RL.announce([G.label(view, box), G.detail(view, box), one ? text("module", i) : "", one ? text("line", i) : "",
      view.values.bytes[box] ? `keeps ${bytes(view.values.bytes[box])}` : "",
      `${view.up[box].length} in, ${view.down[box].length} out`].filter(Boolean).join(", "));
  };
  Stage.on("select", (box) => { tell(box); if (box >= 0) speak(box); timeline(); });
  Stage.on("move", (e, box) => {
    if (box < 0 || e.pointerType === "touch") { RL.hideTip(); return; }
    const view = shown(), i = view.members[box][0];
    const lines = [el("b", {}, G.label(view, box)), el("div.quiet", {}, [G.detail(view, box), text("line", i)].filter(Boolean).join(" · "))];
    if (view.values.bytes[box]) lines.push(el("div", {}, `keeps ${bytes(view.values.bytes[box])}`));
    RL.showTip(e.clientX, e.clientY, lines);
  });
  function sideways(box, direction) {
    const view = shown(), y = view.y[box];
    const rowOf = view.byTop.filter((i) => view.y[i] === y);
    return rowOf[rowOf.indexOf(box) + direction] ?? box;
  }
  Stage.canvas.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const view = shown(), box = Stage.state.selected;
    const first = view.byTop[view.byTop.length - 1];
    const pick = (list, x) => list.map((p) => p[0]).sort((a, b) => Math.abs(view.x[a] - x) - Math.abs(view.x[b] - x))[0];
    const keys = {
      ArrowUp: () => Stage.select(box < 0 ? first : pick(view.up[box], view.x[box]) ?? box),
      ArrowDown: () => Stage.select(box < 0 ? first : pick(view.down[box], view.x[box]) ?? box),
      ArrowLeft: () => Stage.select(box < 0 ? first : sideways(box, -1)),
      ArrowRight: () => Stage.select(box < 0 ? first : sideways(box, 1)),
      Home: () => Stage.select(view.byTop[0]),
      End: () => Stage.select(first),
      Enter: () => facts.focus(),
      Escape: () => Stage.select(-1),
      "+": () => Stage.zoom(1.25), "=": () => Stage.zoom(1.25),
      "-": () => Stage.zoom(0.8), "0": () => Stage.fitAll(),
    };
    if (keys[e.key]) { e.preventDefault(); keys[e.key](); }
  });
  document.addEventListener("keydown", (e) => {
    if (e.key === "/" && !/INPUT|SELECT/.test(document.activeElement.tagName)) { e.preventDefault(); search.focus(); }
  });
  facts.addEventListener("keydown", (e) => { if (e.key === "Escape") Stage.canvas.focus(); });
  get("in").addEventListener("click", () => Stage.zoom(1.3));
  get("out").addEventListener("click", () => Stage.zoom(1 / 1.3));
  get("fit").addEventListener("click", () => Stage.fitAll());

  // ---- the memory of the pass
  const points = RL.data.timeline;
  const band = get("timeline");
  const axis = { left: 62, right: 10, top: 8, bottom: 18 };
  function timeline() {
    if (!points.length) return;
    get("memory").hidden = false;
    const k = Math.min(2, devicePixelRatio || 1), w = band.clientWidth, h = band.clientHeight;
    band.width = w * k; band.height = h * k;
    const pen = band.getContext("2d");
    pen.setTransform(k, 0, 0, k, 0, 0);
    const peak = Math.max(...points.map((p) => p[1])), n = points.length;
    const x = (i) => axis.left + ((w - axis.left - axis.right) * i) / n;
    const y = (b) => h - axis.bottom - ((h - axis.bottom - axis.top) * b) / peak;
    pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
    pen.strokeStyle = RL.colour("grid");
    pen.fillStyle = RL.colour("ink-3");
    pen.textAlign = "right"; pen.textBaseline = "middle";
    for (const part of [0, 0.5, 1]) {
      pen.beginPath(); pen.moveTo(axis.left, y(peak * part)); pen.lineTo(w - axis.right, y(peak * part)); pen.stroke();
      pen.fillText(part ? bytes(peak * part) : "0", axis.left - 8, y(peak * part));
    }
    pen.beginPath(); pen.moveTo(x(0), y(0));
    points.forEach(([, b], i) => { pen.lineTo(x(i), y(b)); pen.lineTo(x(i + 1), y(b)); });
    pen.lineTo(x(n), y(0));
    pen.globalAlpha = 0.18; pen.fillStyle = RL.colour("c1"); pen.fill();
    pen.globalAlpha = 1; pen.strokeStyle = RL.colour("c1"); pen.lineWidth = 1.5; pen.stroke();
    pen.setLineDash([3, 3]); pen.strokeStyle = RL.colour("line-2"); pen.lineWidth = 1;
    pen.beginPath(); pen.moveTo(x(n / 2), axis.top); pen.lineTo(x(n / 2), h - axis.bottom); pen.stroke(); pen.setLineDash([]);
    pen.fillStyle = RL.colour("ink-3"); pen.textBaseline = "alphabetic"; pen.textAlign = "center";
    pen.fillText("forward →", x(n / 4), h - 4); pen.fillText("backward →", x((3 * n) / 4), h - 4);
    const box = Stage.state.selected;
    if (box >= 0) {
      const chosen = new Set(shown().members[box]);
      pen.fillStyle = RL.colour("accent");
      points.forEach(([s], i) => { if (chosen.has(s)) pen.fillRect(x(i), h - axis.bottom - 1, Math.max(2, x(i + 1) - x(i)), 4); });
    }
    const top = points.findIndex((p) => p[1] === peak);
    get("memory-text").textContent = `peak ${bytes(peak)}, reached at ${[text("label", points[top][0]), text("line", points[top][0])].filter(Boolean).join(", ")}`;
    band.setAttribute("aria-label", `Bytes kept for backward over the pass: ${get("memory-text").textContent}`);
  }
  const under = (e) => Math.min(points.length - 1, Math.max(0, Math.floor(((e.offsetX - axis.left) / (band.clientWidth - axis.left - axis.right)) * points.length)));
  band.addEventListener("pointermove", (e) => {
    const i = under(e), [s, b] = points[i];
    RL.showTip(e.clientX, e.clientY, [el("b", {}, `${bytes(b)} kept`), el("div", {}, `after ${text("label", s)} (${i < points.length / 2 ? "forward" : "backward"})`), el("div.quiet", {}, text("line", s))]);
  });
  band.addEventListener("pointerleave", RL.hideTip);
  band.addEventListener("click", (e) => go(points[under(e)][0]));
  new ResizeObserver(timeline).observe(band);

  // ---- begin with a view that can be read
  let start = 0;
  if (steps.label.length > 400) {
    const grouped = G.views.findIndex((v, i) => i > 1 && v.x.length > 3 && v.x.length <= 400);
    start = grouped > 0 ? grouped : 0;
  }
  setView(start);
  tell(-1);
  timeline();
})();
