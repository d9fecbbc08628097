// The profile: a flame graph whose frames are source lines, the memory's course, tables.
(() => {
  const { el, bytes, count, seconds, percent, colour } = RL;
  const get = (id) => document.getElementById(id);
  const data = RL.data, flame = data.flame;
  const total = flame.forward + flame.backward || 1;
  const us = (v) => seconds(v / 1e6);

  // ---- numbers
  const cell = (name, value, note) => {
    const [number, ...unit] = value.split(" ");
    return el("div", {}, el("dt", {}, name), el("dd", {}, number, unit.length ? el("small", {}, " " + unit.join(" ")) : null), note ? el("dd.quiet", {}, note) : null);
  };
  get("stats").append(
    cell("Wall time", seconds(data.wall)),
    cell("In operations", us(total), data.wall ? `${percent(total / 1e6 / data.wall)} of the wall time` : ""),
    cell("Forward", us(flame.forward)),
    cell("Backward", us(flame.backward)),
    cell("Events", count(data.events)),
  );
  if (data.memory) get("stats").append(cell("Peak memory", bytes(data.memory.peak), "of new tensors"));

  // ---- the flame graph: a list of boxes with their depth and place
  const boxes = [];
  let deepest = 0;
  (function place(frames, depth, from, parent) {
    let at = from;
    for (const [text, forward, backward, inner] of frames) {
      const i = boxes.length;
      boxes.push({ text, forward, backward, from: at, to: at + forward + backward, depth, parent, children: [] });
      if (parent >= 0) boxes[parent].children.push(i);
      deepest = Math.max(deepest, depth);
      place(inner, depth + 1, at, i);
      at += forward + backward;
    }
  })(flame.frames, 0, 0, -1);
  const label = (b) => flame.texts[b.text][0];
  const source = (b) => flame.texts[b.text][1];
  const inside = (b) => flame.texts[b.text][2];
  const ROW = 24;
  const canvas = get("flame");
  const state = { from: 0, to: total, chosen: -1, hits: null };
  let X = null;
  const font = () => `12px ${getComputedStyle(document.documentElement).getPropertyValue("--mono")}`;
  function draw() {
    const k = Math.min(2, devicePixelRatio || 1), w = canvas.parentElement.clientWidth, h = (deepest + 1) * ROW + 22;
    canvas.style.height = h + "px";
    canvas.width = Math.max(1, w * k); canvas.height = h * k;
    const pen = canvas.getContext("2d");
    pen.setTransform(k, 0, 0, k, 0, 0);
    X = (v) => ((v - state.from) / (state.to - state.from)) * w;
    pen.font = font();
    const letter = pen.measureText("0").width;
    pen.textBaseline = "middle";
    boxes.forEach((b, i) => {
      const a = Math.max(0, X(b.from)), z = Math.min(w, X(b.to));
      if (z <= 0 || a >= w || z - a < 0.4) return;
      const y = b.depth * ROW, split = b.backward + b.forward ? b.forward / (b.forward + b.backward) : 1;
      const wide = Math.max(0.6, z - a - 1);
      pen.globalAlpha = state.hits && !state.hits.has(i) ? 0.25 : 1;
      const left = X(b.from), mid = Math.min(z, Math.max(a, left + (X(b.to) - left) * split));
      pen.fillStyle = colour("f-fill"); pen.fillRect(a, y, Math.max(0, Math.min(mid, a + wide) - a), ROW - 2);
      pen.fillStyle = colour("b-fill"); pen.fillRect(mid, y, Math.max(0, a + wide - mid), ROW - 2);
      if (i === state.chosen) { pen.strokeStyle = colour("ink"); pen.lineWidth = 2; pen.strokeRect(a + 1, y + 1, wide - 2, ROW - 4); }
      const room = Math.floor((z - a - 10) / letter);
      if (room >= 3) {
        let text = label(b);
        if (source(b) && room > text.length + 6) text += "  " + source(b);
        pen.fillStyle = colour("ink");
        pen.fillText(text.length > room ? text.slice(0, room - 1) + "…" : text, a + 5, y + ROW / 2 - 0.5);
      }
    });
    pen.globalAlpha = 1;
    pen.fillStyle = colour("ink-3"); pen.font = `11.5px ${getComputedStyle(document.body).fontFamily}`;
    pen.textAlign = "left"; pen.fillText(state.from === 0 && state.to === total ? "all" : "zoomed", 0, h - 9);
    pen.textAlign = "right"; pen.fillText(us(state.to - state.from), w, h - 9);
    pen.textAlign = "left";
  }
  function at(e) {
    const v = state.from + (e.offsetX / canvas.clientWidth) * (state.to - state.from), depth = Math.floor(e.offsetY / ROW);
    return boxes.findIndex((b) => b.depth === depth && v >= b.from && v <= b.to);
  }
  const facts = (b) => `${us(b.forward + b.backward)} (${percent((b.forward + b.backward) / total)}): ${us(b.forward)} forward, ${us(b.backward)} backward`;
  function choose(i) {
    state.chosen = i;
    const b = boxes[i];
    get("chosen").replaceChildren(...(b ? [el("b.mono", {}, label(b)), inside(b) ? ` in ${inside(b)} ` : " ", source(b) ? el("code", {}, source(b)) : "", " ", facts(b)] : []));
    if (b) RL.announce([label(b), source(b), facts(b)].filter(Boolean).join(", "));
    draw();
  }
  function zoom(i) {
    const b = boxes[i];
    [state.from, state.to] = b ? [b.from, b.to] : [0, total];
    draw();
  }
  canvas.addEventListener("pointermove", (e) => {
    const b = boxes[at(e)];
    if (!b) { RL.hideTip(); return; }
    RL.showTip(e.clientX, e.clientY, [el("b", {}, label(b)), source(b) ? el("div.mono", {}, source(b)) : "", el("div", {}, facts(b))]);
  });
  canvas.addEventListener("pointerleave", RL.hideTip);
  canvas.addEventListener("click", (e) => { const i = at(e); choose(i); zoom(i); });
  canvas.addEventListener("keydown", (e) => {
    const b = boxes[state.chosen];
    const beside = (step) => {
      const row = b.parent >= 0 ? boxes[b.parent].children : boxes.map((_, i) => i).filter((i) => boxes[i].parent < 0);
      return row[row.indexOf(state.chosen) + step] ?? state.chosen;
    };
    const keys = {
      ArrowDown: () => choose(b ? b.children[0] ?? state.chosen : 0),
      ArrowUp: () => choose(b && b.parent >= 0 ? b.parent : Math.max(0, state.chosen)),
      ArrowRight: () => choose(b ? beside(1) : 0),
      ArrowLeft: () => choose(b ? beside(-1) : 0),
      Enter: () => zoom(state.chosen),
      Escape: () => zoom(-1),
    };
    if (keys[e.key] && boxes.length) { e.preventDefault(); keys[e.key](); }
  });
  get("reset").addEventListener("click", () => { zoom(-1); choose(-1); });
  get("search").addEventListener("input", () => {
    const word = get("search").value.trim().toLowerCase();
    state.hits = word ? new Set(boxes.map((_, i) => i).filter((i) => flame.texts[boxes[i].text].join("\n").toLowerCase().includes(word))) : null;
    let sum = 0;
    if (word) boxes.forEach((b, i) => {
      let p = b.parent, inner = false;
      while (p >= 0) { if (state.hits.has(p)) inner = true; p = boxes[p].parent; }
      if (state.hits.has(i) && !inner) sum += b.forward + b.backward;
    });
    get("found").textContent = word ? `${percent(sum / total)} of the time` : "";
    draw();
  });
  new ResizeObserver(draw).observe(canvas.parentElement);

  // ---- memory
  const course = get("course"), m = data.memory;
  const axis = { left: 64, right: 12, top: 12, bottom: 26 };
  function drawMemory() {
    const k = Math.min(2, devicePixelRatio || 1), w = course.parentElement.clientWidth, h = 200;
    course.style.height = h + "px";
    course.width = Math.max(1, w * k); course.height = h * k;
    const pen = course.getContext("2d");
    pen.setTransform(k, 0, 0, k, 0, 0);
    pen.font = `11.5px ${getComputedStyle(document.body).fontFamily}`;
    const end = m.course[m.course.length - 1][0] || 1, peak = m.peak || 1;
    const px = (t) => axis.left + (t / end) * (w - axis.left - axis.right);
    const py = (b) => h - axis.bottom - (b / peak) * (h - axis.bottom - axis.top);
    pen.fillStyle = colour("c2"); pen.globalAlpha = 0.1;
    for (const [a, z] of m.backward) pen.fillRect(px(a), axis.top, Math.max(1, px(z) - px(a)), h - axis.top - axis.bottom);
    pen.globalAlpha = 1;
    pen.textAlign = "right"; pen.textBaseline = "middle";
    for (const part of [0, 0.25, 0.5, 0.75, 1]) {
      const y = Math.round(py(peak * part)) + 0.5;
      pen.strokeStyle = colour(part ? "grid" : "line-2");
      pen.beginPath(); pen.moveTo(axis.left, y); pen.lineTo(w - axis.right, y); pen.stroke();
      pen.fillStyle = colour("ink-3"); pen.fillText(part ? bytes(peak * part) : "0", axis.left - 8, y);
    }
    pen.beginPath(); pen.moveTo(px(0), py(0));
    let before = 0;
    for (const [t, b] of m.course) { pen.lineTo(px(t), py(before)); pen.lineTo(px(t), py(b)); before = b; }
    pen.strokeStyle = colour("c1"); pen.lineWidth = 1.6; pen.stroke();
    pen.lineTo(px(end), py(0)); pen.closePath(); pen.globalAlpha = 0.15; pen.fillStyle = colour("c1"); pen.fill(); pen.globalAlpha = 1;
    pen.fillStyle = colour("accent");
    pen.beginPath(); pen.arc(px(m.peak_time), py(peak), 4, 0, 7); pen.fill();
    pen.fillStyle = colour("ink-3"); pen.textBaseline = "top";
    for (const part of w > 520 ? [0, 0.25, 0.5, 0.75, 1] : [0, 0.5, 1]) {
      pen.textAlign = part === 0 ? "left" : part === 1 ? "right" : "center";
      pen.fillText(part ? us(end * part) : "0", px(end * part), h - axis.bottom + 8);
    }
  }
  if (m) {
    get("memory").hidden = false;
    get("memory-text").replaceChildren(`peak ${bytes(m.peak)} after ${us(m.peak_time)} `, el("span.swatch", { style: "background:var(--c2);opacity:.3;margin-left:10px" }), "backward passes");
    course.setAttribute("aria-label", `Memory over time: peak ${bytes(m.peak)} after ${us(m.peak_time)}`);
    course.addEventListener("pointermove", (e) => {
      const end = m.course[m.course.length - 1][0];
      const t = ((e.offsetX - axis.left) / (course.clientWidth - axis.left - axis.right)) * end;
      let low = 0, high = m.course.length - 1;
      while (low < high) { const mid = (low + high + 1) >> 1; if (m.course[mid][0] <= t) low = mid; else high = mid - 1; }
      RL.showTip(e.clientX, e.clientY, [el("b", {}, bytes(m.course[low][1])), el("div.quiet", {}, `after ${us(Math.max(0, t))}`)]);
    });
    course.addEventListener("pointerleave", RL.hideTip);
    new ResizeObserver(drawMemory).observe(course.parentElement);
    get("holders").append(RL.table([
      { title: "Line", get: line },
      { title: "In", get: (r) => (r.backward ? "backward" : "forward") },
      { title: "Bytes", num: true, get: (r) => bytes(r.bytes) },
      { title: "Of the peak", num: true, get: (r) => percent(r.bytes / (m.peak || 1)) },
      { title: "Blocks", num: true, get: (r) => count(r.blocks) },
    ], m.holders, "Lines that hold the peak"));
  }

  // ---- tables
  function line(r) {
    const box = el("span", {}, el("span.loc", { title: r.file }, r.line));
    if (r.source) box.append(el("span.src", { title: r.source }, r.source));
    return box;
  }
  const most = data.lines.length ? data.lines[0].forward + data.lines[0].backward : 1;
  get("lines").querySelector(".scroll").append(RL.table([
    { title: "Line", get: line },
    { title: "Forward", num: true, get: (r) => seconds(r.forward) },
    { title: "Backward", num: true, get: (r) => seconds(r.backward) },
    { title: "Share", num: true, get: (r) => percent(((r.forward + r.backward) * 1e6) / total) },
    { title: "Ops", num: true, get: (r) => count(r.calls) },
    { title: "", get: (r) => el("span.share", { "aria-hidden": "true" }, el("i", { style: `width:${(100 * r.forward) / most}%` }), el("i", { style: `width:${(100 * r.backward) / most}%` })) },
  ], data.lines, "Lines"));
  get("operations").querySelector(".scroll").append(RL.table([
    { title: "Name", get: (r) => el("span.loc", {}, r.name) },
    { title: "Kind", get: (r) => ({ op: "operation", backward: "backward", range: "range" })[r.kind] },
    { title: "Own time", num: true, get: (r) => seconds(r.self) },
    { title: "With inner", num: true, get: (r) => seconds(r.total) },
    { title: "Calls", num: true, get: (r) => count(r.calls) },
    { title: "Mean", num: true, get: (r) => seconds(r.self / r.calls) },
  ], data.operations, "Operations"));
  RL.onTheme(() => { draw(); if (m) drawMemory(); });
})();
