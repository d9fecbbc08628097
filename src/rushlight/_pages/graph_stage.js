// The drawing: a canvas that shows a part of a view, moved and scaled.
const Stage = (() => {
  const canvas = document.getElementById("stage");
  const pen = canvas.getContext("2d");
  const state = { view: G.views[0], scale: 1, x: 0, y: 0, selected: -1, lit: null, colour: "kind" };
  const ratio = () => Math.min(2, window.devicePixelRatio || 1);
  let width = 0, height = 0, planned = false;
  const watchers = { select: [], move: [] };

  function resize() {
    const box = canvas.parentElement.getBoundingClientRect();
    width = box.width; height = box.height;
    canvas.width = Math.max(1, Math.round(width * ratio()));
    canvas.height = Math.max(1, Math.round(height * ratio()));
    draw();
  }
  const plan = () => {
    if (planned) return;
    planned = true;
    requestAnimationFrame(() => { planned = false; draw(); });
  };

  // From a low to a high value: paper to the accent, by the logarithm.
  function ramp(t) {
    const [from, to] = RL.dark() ? [[58, 50, 40], [255, 178, 92]] : [[255, 246, 232], [168, 67, 0]];
    const mix = from.map((a, i) => Math.round(a + (to[i] - a) * t));
    const light = 0.299 * mix[0] + 0.587 * mix[1] + 0.114 * mix[2];
    return [`rgb(${mix})`, light > 140 ? "#1d1c1a" : "#fffaf2"];
  }
  function range() {
    const found = state.view.values[state.colour].filter((v) => v !== null && v > 0 && Number.isFinite(v));
    if (!found.length) return null;
    let low = Infinity, high = 0;
    for (const v of found) { low = Math.min(low, v); high = Math.max(high, v); }
    return [low, high];
  }
  let fills = [];
  function paint() {
    const fill = {
      op: [RL.colour("card"), RL.colour("ink")],
      parameter: [RL.colour("accent-soft"), RL.colour("ink")],
      leaf: [RL.colour("note-soft"), RL.colour("ink")],
      output: [RL.colour("good-soft"), RL.colour("ink")],
      group: [RL.colour("card"), RL.colour("ink")],
    };
    const ends = state.colour === "kind" ? null : range();
    fills = state.view.x.map((_, i) => {
      if (state.colour === "kind") return fill[G.kind(state.view, i)];
      const value = state.view.values[state.colour][i];
      if (!ends || value === null || !(value > 0)) return fill.op;
      const span = Math.log(ends[1] / ends[0]);
      return ramp(span > 0 ? Math.log(value / ends[0]) / span : 1);
    });
    return ends;
  }

  function trace(route, plain) {
    pen.moveTo(route[0], route[1]);
    if (plain) { pen.lineTo(route[route.length - 2], route[route.length - 1]); return; }
    let x = route[0], y = route[1];
    for (let i = 2; i < route.length; i += 2) {
      const tx = route[i], ty = route[i + 1];
      if (Math.abs(tx - x) < 0.05) pen.lineTo(tx, ty);
      else { const m = (y + ty) / 2; pen.bezierCurveTo(x, m, tx, m, tx, ty); }
      x = tx; y = ty;
    }
  }
  function edges(list, colour, wide, seen) {
    const { view, scale } = state;
    const plain = scale < 0.15;
    pen.strokeStyle = colour;
    pen.lineWidth = Math.max(wide, 0.7 / scale);
    pen.beginPath();
    let drawn = 0;
    // Of very many that are hardly seen, some stand for all; long paths are slow to stroke.
    const every = plain ? Math.max(1, Math.round((list.length * (seen[3] - seen[1])) / view.size[1] / 2500)) : 1;
    for (let at = 0; at < list.length; at += every) {
      const e = list[at], b = view.bounds[e];
      if (b[2] < seen[0] || b[0] > seen[2] || b[3] < seen[1] || b[1] > seen[3]) continue;
      trace(view.routes[e], plain);
      if (++drawn % 128 === 0) { pen.stroke(); pen.beginPath(); }
    }
    pen.stroke();
    if (scale < 0.3) return;
    pen.fillStyle = colour;
    pen.beginPath();
    for (const e of list) {
      const r = view.routes[e], x = r[r.length - 2], y = r[r.length - 1];
      if (x < seen[0] || x > seen[2] || y < seen[1] || y > seen[3]) continue;
      pen.moveTo(x - 3.5, y - 7); pen.lineTo(x + 3.5, y - 7); pen.lineTo(x, y);
    }
    pen.fill();
  }
  const fitted = new Map();
  function fit(textValue, room, font) {
    const key = font + room + textValue;
    let got = fitted.get(key);
    if (got === undefined) {
      got = textValue;
      while (got.length > 1 && pen.measureText(got === textValue ? got : got + "…").width > room) got = got.slice(0, -1);
      if (got !== textValue) got += "…";
      fitted.set(key, got);
    }
    return got;
  }
  let all = [], allOf = null;
  function draw() {
    if (!width || fills.length !== state.view.x.length) return;
    const { view, scale } = state;
    const k = ratio();
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.setTransform(k * scale, 0, 0, k * scale, k * state.x, k * state.y);
    const seen = [-state.x / scale, -state.y / scale, (width - state.x) / scale, (height - state.y) / scale];
    if (allOf !== view) { all = view.edges.map((_, e) => e); allOf = view; }
    edges(all, RL.colour("line-2"), 1.2, seen);
    const near = new Set();
    if (state.selected >= 0) {
      const up = view.up[state.selected], down = view.down[state.selected];
      for (const [i] of [...up, ...down]) near.add(i);
      edges(up.map((p) => p[1]), RL.colour("c1"), 2, seen);
      edges(down.map((p) => p[1]), RL.colour("accent"), 2, seen);
    }
    const withText = scale > 0.32;
    const line = RL.colour("line-2"), ink3 = RL.colour("ink-3"), accent = RL.colour("accent");
    const small = scale < 0.12, card = RL.colour("card");
    let last = null;
    pen.textAlign = "center";
    pen.textBaseline = "alphabetic";
    for (let at = G.firstBelow(view, seen[1] - G.H); at < view.tops.length && view.tops[at] <= seen[3]; at++) {
      const i = view.byTop[at];
      const x = view.x[i], y = view.y[i], w = view.w[i];
      if (x + w < seen[0] || x > seen[2]) continue;
      const [fill, ink] = fills[i];
      const alpha = state.lit && !state.lit.has(i) ? 0.22 : 1;
      if (alpha !== pen.globalAlpha) pen.globalAlpha = alpha;
      if (small) {
        const wanted = fill === card ? line : fill;
        if (wanted !== last) pen.fillStyle = last = wanted;
        pen.fillRect(x, y, w, G.H);
      } else {
        pen.fillStyle = fill;
        const kind = G.kind(view, i);
        const r = kind === "parameter" || kind === "leaf" ? G.H / 2 : 6;
        pen.beginPath();
        pen.roundRect(x, y, w, G.H, r);
        pen.fill();
        pen.strokeStyle = near.has(i) ? ink3 : line;
        pen.lineWidth = kind === "group" ? 1.6 : 1;
        pen.stroke();
        if (kind === "group" && withText) { pen.beginPath(); pen.roundRect(x + 3, y + 3, w - 6, G.H - 6, 4); pen.lineWidth = 0.7; pen.stroke(); }
      }
      if (i === state.selected) {
        pen.strokeStyle = accent;
        pen.lineWidth = Math.max(3, 2.5 / scale);
        pen.strokeRect(x - 4, y - 4, w + 8, G.H + 8);
      }
      if (!withText) continue;
      const detail = G.detail(view, i);
      pen.fillStyle = ink;
      pen.font = fontTitle;
      pen.fillText(fit(G.label(view, i), w - 14, "t"), x + w / 2, y + (detail ? 18 : 25));
      if (detail) {
        pen.font = fontDetail;
        pen.fillStyle = state.colour === "kind" ? ink3 : ink;
        pen.fillText(fit(detail, w - 14, "d"), x + w / 2, y + 32);
      }
    }
    pen.globalAlpha = 1;
  }
  const mono = getComputedStyle(document.documentElement).getPropertyValue("--mono");
  const fontTitle = `12px ${mono}`, fontDetail = `10.5px ${mono}`;

  function clamp() {
    const [w, h] = state.view.size;
    const keep = 60;
    state.x = Math.min(width - keep, Math.max(keep - w * state.scale, state.x));
    state.y = Math.min(height - keep, Math.max(keep - h * state.scale, state.y));
  }
  function zoom(factor, px = width / 2, py = height / 2) {
    const next = Math.min(4, Math.max(0.01, state.scale * factor));
    state.x = px - ((px - state.x) * next) / state.scale;
    state.y = py - ((py - state.y) * next) / state.scale;
    state.scale = next;
    clamp();
    plan();
  }
  function move(dx, dy) { state.x += dx; state.y += dy; clamp(); plan(); }
  function show(l, t, r, b, most) {
    const pad = 28;
    state.scale = Math.min(most, (width - 2 * pad) / Math.max(1, r - l), (height - 2 * pad) / Math.max(1, b - t));
    state.scale = Math.max(0.01, state.scale);
    state.x = (width - (l + r) * state.scale) / 2;
    state.y = (height - (t + b) * state.scale) / 2;
    plan();
  }
  const fitAll = () => show(0, 0, ...state.view.size, 1.25);
  // At first: all of it if that can be read, else the beginning at a readable size.
  function begin() {
    fitAll();
    if (state.scale >= 0.6) return;
    const { view } = state, first = view.byTop[0];
    state.scale = 0.8;
    state.x = width / 2 - (view.x[first] + view.w[first] / 2) * 0.8;
    state.y = 28;
    plan();
  }
  function fitBoxes(boxes) {
    let [l, t, r, b] = [Infinity, Infinity, -Infinity, -Infinity];
    for (const i of boxes) {
      l = Math.min(l, state.view.x[i]); r = Math.max(r, state.view.x[i] + state.view.w[i]);
      t = Math.min(t, state.view.y[i]); b = Math.max(b, state.view.y[i] + G.H);
    }
    if (l < Infinity) show(l, t, r, b, 1.25);
  }
  // A box that is not well inside the window comes to its middle.
  function reveal(i) {
    if (state.scale < 0.35) state.scale = 0.8;
    const x = state.view.x[i] * state.scale + state.x, y = state.view.y[i] * state.scale + state.y;
    const w = state.view.w[i] * state.scale, h = G.H * state.scale, pad = 24;
    if (x < pad || x + w > width - pad || y < pad || y + h > height - pad) {
      state.x += width / 2 - x - w / 2;
      state.y += height / 2 - y - h / 2;
    }
    plan();
  }
  function select(i, shown = true) {
    state.selected = i;
    if (i >= 0 && shown) reveal(i);
    plan();
    for (const call of watchers.select) call(i);
  }

  // Fingers and mouse: one moves, two scale.
  const down = new Map();
  let travelled = 0;
  canvas.addEventListener("pointerdown", (e) => {
    canvas.setPointerCapture(e.pointerId);
    down.set(e.pointerId, [e.offsetX, e.offsetY]);
    if (down.size === 1) travelled = 0;
    canvas.classList.add("moving");
  });
  canvas.addEventListener("pointermove", (e) => {
    const before = down.get(e.pointerId);
    if (!before) {
      for (const call of watchers.move) call(e, at(e.offsetX, e.offsetY));
      return;
    }
    const now = [e.offsetX, e.offsetY];
    travelled += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
    if (down.size === 1) move(now[0] - before[0], now[1] - before[1]);
    else {
      const other = [...down.entries()].find(([id]) => id !== e.pointerId)[1];
      const far = (p) => Math.hypot(p[0] - other[0], p[1] - other[1]) || 1;
      zoom(far(now) / far(before), other[0], other[1]);
    }
    down.set(e.pointerId, now);
  });
  const at = (px, py) => G.boxAt(state.view, (px - state.x) / state.scale, (py - state.y) / state.scale);
  const lift = (e) => {
    if (down.delete(e.pointerId) && e.type === "pointerup" && travelled < 5) select(at(e.offsetX, e.offsetY), false);
    if (!down.size) canvas.classList.remove("moving");
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerleave", () => RL.hideTip());
  canvas.addEventListener("wheel", (e) => {
    e.preventDefault();
    const pixels = e.deltaMode === 1 ? e.deltaY * 16 : e.deltaY;
    zoom(Math.exp(-pixels * (e.ctrlKey ? 0.01 : 0.0016)), e.offsetX, e.offsetY);
  }, { passive: false });
  new ResizeObserver(resize).observe(canvas.parentElement);
  resize();

  return {
    state, canvas, paint, plan, zoom, move, fitAll, fitBoxes, begin, select, resize, ramp, reveal,
    on: (what, call) => watchers[what].push(call),
  };
})();
